"""How many blocks of a kernel a GPU holds at once, and so how many may wait for each other.

Source: CUDA C++ Programming Guide, "Grid Synchronization"; CUDA Driver API, "cuLaunchCooperativeKernel".
"""

from __future__ import annotations

import math

from tilewright.errors import MissingExtraError
from tilewright.simulate.machine.gpu import Gpu
from tilewright.simulate.machine.occupancy import TENSOR_COLUMNS, occupancy
from tilewright.simulate.programs.device_runtime import GRID_HANDLE
from tilewright.simulate.programs.program import Program
from tilewright.simulate.ptx import tree


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
