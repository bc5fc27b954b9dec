"""The ladder as bars: the counts of each kernel, and the least time that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilewright.show.ladder.rung import Climb, Rung
from tilewright.show.report import figures
from tilewright.show.report.charts.records import Bars, Cell

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
    """Charts of least times on the GPU and of counts; kernels without counts are left out.

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
    labels = _labels(rungs)
    times = tuple(
        Cell(r.limits[0].seconds, f"{figures.seconds(r.limits[0].seconds)}, {r.limits[0].name}", "predicted", label)
        for label, r in zip(labels, rungs, strict=True)
        if r.limits
    )
    if times:
        note = "What the slowest unit takes at least for what was counted: no GPU of this kind is faster."
        yield Bars(f"Least time on the {gpu}, {shape}", times, note)
    for title, value, note in _COUNTS:
        found = [(label, value(r)) for label, r in zip(labels, rungs, strict=True)]
        bars = tuple(Cell(n, figures.count(n), "counted", label) for label, n in found if n is not None)
        if any(bar.value for bar in bars):
            yield Bars(f"{title}, {shape}", bars, note)


def _labels(rungs: Sequence[Rung]) -> list[str]:
    """Names, with dtypes where these differ."""
    differ = len({rung.dtype for rung in rungs}) > 1
    return [f"{rung.name}, {rung.dtype}" if differ else rung.name for rung in rungs]


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
