"""A sweep as charts: rate against size, with peers and roofs, and rate by size and edge of a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.show.rates.record import Point, Rate, Sweep
from tilewright.show.rates.tables import SourceTable, table
from tilewright.show.rates.turns import NOISY
from tilewright.show.report import figures
from tilewright.show.report.charts.records import Axis, Cell, Chart, Heat, Lines, Series
from tilewright.simulate import machine
from tilewright.simulate.machine.roofline import roofline

#: Most lines of a readable chart; beyond, each device has its own chart.
_MOST_LINES = 9
#: The three matrices, each moved once.
_MATRICES = 3
#: The quantity that the columns of a source's table vary.
_COLUMNS = {"block": "edge of a block", "results": "results per thread", "contender": "kernel"}


@dataclass(frozen=True, slots=True)
class _Line:
    """The key of a line's points."""

    contender: str
    device: str
    dtype: str
    caches: str
    kind: str
    block: int

    @staticmethod
    def of(rate: Rate) -> _Line:
        point = rate.point
        return _Line(point.contender, point.device, point.dtype, point.caches, rate.kind, point.block)


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """Charts of square products: for each dtype rate against size, and for kernels with blocks a table.

    >>> rates = tuple(
    ...     Rate(Point("tiled", "a6000", "float32", n, n, n, 16, 1, "cold"), "predicted", n / 1e6, n / 2e6, n / 5e5)
    ...     for n in (64, 128)
    ... )
    >>> (chart,) = charts(Sweep({}, {}, rates))
    >>> chart.title, [(one.name, one.kind) for one in chart.series]
    ('float32 rate against size', [('tiled, a6000', 'predicted'), ('roof of a6000', 'limit')])
    """
    name = sweep.plan.get("table")
    source = table(name) if name else None
    square = [rate for rate in sweep.rates if _is_square(rate.point) and not rate.wrong and not rate.failed]
    dtypes = dict.fromkeys(rate.point.dtype for rate in square)
    found = [
        chart for dtype in dtypes for chart in _of_dtype(dtype, [r for r in square if r.point.dtype == dtype], source)
    ]
    return (*found, *_tables(square), *(_of_source(source, square) if source is not None else ()))


def _is_square(point: Point) -> bool:
    return point.m == point.n == point.k


def _of_dtype(dtype: str, rates: Sequence[Rate], source: SourceTable | None) -> Iterator[Lines]:
    """One chart, or one for each device if there are many lines."""
    title = f"{dtype} rate against size"
    if len({_Line.of(rate) for rate in rates}) <= _MOST_LINES:
        yield _lines(title, dtype, rates, source)
        return
    for device in dict.fromkeys(rate.point.device for rate in rates):
        yield _lines(f"{title}, {device}", dtype, [rate for rate in rates if rate.point.device == device], source)


def _lines(title: str, dtype: str, rates: Sequence[Rate], source: SourceTable | None) -> Lines:
    lines = [_series(line, rates) for line in dict.fromkeys(_Line.of(rate) for rate in rates)]
    sizes = sorted({rate.point.m for rate in rates})
    predicted = {rate.point.device for rate in rates if rate.kind == "predicted"}
    roofs = [roof for device in sorted(predicted) for roof in _roof(device, dtype, sizes)]
    notes = ["Bands: quartiles of what was measured"] if any(rate.kind == "measured" for rate in rates) else []
    if any(rate.flags for rate in rates):
        apart = f"quartiles more than {figures.percent(NOISY)} of the time apart, or other processes at work"
        notes.append(f"a cross is a disturbed time ({apart})")
    notes += ["bands of predicted times: the model's stated error"] if predicted else []
    notes += ["a roof is what arithmetic, or moving each matrix once, allows"] if roofs else []
    stated = list(_stated(source, rates)) if source is not None and len(sizes) > 1 else []
    notes += [f"{source.source}'s figures are of a GPU that it does not name"] if source and stated else []
    note = "; ".join(notes)
    return Lines(
        title,
        Axis("m = n = k", log=True, base=2),
        Axis("G operations a second", log=True),
        (*lines, *stated, *roofs),
        f"{note[:1].upper()}{note[1:]}.",
    )


def _series(line: _Line, rates: Sequence[Rate]) -> Series:
    mine = sorted((rate for rate in rates if _Line.of(rate) == line), key=lambda rate: rate.point.m)
    operations = [rate.point.operations / 1e9 for rate in mine]
    blocks = {rate.point.block for rate in rates if rate.point.contender == line.contender}
    cut = f", {line.block} x {line.block}" if len(blocks) > 1 else ""
    return Series(
        f"{line.contender}{cut}, {line.device}"
        + (", cold" if line.caches == "cold" and line.kind == "measured" else ""),
        tuple((rate.point.m, rate.gflops) for rate in mine),
        "predicted" if line.kind == "predicted" else "measured",
        tuple((done / r.most_seconds, done / r.least_seconds) for done, r in zip(operations, mine, strict=True)),
        doubtful=frozenset(float(rate.point.m) for rate in mine if rate.flags),
    )


def _stated(source: SourceTable, rates: Sequence[Rate]) -> Iterator[Series]:
    """A source's figures for the same products, as points: a series for each of its columns."""
    found: dict[Any, dict[int, float]] = {}
    for point in (rate.point for rate in rates if source.has(rate.point)):
        figure = source.figure(point)
        if figure is not None:
            found.setdefault(source.column(point), {})[point.m] = figure
    for value, figures_by_width in sorted(found.items()):
        yield Series(f"{source.source}, {_COLUMNS[source.columns]} {value}", tuple(figures_by_width.items()), "stated")


def _roof(device: str, dtype: str, sizes: Sequence[int]) -> Iterator[Series]:
    """The roofs that a GPU's arithmetic and memory set; none for a dtype whose rate no source states."""
    gpu = machine.gpu(device)
    width = np.dtype(dtype).itemsize
    try:
        points = tuple(
            (n, roofline(gpu, operations=2 * n**3, bytes_moved={"dram": _MATRICES * n * n * width}, dtype=dtype).gflops)
            for n in sizes
        )
    except ArgumentValueError:
        return
    yield Series(f"roof of {device}", points, "limit", marked=False)


# -- tables -------------------------------------------------------------------------------------------------------


def _tables(rates: Sequence[Rate]) -> Iterator[Heat]:
    """For kernels of one name that differ in their block's edge, or in results per thread, a table by size and that."""
    families: dict[Any, list[Rate]] = {}
    for rate in rates:
        stem, _ = _numbered(rate)
        families.setdefault((stem, rate.point.device, rate.point.dtype, rate.point.caches), []).append(rate)
    for (stem, device, dtype, _), family in families.items():
        columns = sorted({_numbered(rate)[1] for rate in family})
        if len(columns) < 2:
            continue
        edges = {rate.point.block for rate in family}
        title = _COLUMNS["block" if len(edges) > 1 else "results"]
        sizes = sorted({rate.point.m for rate in family})
        cells = {(rate.point.m, _numbered(rate)[1]): _cell(rate) for rate in family}
        note = "A question mark is a disturbed time." if any(rate.flags for rate in family) else ""
        yield replace(_heat(f"{stem} on {device}, {dtype}", sizes, columns, cells, title), note=note)


def _of_source(source: SourceTable, rates: Sequence[Rate]) -> Iterator[Heat]:
    """A source's own table, of the products that the sweep has."""
    points = {(rate.point.m, source.column(rate.point)): rate.point for rate in rates if source.has(rate.point)}
    stated = {key: figure for key, point in points.items() if (figure := source.figure(point)) is not None}
    if not stated:
        return
    columns = sorted({column for _, column in stated})
    sizes = sorted({size for size, _ in stated})
    cells = {key: Cell(value, figures.rate(value), "stated") for key, value in stated.items()}
    title = f"{source.source}'s own figures, {source.dtype}"
    chart = _heat(title, sizes, columns, cells, _COLUMNS[source.columns])
    yield replace(chart, note="The source does not name its GPU.")


def _heat(
    title: str, sizes: Sequence[int], columns: Sequence[int], cells: Mapping[tuple[int, int], Cell], column_title: str
) -> Heat:
    return Heat(
        f"{title}: G operations a second",
        rows=tuple(f"{size:,}" for size in sizes),
        columns=tuple(map(str, columns)),
        cells=tuple(tuple(cells.get((size, column)) for column in columns) for size in sizes),
        row_title="m = n = k",
        column_title=column_title,
    )


def _numbered(rate: Rate) -> tuple[str, int]:
    """A kernel's name without its number, and the number; of a kernel with blocks, the block's edge."""
    stem, _, number = rate.point.contender.rpartition("_")
    return (stem, int(number)) if stem and number.isdigit() else (rate.point.contender, rate.point.block)


def _cell(rate: Rate) -> Cell:
    doubt = "?" if rate.flags else ""  # disturbed
    return Cell(rate.gflops, figures.rate(rate.gflops) + doubt, "predicted" if rate.kind == "predicted" else "measured")
