"""The time that each unit of a GPU needs for a launch's PTX, and the launch's position under the roofline.

Only known rates give a time: a unit without a rate in the GPU's record is left out. The assembler may merge accesses
and add spills, so these times hold for the PTX; where it is at hand, a prediction has those of the machine code
(:func:`tilewright.observe.prediction.multiprocessor.works`).

Source: Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009; Nsight Compute, Profiling Guide, "GPU Speed Of Light
Throughput".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.observe.profiling.counts import LANES, SECTOR_BYTES, WAVEFRONT_BYTES, Counts, Served
from tilewright.observe.profiling.record import Position, Traffic, Unit
from tilewright.simulate.machine import Gpu, limiters as names, roofline as roofs

#: Fields of Operations, and the dtype whose peak rate is the roof.
_ROOFS = {"float32": "float32", "float64": "float64", "float16": "float16", "integer": "int32"}


def shared_bytes(counts: Counts) -> int:
    """Bytes by wavefronts of shared memory: 128 for each, full or not."""
    kinds = (counts.shared_loads, counts.shared_stores, counts.shared_atomics)
    return WAVEFRONT_BYTES * sum(kind.wavefronts for kind in kinds)


def l1_bytes(counts: Counts) -> int:
    """Bytes that accesses to global and local memory request from the first level."""
    return sum(kind.bytes_moved for kind in counts.moved)


def _beyond(counts: Counts, sectors: Callable[[Served], int]) -> int:
    """Bytes that go past the first level, counted by `sectors`; 0 if the caches were not modelled."""
    return SECTOR_BYTES * sum(sectors(kind.served) for kind in counts.moved)


def l2_bytes(counts: Counts) -> int:
    """Bytes that reach the second level."""
    return _beyond(counts, lambda served: served.l2_sectors)


def dram_read_bytes(counts: Counts) -> int:
    """Bytes read from DRAM."""
    return _beyond(counts, lambda served: served.dram_sectors)


def _first_stored_bytes(counts: Counts) -> int:
    """Bytes of stores that touched a sector first: they share the write-backs, whose cause is unknown."""
    return _beyond(counts, lambda served: served.l2_allocated)


def written_back(gpu: Gpu, touched_bytes: float, written_bytes: float) -> float:
    """The bytes that memory takes when a launch is repeated, out of those that it writes: none, or all.

    If all that the launch touches fits in the second level, the data stay there until the next launch writes them
    again. Otherwise they are evicted before that.

    >>> from tilewright import machine
    >>> t4 = machine.gpu("t4")  # a second level of 4 MiB
    >>> written_back(t4, 1 << 22, 1 << 20), written_back(t4, 1 << 23, 1 << 20)
    (0, 1048576)
    """
    return 0 if touched_bytes <= gpu.l2_bytes else written_bytes


@dataclass(frozen=True, slots=True)
class _Row:
    """A unit: its work for some counts, in the unit `of`, and the seconds a GPU needs for it; None if unknown."""

    name: str
    of: str
    amount: Callable[[Counts], int]
    seconds: Callable[[Gpu, int, Counts], float | None]


def _moved(level: str) -> Callable[[Gpu, int, Counts], float | None]:
    """The seconds that a level of memory needs."""
    return lambda gpu, amount, counts: roofs.seconds(gpu, level, amount)


def _first_level(gpu: Gpu, amount: int, counts: Counts) -> float | None:
    """Shared memory and the first-level cache share one data pipe."""
    shared, cached = roofs.seconds(gpu, "shared", shared_bytes(counts)), roofs.seconds(gpu, "l1", l1_bytes(counts))
    assert shared is not None
    return shared + (roofs.seconds(gpu, "shared", l1_bytes(counts)) or 0.0 if cached is None else cached)


def _computed(name: str, field: str, a_clock: Callable[[Gpu], int | None]) -> _Row:
    """A unit of arithmetic: it takes whole-warp instructions, however many lanes are active."""

    def amount(counts: Counts) -> int:
        return LANES * int(getattr(counts.mix, field))

    def seconds(gpu: Gpu, amount: int, counts: Counts) -> float | None:
        rate = a_clock(gpu)
        return amount / (rate * _clocks(gpu)) if rate else None

    return _Row(name, "thread instructions", amount, seconds)


def _clocks(gpu: Gpu) -> float:
    """Clocks per second of all multiprocessors together."""
    return gpu.multiprocessors * gpu.boost_mhz * 1e6


#: The units that can bound a launch.
UNITS = (
    _Row(names.DRAM, "bytes", dram_read_bytes, _moved("dram")),
    _Row(names.L2, "bytes", l2_bytes, _moved("l2")),
    _Row(names.L1, "bytes", lambda counts: shared_bytes(counts) + l1_bytes(counts), _first_level),
    _Row(
        names.ISSUE,
        "instructions",
        lambda counts: counts.warp_instructions,
        lambda gpu, amount, counts: amount / (gpu.schedulers * _clocks(gpu)),
    ),
    _computed(names.FMA, "float", lambda gpu: gpu.fp32_per_clock),
    _computed(names.FP64, "double", lambda gpu: gpu.fp64_per_clock),
    _computed(names.FP16, "half", lambda gpu: gpu.fp16_per_clock),
    _computed(names.ALU, "integer", lambda gpu: gpu.int32_per_clock),
)


def units(gpu: Gpu, totals: Counts, moved: Traffic, blocks: int) -> tuple[Unit, ...]:
    """The units of a GPU that have work in a launch, the slowest first.

    A block runs on one multiprocessor: with fewer `blocks` than multiprocessors, the units of the others are idle.
    Without modelled caches the least work of L2 and DRAM is unknown, so they are left out.
    """
    busy = min(1.0, blocks / gpu.multiprocessors)
    amounts = {row.name: row.amount(totals) for row in UNITS}
    if moved.dram_bytes is not None:
        amounts[names.DRAM] = moved.dram_bytes
    rows = ((row, amounts[row.name], row.seconds(gpu, amounts[row.name], totals)) for row in UNITS)
    found = [
        Unit(row.name, amount, row.of, seconds if row.name in (names.DRAM, names.L2) else seconds / busy)
        for row, amount, seconds in rows
        if seconds
    ]
    return tuple(sorted(found, key=lambda unit: -unit.seconds))


#: Limits whose work is another's.
_LIKE = {names.TAGS: names.L1, names.LSU: names.L1, names.MIO: names.L1, names.SHORT: names.L1, names.PIPE: names.FMA}


def work(unit: str, moved: Traffic) -> Callable[[Counts], int]:
    """The work of a unit for some counts, in a launch with this traffic."""
    if unit == names.DRAM and moved.dram_kept_bytes == 0:
        return lambda counts: dram_read_bytes(counts) + _first_stored_bytes(counts)
    if unit == names.LONG:
        return l1_bytes
    like = _LIKE.get(unit, unit)
    return next((row.amount for row in UNITS if row.name == like), lambda counts: counts.warp_instructions)


def traffic(gpu: Gpu, totals: Counts, written_sectors: int | None = None) -> Traffic:
    """Bytes by level of memory; `written_sectors` were written to the second level, None if that is unknown."""
    near = Traffic(shared_bytes(totals), l1_bytes(totals))
    if written_sectors is None:
        return near
    served = Served.total(kind.served for kind in totals.moved)
    read, written = SECTOR_BYTES * served.dram_sectors, SECTOR_BYTES * written_sectors
    touched = SECTOR_BYTES * (served.dram_compulsory + served.l2_allocated)
    back = int(written_back(gpu, touched, written))
    return Traffic(
        near.shared_bytes,
        near.l1_bytes,
        SECTOR_BYTES * served.l2_sectors,
        read,
        back,
        written - back,
        SECTOR_BYTES * served.dram_compulsory,
        SECTOR_BYTES * (served.dram_capacity + served.dram_conflict),
    )


def position(gpu: Gpu, totals: Counts, moved: Traffic) -> Position | None:
    """Operations, and the rate that each level of memory allows; None if nothing was computed.

    Floating-point operations take precedence over integer ones, which compute addresses.
    """
    counted = {name: int(getattr(totals.operations, name)) for name in _ROOFS}
    name = max(("float32", "float64", "float16"), key=lambda field: counted[field])
    name = name if counted[name] else "integer"
    if not counted[name]:
        return None
    levels = {"shared": moved.shared_bytes, "l1": moved.l1_bytes}
    if moved.l2_bytes is not None and moved.dram_bytes is not None:
        levels |= {"l2": moved.l2_bytes, "dram": moved.dram_bytes}
    roof = roofs.roofline(gpu, operations=counted[name], bytes_moved=levels, dtype=_ROOFS[name])
    return Position(_ROOFS[name], counted[name], roof)
