"""The rules of a launch: the extents and the shared memory that a GPU accepts.

Everything that launches asks `broken`; each front end reports the answer in its own way, as an error or as a finding.

Source: CUDA C++ Programming Guide, appendix "Technical Specifications per Compute Capability"; CUDA Driver API,
`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` and `cuFuncSetAttribute`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.simulate.machine.gpu import Gpu, LaunchLimits

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
