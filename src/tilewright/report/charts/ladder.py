"""The ladder as bars: what was counted of each kernel, and the least time that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilewright.ladder.rung import Climb, Rung
from tilewright.report import figures
from tilewright.report.charts.records import Bar, Bars, Kind

_COUNTS: tuple[tuple[str, Callable[[Rung], int | None], str], ...] = (
    ("Sectors of 32 bytes loaded from global memory", lambda r: r.counts.global_load_sectors, ""),
    (
        "Wavefronts of shared memory, loads and stores",
        lambda r: _sum(r.counts.shared_load_wavefronts, r.counts.shared_store_wavefronts),
        "A wavefront is a clock's work of the 32 banks.",
    ),
    ("Wavefronts that bank conflicts add", lambda r: r.counts.shared_bank_conflicts, ""),
    ("Instructions of warps", lambda r: r.counts.warp_instructions, ""),
)


def charts(climb: Climb) -> tuple[Bars, ...]:
    """Least times on the GPU, and counts; kernels that were not counted are left out.

    >>> import numpy as np
    >>> from tilewright import catalogue, ladder
    >>> ones = np.ones((4, 4), np.float32)
    >>> chosen = ladder.select(catalogue.records(), ["coalesced"])
    >>> [chart.title for chart in charts(ladder.climb(ones, ones, records=chosen, gpu="a100"))][1]
    'Sectors of 32 bytes loaded from global memory, 4 x 4 x 4'
    """
    p = climb.problem
    shape = f"{p.m} x {p.n} x {p.k}"
    return tuple(_charts(climb.rungs, climb.machine.gpu, shape))


def _charts(rungs: Sequence[Rung], gpu: str, shape: str) -> Iterator[Bars]:
    times = tuple(
        Bar(_label(r), r.limits[0].seconds, f"{figures.seconds(r.limits[0].seconds)}, {r.limits[0].name}", "predicted")
        for r in rungs
        if r.limits
    )
    if times:
        note = "What the slowest unit takes at least for what was counted: no GPU of this kind is faster."
        yield Bars(f"Least time on the {gpu}, {shape}", times, note)
    for title, value, note in _COUNTS:
        found = [(r, value(r)) for r in rungs]
        bars = tuple(_bar(r, number, "counted") for r, number in found if number is not None)
        if any(bar.value for bar in bars):
            yield Bars(f"{title}, {shape}", bars, note)


def _bar(rung: Rung, value: int, kind: Kind) -> Bar:
    return Bar(_label(rung), value, figures.count(value), kind)


def _label(rung: Rung) -> str:
    return f"{rung.name}, {rung.dtype}"


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
