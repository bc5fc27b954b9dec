"""How many blocks of a kernel a GPU holds at once, and so how many may wait for each other.

Source: CUDA C++ Programming Guide, "Grid Synchronization"; CUDA Driver API, "cuLaunchCooperativeKernel".
"""

from __future__ import annotations

import math

from tilewright.errors import MissingExtraError
from tilewright.machine.gpu import Gpu
from tilewright.machine.occupancy import occupancy
from tilewright.programs.device_runtime import GRID_HANDLE
from tilewright.programs.program import Program


def active_blocks(gpu: Gpu, registers: int, shared_bytes: int, threads: int) -> int:
    """Blocks that a multiprocessor holds at once."""
    found = occupancy(gpu, registers_per_thread=registers, shared_bytes=shared_bytes, block_threads=threads)
    return found.active_blocks


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
    shared_bytes = program.shared_bytes + dynamic_shared_bytes
    return active_blocks(gpu, max(registers, 1), shared_bytes, math.prod(block)) * gpu.multiprocessors


def too_many(
    program: Program, gpu: Gpu, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_shared_bytes: int
) -> str:
    """What is wrong with the number of blocks of a cooperative launch; "" where all are resident at once."""
    blocks, resident = math.prod(grid), resident_blocks(program, gpu, block, dynamic_shared_bytes)
    if blocks <= resident:
        return ""
    return (
        f"the grid has {blocks:,} blocks of {math.prod(block):,} threads, but the {gpu.name} holds {resident:,} of "
        "them at once"
    )
