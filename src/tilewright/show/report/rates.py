"""Rates in a terminal: measured and predicted ones in one table, and the sources' tables in their own layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tilewright.show.rates import store
from tilewright.show.rates.plan import is_predicted
from tilewright.show.rates.record import Point, Rate, Sweep
from tilewright.show.rates.tables import UNITS, SourceTable, agreement, table
from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, Gap, words
from tilewright.show.report.charts import terminal
from tilewright.show.report.charts.records import Axis, Lines, Series
from tilewright.show.report.places import path
from tilewright.show.report.tables import (
    FACTOR,
    NUMBER,
    PRINTED,
    RATE,
    RIGHT,
    SECONDS,
    Column,
    Form,
    Group,
    Table,
    group,
)
from tilewright.simulate import machine

_PREDICTED = "predicted"
#: Shown in a table for a rate without a time.
FAILED = "failed"
_EXTENTS = Form(RIGHT.whole, lambda text: text.replace(" ", ""))
_BAND = Form(
    lambda rate: (
        "" if rate is None else f"{figures.seconds(rate.least_seconds)} - {figures.seconds(rate.most_seconds)}"
    ),
    lambda rate: "" if rate is None else figures.between(rate.least_seconds, rate.most_seconds),
)
_MULTIPLIER = "times the rate of a peer that took turns with it: the median of the turns"


@dataclass(frozen=True, slots=True)
class _Row:
    rate: Rate
    yardstick: Rate | None  #: The rate of the peer that was timed in turns with it.

    @property
    def known(self) -> Rate | None:
        """The rate, if it has a time."""
        return None if self.rate.failed else self.rate

    @property
    def of_yardstick(self) -> float | None:
        if self.yardstick is None or self.yardstick is self.rate:
            return None
        ratios = np.divide(self.yardstick.samples, self.rate.samples)
        return float(np.median(ratios))


def _style(row: Any) -> str:
    return styles.PREDICTED if row.rate.kind == _PREDICTED else ""


def work(point: Callable[[Any], Point]) -> tuple[Column, ...]:
    """Columns of the contender and its product."""
    return (
        Column("contender", lambda row: point(row).contender, style="bold"),
        Column("device", lambda row: point(row).device),
        Column("dtype", lambda row: point(row).dtype),
        Column("m x n x k", lambda row: extents(point(row)), _EXTENTS),
        Column("block", lambda row: point(row).block or None, NUMBER),
        Column("caches", lambda row: point(row).caches),
    )


def _groups(peer: str) -> tuple[Group, ...]:
    return (
        group(
            Column("time", lambda row: row.known and row.known.seconds, SECONDS, style=_style),
            Column("quartiles,\nor band", lambda row: row.known, _BAND, style=_style),
            Column("GFLOPS", lambda row: row.known and row.known.gflops, RATE, style=_style),
            Column(f"of {peer}", lambda row: row.of_yardstick, FACTOR, legend=_MULTIPLIER),
        ),
        group(
            Column("product", lambda row: FAILED if row.rate.failed else row.rate.verified, style=_verdict_style),
            Column("limited by", lambda row: row.rate.limiter, wrap_at=16),
            Column("flags", lambda row: ", ".join(row.rate.flags), style=styles.WARNING_COLOUR),
        ),
    )


def _verdict_style(row: _Row) -> str:
    return styles.ERROR if row.rate.wrong or row.rate.failed else styles.QUIET


def extents(point: Point) -> str:
    """`256`, or `31 x 33 x 32` for matrices that are not square.

    >>> extents(Point("matmul", "cpu", "int32", 31, 33, 32)), extents(Point("matmul", "cpu", "int32", 8, 8, 8))
    ('31 x 33 x 32', '8')
    """
    edges = dict.fromkeys((point.m, point.n, point.k))
    return str(point.m) if len(edges) == 1 else f"{point.m} x {point.n} x {point.k}"


def blocks(sweep: Sweep) -> Iterator[Block]:
    """A sweep as a table, or in the layout of the requested source."""
    rates = sweep.rates
    yield from head(sweep)
    if not rates:
        return
    name = sweep.plan.get("table")
    yield Gap()
    if name:
        source = table(name)
        for device in dict.fromkeys(rate.point.device for rate in rates if source.has(rate.point)):
            cells = [rate for rate in rates if rate.point.device == device and source.has(rate.point)]
            yield from of_source(source, cells)
    else:
        yield from _table(rates, sweep.plan.get("against") or ())
    yield from _said(rates)


def head(sweep: Sweep) -> Iterator[Block]:
    """The conditions of a sweep's measurements, and its predicted parts."""
    facts = sweep.conditions
    if any(rate.kind != _PREDICTED for rate in sweep.rates):
        versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
        yield words(
            f"{facts.get('date')}: {facts.get('processor')}, {facts.get('cores')} cores at "
            f"{figures.count(facts.get('mhz'))} MHz, "
            f"{facts.get('threads')} threads, load {facts.get('load')}; Python {facts.get('python')}, {versions}",
            hang=2,
        )
    predicted = dict.fromkeys(rate.point.device for rate in sweep.rates if rate.kind == _PREDICTED)
    if predicted:
        names = ", ".join(f"{name}: {machine.gpu(name).name}" for name in predicted if is_predicted(name))
        yield words((f"{names}: predicted by a model, not measured", styles.PREDICTED), "; caches begin empty", hang=2)


def _table(rates: Sequence[Rate], against: Sequence[str]) -> Iterator[Block]:
    yardsticks = {rate.point.work: rate for rate in rates if rate.samples and rate.point.contender in against[:1]}
    rows = [_Row(rate, yardsticks.get(rate.point.work) if rate.samples else None) for rate in rates]
    key = group(*work(lambda row: row.rate.point), Column("", lambda row: row.rate.kind, style=_style))
    yield Table(key, _groups(against[0] if against else "a peer"), rows)


def _said(rates: Sequence[Rate]) -> Iterator[Block]:
    """The meaning of flags that occur, and the wrong products."""
    wrong = sum(rate.wrong for rate in rates)
    if wrong:
        yield words((f"{figures.amount(wrong, 'product')} of {len(rates):,} wrong", styles.ERROR), hang=2)
    yield from failures(rates)
    seen = {flag for rate in rates for flag in rate.flags}
    for flag, meaning in FLAGS.items():
        if flag in seen:
            yield words((flag, styles.WARNING_COLOUR), f": {meaning}", hang=2)


def failures(rates: Sequence[Rate]) -> Iterator[Block]:
    """The reasons for rates without a time, each once."""
    reasons: dict[str, list[Point]] = {}
    for rate in rates:
        if rate.failed:
            reasons.setdefault(rate.failed, []).append(rate.point)
    for reason, points in reasons.items():
        first = points[0]
        more = f" and {len(points) - 1:,} more" if len(points) > 1 else ""
        what = f": {first.contender}, {extents(first)}, {first.dtype} on {first.device}{more}: {path(reason)}"
        yield words((FAILED, styles.ERROR), what, hang=2)


#: The meaning of each flag; `docs/rates.md` has more.
FLAGS = {
    "noisy": "the quartiles are more than 10 % of the median apart",
    "disturbed": "other processes used more than a tenth of a core meanwhile",
}


@dataclass(frozen=True, slots=True)
class _Width:
    width: int
    cells: dict[Any, Rate]


def of_source(source: SourceTable, rates: Sequence[Rate]) -> Iterator[Block]:
    """A source's table in its own layout, with our figures beside the source's."""
    device = rates[0].point.device
    how = f"{rates[0].kind} on {device}"
    style = styles.PREDICTED if rates[0].kind == _PREDICTED else ""
    yield words((source.source, "bold"), f": {source.title}; {source.dtype}, {source.unit}: ", (how, style), hang=2)
    yield Gap()
    rows = [
        _Width(width, {source.column(rate.point): rate for rate in rates if rate.point.m == width})
        for width in source.widths
    ]
    if len(source.widths) == 1:
        yield _across(source, rates, style)
    else:
        key = group(Column("width", lambda row: row.width, NUMBER, style="bold"))
        yield Table(key, tuple(_pair(source, value, style) for value in source.values), rows)
    yield Gap()
    if found := agreement(source, rates):
        yield words(
            f"The source does not name its GPU. Times {found.factor:.2f}, ours are {figures.percent(found.median)} "
            f"from its figures in the median, {figures.percent(found.worst)} at worst.",
            hang=2,
        )
    if not source.figures:
        yield from terminal.blocks(plot(source, rates))
    if source.note:
        yield words(f"Of the source's: {source.note}.", hang=2)


def plot(source: SourceTable, rates: Sequence[Rate]) -> Lines:
    """The source's columns as lines over width."""
    device, kind = rates[0].point.device, rates[0].kind
    series = []
    for value in source.values:
        mine = [rate for rate in rates if source.column(rate.point) == value]
        points = tuple((float(rate.point.m), rate.gflops) for rate in mine if not rate.failed)
        series.append(Series(str(value), points, kind))
    x, y = Axis("width", log=True, base=2), Axis("GFLOPS", least=0.0)
    return Lines(f"{source.source} on {device}, {source.dtype}", x, y, tuple(series))


def _across(source: SourceTable, rates: Sequence[Rate], style: str) -> Table:
    """A source's single row, printed across as in the source, with ours above it."""
    ours = {source.column(rate.point): rate.gflops / UNITS[source.unit] for rate in rates if not rate.failed}
    printed = {value: source.figures[source.widths[0], value] for value in source.values}
    columns = [_of_row(value) for value in source.values]
    title = f"{source.columns} per thread" if source.columns == "results" else source.columns
    rows = [("ours", ours, style), ("source", printed, styles.QUIET)]
    return Table(group(Column(title, lambda row: row[0], style="bold")), (group(*columns),), rows)


def _of_row(value: Any) -> Column:
    return Column(str(value), lambda row: row[1].get(value), PRINTED, style=lambda row: str(row[2]))


def _pair(source: SourceTable, value: Any, style: str) -> Group:
    """Our column and the source's."""
    title = f"{value}x{value}" if source.columns == "block" else str(value)
    scale = UNITS[source.unit]

    def ours(row: _Width) -> float | None:
        rate = row.cells.get(value)
        return None if rate is None or rate.failed else rate.gflops / scale

    return group(
        Column(title, ours, PRINTED, style=style),
        Column("source", lambda row: source.figures.get((row.width, value)), PRINTED, style=styles.QUIET),
    )


def without(left_out: Sequence[tuple[Point, str]], rates: Sequence[Rate]) -> Iterator[Block]:
    """The reasons for points left out of a sweep, each once, with sizes if they matter."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for point, reason in left_out:
        found.setdefault((reason, point.contender), {})[extents(point)] = None
    every = {extents(point) for point in (*(point for point, _ in left_out), *(rate.point for rate in rates))}
    together: dict[tuple[str, str], list[str]] = {}
    for (reason, contender), sizes in found.items():
        where = "" if sizes.keys() == every else f" at {', '.join(sizes)}"
        together.setdefault((reason, where), []).append(contender)
    for (reason, where), contenders in together.items():
        each = "each " if len(contenders) > 1 else ""
        yield words((f"left out: {', '.join(contenders)}{where}: {each}{reason}", styles.QUIET), hang=2)


def document(sweep: Sweep, left_out: Sequence[tuple[Point, str]] = ()) -> dict[str, Any]:
    """A sweep as JSON values: plan, conditions, each rate as in a line of the file, and the points left out."""
    rates = [{**store.document(rate), "gflops": None if rate.failed else rate.gflops} for rate in sweep.rates]
    lacking = [{**asdict(point), "reason": reason} for point, reason in left_out]
    return {"plan": dict(sweep.plan), "conditions": dict(sweep.conditions), "rates": rates, "left_out": lacking}
