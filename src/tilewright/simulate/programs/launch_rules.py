"""The rules of a launch: the extents and the shared memory that a GPU accepts, and how many blocks it holds at once.

Everything that launches asks `broken`; each front end reports the answer in its own way, as an error or as a finding.

Source: CUDA C++ Programming Guide, appendix "Technical Specifications per Compute Capability" and "Grid
Synchronization"; CUDA Driver API, `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`, `cuFuncSetAttribute` and
`cuLaunchCooperativeKernel`.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import LaunchError, MissingExtraError
from tilewright.simulate.machine import launch_limits
from tilewright.simulate.machine.gpu import Gpu, LaunchLimits
from tilewright.simulate.machine.occupancy import TENSOR_COLUMNS, occupancy
from tilewright.simulate.programs.device_runtime import GRID_HANDLE
from tilewright.simulate.programs.program import Program
from tilewright.simulate.ptx import tree

Extents = tuple[int, int, int]


class Rule(enum.Enum):
    """The limits that a launch must keep."""

    EMPTY = "every extent is at least 1"
    BLOCK = "threads of a block"
    BLOCK_AXIS = "threads of a block in one axis"
    GRID_AXIS = "blocks of a grid in one axis"
    SHARED = "static and dynamic shared memory of a block, together"
    DYNAMIC = "dynamic shared memory that the kernel is allowed"

    @property
    def is_of_extents(self) -> bool:
        """Whether the grid or the block is wrong, rather than the shared memory."""
        return self not in (Rule.SHARED, Rule.DYNAMIC)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a launch breaks."""

    rule: Rule
    sentence: str  #: What must hold, what came, and what to do.
    part: str = ""  #: `grid` or `block`.
    axis: str = ""  #: `x`, `y` or `z`, if the rule is of one axis.
    got: int = 0
    most: int = 0


def default_dynamic_bytes(gpu: Gpu, static: int) -> int:
    """Dynamic shared memory of a kernel that sets no attribute: what its static shared memory leaves of 48 KiB.

    >>> from tilewright import machine
    >>> default_dynamic_bytes(machine.gpu("h100"), 128)
    49024
    """
    return max(0, gpu.launch.shared_per_block_bytes - static)


def most_dynamic_bytes(gpu: Gpu, static: int) -> int:
    """The most dynamic shared memory that a kernel can be allowed: what is left of the opt-in maximum.

    >>> from tilewright import machine
    >>> most_dynamic_bytes(machine.gpu("h100"), 128)
    232320
    """
    return max(0, gpu.shared_per_block_optin_bytes - static)


def broken(
    gpu: Gpu, grid: Extents, block: Extents, static: int = 0, dynamic: int = 0, *, allowed: int | None = None
) -> Iterator[Broken]:
    """The rules that a launch breaks, the most telling first.

    `static` and `dynamic` are bytes of shared memory of a block; `allowed` is the most dynamic shared memory that the
    kernel may have, if it needs permission.

    >>> from tilewright import machine
    >>> [one.rule.name for one in broken(machine.gpu("h100"), (1, 1, 1), (128, 1, 1), 128, 65536, allowed=65536)]
    []
    >>> [one.rule.name for one in broken(machine.gpu("h100"), (1, 1, 1), (128, 16, 1), 128, 65536, allowed=49024)]
    ['BLOCK', 'DYNAMIC']
    """
    yield from broken_extents(gpu.launch, grid, block)
    total, most = static + dynamic, gpu.shared_per_block_optin_bytes
    if dynamic < 0 or total > most:
        yield Broken(
            Rule.SHARED,
            f"static and dynamic shared memory of a block must be at most {most:,} bytes together on the {gpu.name} "
            f"(got {static:,} static and {dynamic:,} dynamic); use smaller tiles, or another GPU (`gpu`, --gpu, "
            "TILEWRIGHT_GPU)",
            got=total,
            most=most,
        )
    elif allowed is not None and dynamic > allowed:
        usual, reason = gpu.launch.shared_per_block_bytes, "as the program has set"
        if allowed == default_dynamic_bytes(gpu, static):
            reason = f"which {static:,} static bytes leave of the usual {usual:,}"
        sentence = f"dynamic shared memory of this kernel must be at most {allowed:,} bytes, {reason} (got {dynamic:,})"
        remedy = f"set its attribute MaxDynamicSharedMemorySize to {dynamic:,} before the launch (cudaFuncSetAttribute)"
        yield Broken(Rule.DYNAMIC, f"{sentence}; {remedy}", got=dynamic, most=allowed)


def broken_extents(limits: LaunchLimits, grid: Extents, block: Extents) -> Iterator[Broken]:
    """The rules of extents that a launch breaks; of an empty one no other."""
    if min(*grid, *block) >= 1 and math.prod(block) <= limits.threads_per_block:
        if all(map(operator.le, (*grid, *block), (*limits.grid_extents, *limits.block_extents))):
            return
    parts = (("grid", "blocks", grid, limits.grid_extents), ("block", "threads", block, limits.block_extents))
    for part, of, extents, _ in parts:
        for axis, extent in zip("xyz", extents, strict=True):
            if extent < 1:
                sentence = f"`{part}` must have at least 1 of its {of} in {axis} (got {_shown(extents)}); round up"
                yield Broken(Rule.EMPTY, sentence, part, axis, extent, 1)
                return
    threads, most = math.prod(block), limits.threads_per_block
    if threads > most:
        sentence = f"`block` must have at most {most:,} threads (got {threads:,}: {_shown(block)})"
        yield Broken(Rule.BLOCK, f"{sentence}; use smaller blocks and a larger grid", "block", "", threads, most)
    for part, of, extents, largest in parts:
        if part == "block" and threads > most:
            continue
        rule = Rule.GRID_AXIS if part == "grid" else Rule.BLOCK_AXIS
        for axis, extent, most_of_axis in zip("xyz", extents, largest, strict=True):
            if extent > most_of_axis:
                sentence = f"`{part}` must have at most {most_of_axis:,} {of} in {axis} (got {extent:,})"
                yield Broken(rule, f"{sentence}; {_REMEDIES[rule]}", part, axis, extent, most_of_axis)


_REMEDIES = {
    Rule.BLOCK_AXIS: "put the long axis in x",
    Rule.GRID_AXIS: "put the long axis in x, or let each block do several parts in a loop",
}


def _shown(extents: Extents) -> str:
    return " x ".join(f"{extent:,}" for extent in extents)


def checked_extents(kernel: str, grid: int | Sequence[int], block: int | Sequence[int]) -> tuple[Extents, Extents]:
    """Return the grid and the block of a launch as (x, y, z) each.

    Missing extents are 1; `kernel` is the kernel's name, for messages.

    Raises LaunchError: no GPU would accept them.

    >>> checked_extents("k", 5, (16, 16))
    ((5, 1, 1), (16, 16, 1))
    """
    blocks, threads = _extent(kernel, "grid", grid), _extent(kernel, "block", block)
    for wrong in broken_extents(launch_limits(), blocks, threads):
        raise LaunchError(f"{kernel}: {wrong.sentence}")
    return blocks, threads


def given_extents(kernel: str, grid: int | Sequence[int], block: int | Sequence[int]) -> tuple[Extents, Extents]:
    """Grid and block with extents from 0, even those that no GPU accepts; negative ones are refused.

    >>> given_extents("k", 0, (2048, 2))
    ((0, 1, 1), (2048, 2, 1))
    """
    blocks, threads = _extent(kernel, "grid", grid), _extent(kernel, "block", block)
    return (blocks, threads) if min(*blocks, *threads) >= 0 else checked_extents(kernel, grid, block)


def cluster_extents(kernel: str, value: int | Sequence[int] | None) -> Extents | None:
    """Blocks of a cluster as (x, y, z); None if the launch gives none.

    Raises LaunchError: `value` is no extent.

    >>> cluster_extents("k", (2, 2))
    (2, 2, 1)
    """
    if value is None:
        return None
    extents, most = _extent(kernel, "cluster", value), launch_limits().cluster_blocks
    for axis, extent in zip("xyz", extents, strict=True):
        if not 1 <= extent <= most:
            raise LaunchError(f"{kernel}: `cluster` must be between 1 and {most} in {axis} (got {extent:,})")
    return extents


def _extent(kernel: str, name: str, value: Any) -> Extents:
    parts = (value,) if isinstance(value, int | np.integer) else value
    if (
        not isinstance(parts, Sequence)
        or not 1 <= len(parts) <= 3
        or not all(isinstance(part, int | np.integer) and not isinstance(part, bool) for part in parts)
    ):
        raise LaunchError(f"{kernel}: `{name}` must be an integer or 1 to 3 of them, x first (got {value!r})")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    return x, y, z


def active_blocks(gpu: Gpu, registers: int, shared_bytes: int, threads: int) -> int:
    """Blocks that a multiprocessor holds at once, as the driver counts them: without tensor memory."""
    found = occupancy(gpu, registers_per_thread=registers, shared_bytes=shared_bytes, block_threads=threads)
    return found.active_blocks


def tensor_columns(program: Program) -> int:
    """Columns of tensor memory that a block allocates, by the text: the sum of all allocations, at most 512.

    A number that is in a register counts where the register is set once, to a constant.
    """
    columns = 0
    for function in program.module.functions.values():
        items = [item for item in function.body if isinstance(item, tree.Instruction)]
        for item in items:
            if item.name.startswith("tcgen05.alloc.") and len(item.operands) == 2:
                columns += _constant(items, item.operands[1])
    return min(columns, TENSOR_COLUMNS)


def _constant(items: list[tree.Instruction], operand: tree.Operand) -> int:
    """The value of an operand, 0 if it is not constant."""
    if isinstance(operand, tree.Register):
        sets = [item for item in items if operand in item.operands[:1] and item.name.startswith("mov.")]
        operand = sets[0].operands[1] if len(sets) == 1 else operand
    return operand.value if isinstance(operand, tree.Immediate) and operand.value > 0 else 0


def waits_for_grid(program: Program) -> bool:
    """Whether numba-cuda launches a kernel cooperatively."""
    return program.abi == "numba" and GRID_HANDLE in program.module.functions


def resident_blocks(program: Program, gpu: Gpu, block: tuple[int, int, int], dynamic_shared_bytes: int) -> int:
    """Blocks of a kernel that a GPU holds at once.

    The assembler gives the registers; without an assembler they set no limit.
    """
    try:
        registers = program.resources(program.cc).registers_per_thread
    except MissingExtraError:
        registers = 1
    found = occupancy(
        gpu,
        registers_per_thread=max(registers, 1),
        shared_bytes=program.shared_bytes + dynamic_shared_bytes,
        block_threads=math.prod(block),
        tensor_columns=tensor_columns(program),
    )
    return found.active_blocks * gpu.multiprocessors


def too_many(
    program: Program, gpu: Gpu, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_shared_bytes: int
) -> str:
    """The fault of a cooperative launch with too many blocks; "" where all are resident at once."""
    blocks, resident = math.prod(grid), resident_blocks(program, gpu, block, dynamic_shared_bytes)
    if blocks <= resident:
        return ""
    return (
        f"the grid has {blocks:,} blocks of {math.prod(block):,} threads, but the {gpu.name} holds {resident:,} of "
        "them at once"
    )
