"""What a chart shows, before it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Points = tuple[tuple[float, float], ...]
#: How a value came about: by a clock, by a model of a GPU, by counting, as a limit that nothing can pass, or from a
#: source that states it.
Kind = Literal["measured", "predicted", "counted", "limit", "stated"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a chart with lines."""

    title: str  #: With the unit.
    log: bool = False
    base: int = 10  #: Ticks of a logarithmic axis are at this number's powers.
    least: float | None = None  #: Where the axis begins; by default where the points do.


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    points: Points
    kind: Kind = "measured"
    band: Points = ()  #: Least and most at each point, where these are known.
    marked: bool = True  #: Whether each point has a mark.


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
    """A table whose cells are the darker the larger their value is."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]  #: By row; None where there is no value.
    row_title: str = ""
    column_title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars below each other, from 0."""

    title: str
    bars: tuple[Cell, ...]
    note: str = ""


Chart = Lines | Heat | Bars


def kinds(chart: Chart) -> frozenset[Kind]:
    """How the values of a chart came about.

    >>> sorted(kinds(Bars("", (Cell(1, "1"), Cell(2, "2", "predicted")))))
    ['measured', 'predicted']
    """
    if isinstance(chart, Heat):
        return frozenset(cell.kind for row in chart.cells for cell in row if cell is not None)
    parts: Sequence[Series | Cell] = chart.bars if isinstance(chart, Bars) else chart.series
    return frozenset(part.kind for part in parts)
