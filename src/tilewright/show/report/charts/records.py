"""The data of charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Points = tuple[tuple[float, float], ...]
#: The origin of a value: a clock, a model of a GPU, a count, a limit, or a source.
Kind = Literal["measured", "predicted", "counted", "limit", "stated"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a chart with lines."""

    title: str  #: The title, with the unit.
    log: bool = False
    base: int = 10  #: Ticks of a logarithmic axis are at this number's powers.
    least: float | None = None  #: Start of the axis; by default the least point.


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    points: Points
    kind: Kind = "measured"
    band: Points = ()  #: Least and most value at each point, if known.
    marked: bool = True  #: Whether each point has a mark.
    doubtful: frozenset[float] = frozenset()  #: Where the value is not to be relied on: the mark is a cross.


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over two axes."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    note: str = ""  #: A sentence below the chart.


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: of a table, or a bar."""

    value: float
    text: str
    kind: Kind = "measured"
    label: str = ""  #: A bar's.


@dataclass(frozen=True, slots=True)
class Heat:
    """A heat map: a table whose cells are darker for larger values."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]  #: By row; None where there is no value.
    row_title: str = ""
    column_title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars from 0."""

    title: str
    bars: tuple[Cell, ...]
    note: str = ""


Chart = Lines | Heat | Bars


def kinds(chart: Chart) -> frozenset[Kind]:
    """The kinds of a chart's values.

    >>> sorted(kinds(Bars("", (Cell(1, "1"), Cell(2, "2", "predicted")))))
    ['measured', 'predicted']
    """
    if isinstance(chart, Heat):
        return frozenset(cell.kind for row in chart.cells for cell in row if cell is not None)
    parts: Sequence[Series | Cell] = chart.bars if isinstance(chart, Bars) else chart.series
    return frozenset(part.kind for part in parts)
