"""Ranks the catalogue's kernels for a product, from the records of kernels and GPU alone: compiles nothing.

The estimate is the time of the multiprocessor with the most tiles of C. A step of k of one tile takes the time of the
busiest of four units: multiply-adds, instruction issue, reads of shared memory, and L2. The wait of a tile of k for
memory is added if no other block hides it. The constants here were fitted to the times of :mod:`tilewright.prediction`,
which simulates a multiprocessor (`benchmarks/ranking.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.backends.protocol import Ranked
from tilewright.errors import DeviceError
from tilewright.kernels import catalogue
from tilewright.kernels.record import Record
from tilewright.machine import Gpu, launch_limits
from tilewright.machine.gpu import WARP_LANES
from tilewright.machine.timing import Timing, timing
from tilewright.problem.algebra import Semiring
from tilewright.problem.bounds import Bound
from tilewright.problem.dtypes import element
from tilewright.problem.expression import Expression, identity
from tilewright.problem.kind import Kind

if TYPE_CHECKING:
    from tilewright.programs.program import Program

#: The error bound that an order of summation allows; an order that is not here allows only the canonical bits.
ALLOWED = {"tf32x3": Bound(1, 64), "fast": Bound(math.inf, math.inf)}
#: Rows and columns for which the order of sums is chosen: an element's bits must not depend on m and n.
_LARGE = 4096
#: Clocks of a tile of k for its stores, barriers and addresses, beside the latency of memory.
_TILE_CLOCKS = 120
#: Registers of a thread that hold no results, and those for each result.
_REGISTERS, _A_RESULT = 32, 1.3
#: The share of the tensor cores' rate that is left if a warp reads its fragments into registers: before products of
#: them, and while it multiplies others.
_FED, _FED_AHEAD = 0.6, 0.8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that can multiply a kind of product, compiled for a dtype."""

    record: Record
    dtype: str
    operations: int = 1  #: Operations of a step of its sums; a multiply-add is one.
    #: What the kernel makes of its sums: the kind's finish, or a conversion to C's dtype; None if it writes a C of its
    #: own dtype.
    finish: Expression | None = None

    @property
    def made(self) -> str:
        """The dtype of C that the kernel writes."""
        return element(self.dtype).product if self.finish is None else self.finish.dtype

    def program(self, cc: tuple[int, int], algebra: Semiring | None = None, batch: bool = False) -> Program:
        """Compile the kernel for a compute capability, as :meth:`Record.program`."""
        return self.record.program(self.dtype, cc, finish=self.finish, algebra=algebra, batch=batch)


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernels that can multiply a product, the fastest first: at least one."""

    candidates: tuple[Candidate, ...]
    ranking: tuple[Ranked, ...]  #: The estimate of each.

    @property
    def best(self) -> Candidate:
        """The fastest."""
        return self.candidates[0]


def summed(kind: Kind) -> str:
    """The dtype of the kernel for the sums: sums modulo 2^32 have the same bits signed and unsigned."""
    plain = kind.algebra is None and kind.finish is None
    return "int32" if plain and kind.accumulator == "uint32" else kind.accumulator


@functools.lru_cache(maxsize=1024)
def chosen(
    kind: Kind,
    m: int,
    n: int,
    k: int,
    gpu: Gpu,
    cc: tuple[int, int],
    columns: tuple[bool, bool] = (False, False),
    batch: int = 1,
) -> Choice:
    """The kernels for a batch of matrices of C, of shape (m, n), the fastest estimate first.

    `columns` says for A and B whether columns are contiguous: of kernels that differ only in this, the one that copies
    least is kept. All kernels have the same order of sums, which `k` alone decides: an element's bits do not depend on
    m, n and the batch.

    Raises DeviceError: no kernel takes the product.

    Examples
    --------
    >>> from tilewright.machine import gpu
    >>> single = Kind(*["float32"] * 4)
    >>> [chosen(single, m, m, m, gpu("h100"), (9, 0)).best.record.name for m in (40, 2000)]
    ['shared_memory_16', 'warp_tiled']
    """
    allowed = _allowed(kind, cc)
    chain = _chain(allowed, k, gpu)
    found = [
        (one, estimate(one, m, n, k, gpu, batch))
        for one in allowed
        if one.record.chain == chain and one.record.accepts(rows_of(one.record, m), n, k, one.dtype) is None
    ]
    if not found:
        raise DeviceError(
            f"extents for a kernel of the catalogue must fit its grid (got {m}, {n}, {k} in {summed(kind)})"
        )
    found = [each for each in found if not _copies_more(each[0].record, columns, [one.record for one, _ in found])]
    found.sort(key=lambda each: each[1].seconds)
    return Choice(tuple(one for one, _ in found), tuple(ranked for _, ranked in found))


def _copies_more(record: Record, columns: tuple[bool, bool], others: Sequence[Record]) -> bool:
    """Whether another record differs only in the layout of operands, and copies fewer of them."""

    def copied(one: Record) -> int:
        return sum(wanted != lies for wanted, lies in zip(one.columns, columns, strict=True))

    def rest(one: Record) -> tuple[object, ...]:
        return one.operands, one.chain, one.tile, one.stages, one.cluster

    return record.operands == "boxes" and any(
        rest(one) == rest(record) and copied(one) < copied(record) for one in others
    )


def by_columns(strides: Sequence[int]) -> bool:
    """Whether a column's elements are nearer to each other than a row's, by a matrix's strides.

    >>> by_columns((400, 4)), by_columns((4, 400))
    (False, True)
    """
    return abs(strides[-2]) < abs(strides[-1])


def rows_of(record: Record, m: int) -> int:
    """How many of m rows one launch computes: the grid has a limit. Planes are not cut."""
    return m if record.planes else min(m, record.tile[0] * launch_limits().grid_extents[1])


@functools.lru_cache(maxsize=256)
def _allowed(kind: Kind, cc: tuple[int, int]) -> tuple[Candidate, ...]:
    """The kernels that an order of summation and a compute capability allow, the top of the ladder first."""
    found = []
    for record in reversed(catalogue.records()):
        if record.backend != "gpu" or record.published or not record.chain or record.unfit(cc):
            continue
        one = _candidate(record, kind)
        if one is not None and (record.bound is None or record.bound.within(ALLOWED.get(kind.order))):
            found.append(one)
    return tuple(found)


def _candidate(record: Record, kind: Kind) -> Candidate | None:
    """A kernel for operands of a kind; None if it does not take them.

    It takes operands in their own dtype, or tensor cores in one that holds both, if its sums are those of the kind.
    Else they are converted to the dtype of the sums; only canonical kernels give the same sums then.
    """
    if record.algebras:
        fits = kind.algebra is not None and kind.finish is None and record.has(kind.algebra)
        own = fits and kind[:4] == (kind.a,) * 4 and kind.a in record.dtypes
        return Candidate(record, kind.a) if own else None
    asked = {"algebra": kind.algebra, "epilogue": kind.finish}
    if not {name for name, given in asked.items() if given is not None}.issubset(record.takes):
        return None
    if (name := _read_as(record, kind)) and _right(record.sums(name), kind):
        if kind.finish is not None or element(name).product == kind.out:
            return Candidate(record, name, finish=kind.finish)
        if "epilogue" in record.takes:
            return Candidate(record, name, finish=identity(record.sums(name), kind.out))
    total = summed(kind)
    exact = kind.finish is None or record.sums(total) == total
    if record.bound is None and total in record.dtypes and exact:
        return Candidate(record, total, 1 if kind.algebra is None else kind.algebra.cost, kind.finish)
    return None


def _read_as(record: Record, kind: Kind) -> str:
    """The dtype in which a kernel reads operands, without a loss; "" if there is none."""
    if kind.algebra is not None:
        return ""
    if kind.a == kind.b and kind.a in record.dtypes:
        return kind.a
    both = [element(name) for name in (kind.a, kind.b)]
    wider = (name for name in record.dtypes if record.tensor and all(element(name).holds(one) for one in both))
    return next(wider, "")


def _right(sums: str, kind: Kind) -> bool:
    """Whether C is the same from sums in another dtype: integers are, if C has no more bits and nothing precedes it."""
    if sums == kind.accumulator:
        return True
    integers = not any(element(name).is_float for name in (sums, kind.accumulator, kind.out))
    return kind.finish is None and integers and element(kind.out).bytes <= element(sums).bytes


def lacks_bits(kind: Kind, cc: tuple[int, int]) -> str:
    """Why no kernel multiplies booleans as bytes by their algebra; "" if one does."""
    return "" if _allowed(kind, cc) else "no kernel for this GPU multiplies booleans by this algebra unpacked"


def dtypes_of_sums() -> tuple[str, ...]:
    """The dtypes in which canonical kernels sum on every GPU."""
    kinds = (record for record in catalogue.records() if record.backend == "gpu" and record.chain == "canonical")
    return tuple(
        dict.fromkeys(
            name for record in kinds for name in record.dtypes if name == record.sums(name) and not record.algebras
        )
    )


def _chain(allowed: tuple[Candidate, ...], k: int, gpu: Gpu) -> str:
    """The order of sums of the fastest kernel for a product so large that its shape does not matter."""
    if len({one.record.chain for one in allowed}) == 1:
        return allowed[0].record.chain
    best = min(allowed, key=lambda one: estimate(one, _LARGE, _LARGE, k, gpu).seconds, default=None)
    return best.record.chain if best else ""


def matrices_of(record: Record) -> int:
    """How many matrices of C one launch computes: the grid has a limit."""
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
    limiter = "latency" if each * working < clocks / 2 else unit
    seconds = clocks / (gpu.boost_mhz * 1e6)
    of_operand = record.planes.bytes if record.planes else element(one.dtype).bytes
    moved = (m * k + k * n) * of_operand + m * n * element(one.made).bytes
    memory = batch * moved / (gpu.memory_gb_per_s * 1e9)
    if memory > seconds:
        seconds, limiter = memory, "memory"
    if parts > 1:  # one block writes their sums and another reads them
        seconds += 8 * parts * m * n / (gpu.memory_gb_per_s * 1e9)
    waves = tiles / (resident * gpu.multiprocessors)
    seconds += rates.launch_us * 1e-6 + splitting(one, m, n, k, gpu)
    return Ranked(record.name, seconds, limiter, waves, "estimated", _stated(record))


def splitting(one: Candidate, m: int, n: int, k: int, gpu: Gpu) -> float:
    """Seconds of the launches before a kernel that takes planes, one for each operand; 0 for other kernels."""
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
    found = {"second level": sectors / rates.l2_sectors}
    if record.tensor:
        share = 1.0 if record.operands == "boxes" else rates.mma_share * (_FED_AHEAD if record.ahead else _FED)
        if record.sums(one.dtype) == "float32":
            share *= gpu.tensor_float32_share
        rate = gpu.tensor_per_clock.get(record.tensor, 0) * share
        # A unit whose rate no source gives is left out.
        return found | ({"tensor cores": products * record.passes / rate} if rate else {})
    words = max(1, size // 4)
    reads = sum(record.results) * record.reads
    # The low half of a 64-bit product is three 32-bit products, the first of which gives both halves.
    whole = 1 if element(one.dtype).is_float else words**2
    rate = {"float64": gpu.fp64_per_clock, "float32": gpu.fp32_per_clock}.get(one.dtype, gpu.int32_per_clock)
    steps = one.operations * whole
    return found | {
        "multiply-adds": products * steps / rate,
        "instruction issue": warps
        / min(warps, gpu.schedulers)
        * (math.prod(record.results) * steps + reads + record.beside),
        "shared memory": max(warps, gpu.schedulers) * reads * words * 128 / gpu.shared_bytes_per_clock,
    }


def _waited(record: Record, turns: int, rates: Timing) -> float:
    """Clocks over `turns` tiles in which memory latency is not hidden, by other blocks or by enough warps."""
    of_memory = (rates.dram + _TILE_CLOCKS) * max(1.0, turns / record.stages)
    if record.tensor:
        return of_memory
    shared = rates.latency("result", "shared", 4) * min(1.0, 4 * WARP_LANES / math.prod(record.block))
    return of_memory + shared * turns * record.depth


def _resident(record: Record, size: int, gpu: Gpu) -> int:
    """Resident blocks of a multiprocessor, by threads and estimates of registers and shared memory."""
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
