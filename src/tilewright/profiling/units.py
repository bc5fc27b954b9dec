"""How long each unit of a GPU must work for a launch at least, and where the launch stands under the roofline.

Only what is known is bounded: a unit whose rate the GPU's record lacks is left out. The longest of these times is the
bound; a GPU reaches it when everything else hides behind that unit.

Source: Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009; Nsight Compute, Profiling Guide, "GPU Speed Of Light
Throughput". Rates of instructions: CUDA Programming Guide, "Throughput of Native Arithmetic Instructions"; a
multiprocessor's partitions issue one instruction of a warp a clock each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.machine import Gpu
from tilewright.profiling.counts import LANES, SECTOR_BYTES, WAVEFRONT_BYTES, Counts
from tilewright.profiling.record import Roofline, Traffic, Unit

#: Field of Operations, and the dtype whose peak rate is its roof.
_ROOFS = {"float32": "float32", "float64": "float64", "integer": "int32"}


def traffic(totals: Counts) -> Traffic:
    """Bytes by level of memory, as far as the counts tell."""
    moved = totals.in_global + totals.in_local
    return Traffic(WAVEFRONT_BYTES * totals.in_shared.wavefronts, moved.bytes_moved)


def first_level_wavefronts(totals: Counts) -> int:
    """Cycles of the pipe that shared memory and the first-level cache have in common, 128 bytes each."""
    moved = totals.in_global + totals.in_local
    return totals.in_shared.wavefronts + -(-moved.bytes_moved // WAVEFRONT_BYTES)


def dram_bytes(counts: Counts) -> int:
    """Bytes that reads, and stores' first touches, move to or from DRAM; all of the first level's without a model."""
    moved = counts.in_global + counts.in_local
    served = moved.served
    return SECTOR_BYTES * (served.dram_sectors + served.l2_allocated) if served else moved.bytes_moved


@dataclass(frozen=True, slots=True)
class _Row:
    """A unit: what it has to do for some counts, and what a GPU's does a second; 0 where that is not known."""

    name: str
    of: str
    amount: Callable[[Counts], int]
    rate: Callable[[Gpu], float]


def _clocks(gpu: Gpu) -> float:
    """Clocks a second of all multiprocessors together."""
    return gpu.multiprocessors * gpu.boost_mhz * 1e6


#: The units that may bound a launch. A wavefront takes the pipe of the first level one clock.
UNITS = (
    _Row("DRAM", "bytes", dram_bytes, lambda gpu: gpu.memory_gb_per_s * 1e9),
    _Row("shared memory and L1", "wavefronts", first_level_wavefronts, _clocks),
    _Row("instruction issue", "instructions", lambda c: c.warp_instructions, lambda gpu: gpu.warp_unit * _clocks(gpu)),
    _Row(
        "float32 arithmetic", "thread instructions",
        lambda c: LANES * c.mix.float, lambda gpu: gpu.fp32_per_clock * _clocks(gpu),
    ),
    _Row(
        "float64 arithmetic", "thread instructions",
        lambda c: LANES * c.mix.double, lambda gpu: gpu.fp64_per_clock * _clocks(gpu),
    ),
    _Row(
        "integer arithmetic", "thread instructions",
        lambda c: LANES * c.mix.integer, lambda gpu: (gpu.int32_per_clock or 0) * _clocks(gpu),
    ),
)  # fmt: skip


def units(gpu: Gpu, totals: Counts) -> tuple[Unit, ...]:
    """The units of a GPU that had something to do, the slowest first."""
    rows = ((row, row.amount(totals), row.rate(gpu)) for row in UNITS)
    found = [Unit(row.name, amount, row.of, rate, amount / rate) for row, amount, rate in rows if amount and rate]
    return tuple(sorted(found, key=lambda unit: -unit.seconds))


def work(unit: str) -> Callable[[Counts], int]:
    """What a unit has to do for some counts."""
    return next(row.amount for row in UNITS if row.name == unit)


def roofline(gpu: Gpu, totals: Counts, moved: Traffic, slowest: Unit | None) -> Roofline | None:
    """Operations, intensities and the attainable rate; None where nothing was computed.

    Floating-point operations go before integers, which addresses are made of.
    """
    done = totals.operations
    counted = {name: getattr(done, name) for name in _ROOFS}
    name = max(("float32", "float64"), key=lambda field: counted[field])
    name = name if counted[name] else "integer"
    if not counted[name] or slowest is None:
        return None
    levels = {
        "shared": moved.shared_bytes,
        "l1": moved.l1_bytes,
        "l2": moved.l2_bytes,
        "dram": None if moved.dram_read_bytes is None else moved.dram_read_bytes + (moved.dram_written_bytes or 0),
    }
    rates = {"float32": gpu.fp32_per_clock, "float64": gpu.fp64_per_clock, "int32": gpu.int32_per_clock}
    known = rates[_ROOFS[name]] is not None
    return Roofline(
        dtype=name,
        operations=counted[name],
        intensity={level: counted[name] / size for level, size in levels.items() if size},
        attainable_gflops=counted[name] / slowest.seconds / 1e9,
        peak_gflops=gpu.peak_gflops(_ROOFS[name]) if known else 0.0,
    )
