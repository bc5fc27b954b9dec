"""Estimates a kernel's time from the records of the kernel and the GPU, without compiling the kernel.

The estimate is the time of the multiprocessor with the most tiles of C. Each step along k takes the time of the busiest
of four units: multiply-adds, instruction issue, reads of shared memory, and L2. Memory latency is added where no other
block hides it. The constants here were fitted to the times of :mod:`tilewright.prediction`,
which simulates a multiprocessor (`benchmarks/ranking.py`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.multiply.backends.ranked import Ranked
from tilewright.multiply.kernels.record import Record
from tilewright.multiply.problem.algebra import Semiring
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression
from tilewright.simulate.machine import Gpu, launch_limits, limiters
from tilewright.simulate.machine.gpu import WARP_LANES
from tilewright.simulate.machine.timing import Timing, timing

if TYPE_CHECKING:
    from tilewright.simulate.programs.program import Program

#: Clocks that a stage of k takes beside memory latency: its stores to shared memory, barriers and addresses.
_TILE_CLOCKS = 120
#: Registers of a thread beside those for its results, and registers for each 32-bit result.
_REGISTERS, _A_RESULT = 32, 1.3
#: Share of the tensor cores' peak rate that a kernel reaches if its warps load fragments into registers: _FED if a warp
#: loads them and then multiplies, _FED_AHEAD if it loads the next fragments while it multiplies.
_FED, _FED_AHEAD = 0.6, 0.8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that can compute the requested product, and the dtype that it is compiled for."""

    record: Record
    dtype: str
    operations: int = 1  #: Operations for each product that is added to a sum; a multiply-add is one.
    #: The epilogue that the kernel applies to its sums, or a conversion to C's dtype; None if it stores C in the dtype
    #: that products of `dtype` have.
    finish: Expression | None = None

    @property
    def made(self) -> str:
        """The dtype of C that the kernel writes."""
        return element(self.dtype).product if self.finish is None else self.finish.dtype

    def program(self, cc: tuple[int, int], algebra: Semiring | None = None, batch: bool = False) -> Program:
        """Compile the kernel for a compute capability, as :meth:`Record.program`."""
        return self.record.program(self.dtype, cc, finish=self.finish, algebra=algebra, batch=batch)


def rows_of(record: Record, m: int) -> int:
    """How many of m rows one launch computes; the extent of the grid, or of the kernel's planes, is limited."""
    blocks = record.planes.most_lines // record.tile[0] if record.planes else launch_limits().grid_extents[1]
    return min(m, record.tile[0] * blocks)


def matrices_of(record: Record) -> int:
    """The most matrices of C that one launch can compute; the extent of the grid is limited."""
    return launch_limits().grid_extents[2] if "batch" in record.takes else 1


@functools.lru_cache(maxsize=4096)
def estimate(one: Candidate, m: int, n: int, k: int, gpu: Gpu, batch: int = 1) -> Ranked:
    """The estimated time of a kernel for a batch of matrices of C, of shape (m, n)."""
    at_once = min(batch, matrices_of(one.record))
    found = _of_launch(one, m, n, k, gpu, at_once)
    return found if batch == at_once else replace(found, seconds=found.seconds * batch / at_once)


def _of_launch(one: Candidate, m: int, n: int, k: int, gpu: Gpu, batch: int) -> Ranked:
    """The estimated time of one launch."""
    record, rates = one.record, timing(gpu)
    rows, columns = (-(-extent // tile) for extent, tile in zip((m, n), record.tile, strict=True))
    rows = -(-rows // record.cluster) * record.cluster
    parts = record.launch_rule(rows_of(record, m), n, k).grid[2] if record.split and not record.resident else 1
    tiles, turns = batch * rows * columns * parts, -(-k // (parts * record.depth))
    resident = _resident(record, element(one.dtype).bytes, gpu)
    each: float = -(-tiles // gpu.multiprocessors)
    if record.split and record.resident:  # the steps of all tiles are distributed evenly
        each = max(tiles / gpu.multiprocessors, 1 / max(1, k // record.split))
    busy = _busy(one, gpu, rates)
    unit = max(busy, key=lambda name: busy[name])
    working = busy[unit] * turns * record.depth
    alone = working + _waited(record, turns, rates)
    full, rest = divmod(each, resident)
    clocks = full * max(resident * working, alone) + (max(rest * working, alone) if rest else 0)
    limiter = limiters.LONG if each * working < clocks / 2 else unit
    seconds = clocks / (gpu.boost_mhz * 1e6)
    of_operand = record.planes.bytes if record.planes else element(one.dtype).bytes
    moved = (m * k + k * n) * of_operand + m * n * element(one.made).bytes
    memory = batch * moved / (gpu.memory_gb_per_s * 1e9)
    if memory > seconds:
        seconds, limiter = memory, limiters.DRAM
    if parts > 1:  # one block writes their sums and another reads them
        seconds += 8 * parts * m * n / (gpu.memory_gb_per_s * 1e9)
    waves = tiles / (resident * gpu.multiprocessors)
    seconds += rates.launch_us * 1e-6 + splitting(one, m, n, k, gpu)
    return Ranked(record.name, seconds, limiter, waves, "estimated", _stated(record))


def splitting(one: Candidate, m: int, n: int, k: int, gpu: Gpu) -> float:
    """Seconds to split both operands into planes, one launch each; 0 for a kernel that takes no planes."""
    planes = one.record.planes
    if planes is None:
        return 0.0
    moved = (m * k + k * n) * (element(one.dtype).bytes + planes.bytes)
    return moved / (gpu.memory_gb_per_s * 1e9) + 2 * timing(gpu).launch_us * 1e-6


def _stated(record: Record) -> str:
    return "" if record.bound is None else str(record.bound)


def _busy(one: Candidate, gpu: Gpu, rates: Timing) -> dict[str, float]:
    """Clocks that a step of k of one tile takes in each unit of a multiprocessor."""
    record, size = one.record, element(one.dtype).numpy.itemsize
    products, warps = math.prod(record.tile), math.prod(record.block) / WARP_LANES
    of_operand = record.planes.copied if record.planes else size
    # B is copied once for all blocks of a cluster
    sectors = (record.tile[0] + record.tile[1] / record.cluster) * of_operand / gpu.sector_bytes
    found = {limiters.L2: sectors / rates.l2_sectors}
    if record.tensor:
        share = 1.0 if record.operands == "boxes" else rates.mma_share * (_FED_AHEAD if record.ahead else _FED)
        if record.sums(one.dtype) == "float32":
            share *= gpu.tensor_float32_share
        rate = gpu.tensor_per_clock.get(record.tensor, 0) * share
        # A unit whose rate no source gives is left out.
        return found | ({limiters.TENSOR: products * record.passes / rate} if rate else {})
    words = max(1, size // 4)
    reads = sum(record.results) * record.reads
    # The low half of a 64-bit product takes four 32-bit multiplies: both halves of one product, low halves of two.
    whole = 1 if element(one.dtype).is_float else words**2
    arithmetic, rate = {
        "float64": (limiters.FP64, gpu.fp64_per_clock),
        "float32": (limiters.FMA, gpu.fp32_per_clock),
    }.get(one.dtype, (limiters.ALU, gpu.int32_per_clock))
    steps = one.operations * whole
    issued = math.prod(record.results) * steps + reads + record.beside
    return found | {
        arithmetic: products * steps / rate,
        limiters.ISSUE: warps / min(warps, gpu.schedulers) * issued,
        limiters.L1: max(warps, gpu.schedulers) * reads * words * 128 / gpu.shared_bytes_per_clock,
    }


def _waited(record: Record, turns: int, rates: Timing) -> float:
    """Clocks of memory latency over `turns` stages of k, if no other block hides it."""
    of_memory = (rates.dram + _TILE_CLOCKS) * max(1.0, turns / record.stages)
    if record.tensor:
        return of_memory
    shared = rates.latency("result", "shared", 4) * min(1.0, 4 * WARP_LANES / math.prod(record.block))
    return of_memory + shared * turns * record.depth


def _resident(record: Record, size: int, gpu: Gpu) -> int:
    """Resident blocks of a multiprocessor, from its threads, shared memory and an estimate of registers."""
    threads = math.prod(record.block)
    registers = _REGISTERS + _A_RESULT * math.prod(record.results) * max(1, size // 4)
    limits = [
        gpu.blocks_per_multiprocessor,
        gpu.threads_per_multiprocessor // threads,
        gpu.registers_per_multiprocessor // round(threads * registers),
    ]
    if record.shared_bytes:
        limits.append(gpu.shared_per_multiprocessor_bytes // record.shared_bytes)
    return max(1, min(limits))
