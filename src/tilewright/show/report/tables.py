"""Tables: columns with what they say of a row, in groups that stay together; laid out for a width, or for a page.

A table is described once. :mod:`tilewright.show.report.terminal` and :mod:`tilewright.show.report.page` show the
description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.cells import cell_len
from rich.text import Text

from tilewright.show.report import figures

#: Blanks between columns.
GAP = 2
#: Least width of a table's text column; with less room, columns are left out.
LEAST_TEXT = 44


@dataclass(frozen=True, slots=True)
class Form:
    """How values of a kind are written: whole, and where room is short."""

    whole: Callable[[Any], str | Text]
    brief: Callable[[Any], str | Text]
    justify: Literal["left", "right"] = "right"


TEXT = Form(lambda value: value, lambda value: value, "left")
RIGHT = Form(lambda value: value, lambda value: value)
COUNT = Form(figures.count, figures.short)
#: A count of which nothing is said where there is none.
SOME = Form(lambda value: figures.count(value) if value else "", lambda value: figures.short(value) if value else "")
SECONDS = Form(figures.seconds, figures.seconds)
PERCENT = Form(figures.percent, figures.percent)
SIZE = Form(figures.size, figures.size)
RATE = Form(figures.rate, figures.rate)


def _known(form: str) -> Form:
    """Values in a format, and nothing where there is none."""

    def write(value: Any) -> str:
        return "" if value is None else format(value, form)

    return Form(write, write)


#: Numbers as they are, figures as the sources print them, and how many times one thing is another.
NUMBER, PRINTED, FACTOR = _known("d"), _known(",.3f"), _known(".2f")


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    title: str  #: Lines separated by newlines.
    value: Callable[[Any], Any]  #: Of a row: what `form` writes; None where nothing is known.
    form: Form = TEXT
    style: str | Callable[[Any], str] = ""  #: Of all cells, or of a row's.
    wrap_at: int = 0  #: Cells from which words wrap; 0 keeps every cell in one line.
    legend: str = ""  #: What the title means, where that is not plain.

    def cell(self, row: Any, *, brief: bool = False) -> Text:
        """The cells of a row."""
        written = (self.form.brief if brief else self.form.whole)(self.value(row))
        text = written.copy() if isinstance(written, Text) else Text(written)
        text.stylize_before(self.style if isinstance(self.style, str) else self.style(row))
        return text

    def width(self, rows: Sequence[Any], *, brief: bool = False) -> int:
        """Least cells the column takes: no word is broken."""
        cells = [self.cell(row, brief=brief).plain for row in rows]
        longest = _longest(cells)
        if self.wrap_at:
            longest = max(_longest(word for cell in cells for word in cell.split()), min(longest, self.wrap_at))
        return max(longest, _longest(self.title.split("\n")))

    def says_something(self, rows: Sequence[Any]) -> bool:
        """Whether any row has a value."""
        return any(self.cell(row).plain not in ("", figures.MISSING) for row in rows)


@dataclass(frozen=True, slots=True)
class Group:
    """Columns that belong together and stay in one table; an optional group is shown where there is room left."""

    columns: tuple[Column, ...]
    optional: bool = False


def group(*columns: Column, optional: bool = False) -> Group:
    """A group of columns."""
    return Group(columns, optional)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: key columns identify a row; continued tables repeat those that distinguish rows."""

    key: Group
    groups: tuple[Group, ...]
    rows: Sequence[Any] = field(repr=False)
    #: Lines of any length, at the right of a row's figures.
    text: Column | None = None
    #: The heading of the rows that a row belongs to, written above the first of them.
    section: Callable[[Any], str] | None = None

    def headed(self) -> Iterator[tuple[str, Any]]:
        """The rows, each with the heading to write above it, or ""."""
        last = ""
        for row in self.rows:
            now = self.section(row) if self.section else ""
            yield now if now != last else "", row
            last = now

    def __post_init__(self) -> None:
        kept = (_with_values(group, self.rows) for group in self.groups)
        object.__setattr__(self, "groups", tuple(group for group in kept if group.columns))

    @property
    def columns(self) -> tuple[Column, ...]:
        """All of them, from left to right."""
        inner = tuple(column for group in (self.key, *self.groups) for column in group.columns)
        return inner if self.text is None else (*inner, self.text)

    @property
    def legend(self) -> dict[str, str]:
        """The meanings of titles, of columns with a legend."""
        return {
            " ".join(column.title.replace("-\n", "").split()): column.legend for column in self.columns if column.legend
        }


def _with_values(group: Group, rows: Sequence[Any]) -> Group:
    kept = tuple(column for column in group.columns if column.says_something(rows))
    return group if kept == group.columns else Group(kept, group.optional)


@dataclass(frozen=True, slots=True)
class Layout:
    """A table's layout for a width: the columns of each part, and whether figures are brief."""

    parts: tuple[tuple[Column, ...], ...]
    brief: bool
    common: tuple[Column, ...] = ()  #: Of the key, with one value in all rows: said once, above the parts.


def layout(table: Table, width: int) -> Layout:
    """The fewest parts that fit the width, with whole figures where that takes no more of them."""
    if table.text is not None:
        return _beside_text(table, width)
    whole, brief = (_packed(table, width, brief=brief) for brief in (False, True))
    fits = all(_taken(columns, table.rows, brief=False) <= width for columns in whole.parts)
    best = min(whole, brief, key=lambda found: (len(found.parts), len(found.common)))  # of equal ones the first
    return best if fits else brief


def _beside_text(table: Table, width: int) -> Layout:
    """One part: all columns if the text keeps its room, else briefly as many groups, in order, as leave it enough."""
    assert table.text is not None
    key, groups = table.key.columns, table.groups
    wanted = _longest(table.text.cell(row).plain for row in table.rows)

    def left(columns: Sequence[Column], *, brief: bool) -> int:
        return width - sum(column.width(table.rows, brief=brief) + GAP for column in columns)

    whole = (*key, *(column for group in groups for column in group.columns))
    if left(whole, brief=False) >= wanted:
        return Layout(((*whole, table.text),), brief=False)
    chosen = key
    for group in groups:
        if left((*chosen, *group.columns), brief=True) >= min(wanted, LEAST_TEXT):
            chosen = (*chosen, *group.columns)
    return Layout(((*chosen, table.text),), brief=True)


def _taken(columns: Sequence[Column], rows: Sequence[Any], *, brief: bool) -> int:
    """Least cells of columns beside each other."""
    return sum(column.width(rows, brief=brief) + GAP for column in columns) - GAP


def _packed(table: Table, width: int, *, brief: bool) -> Layout:
    """Columns in as few parts as the width allows, in order; each with the key columns that distinguish its rows."""

    def fits(columns: Sequence[Column]) -> bool:
        return _taken(columns, table.rows, brief=brief) <= width

    key, rows = table.key.columns, table.rows
    parts = _filled(key, key[:1], table.groups, fits)
    if len(parts) == 1:
        return Layout(parts, brief)
    common = tuple(column for column in key if len(rows) > 1 and len(_kinds([column], rows)) == 1)
    own = tuple(column for column in key if column not in common) or key[:1]
    telling = _telling(own, rows)
    start, rest = (own, ()) if fits(own) else (telling, tuple(c for c in own if c not in telling))
    groups = (*(Group((column,)) for column in rest), *table.groups)
    return Layout(_filled(start, telling, groups, fits), brief, common=tuple(c for c in common if c not in own))


def _filled(
    start: Sequence[Column], again: Sequence[Column], groups: Sequence[Group], fits: Callable[[Sequence[Column]], bool]
) -> tuple[tuple[Column, ...], ...]:
    """Groups in parts, of which the first begins with some columns, and the others with others.

    A group that is too wide for a part is taken apart.
    """
    parts = [list(start)]
    for group in groups:
        split = not group.optional and not fits([*again, *group.columns])
        for columns in zip(group.columns) if split else [group.columns]:
            if not fits([*parts[-1], *columns]):
                if group.optional:
                    continue
                if len(parts[-1]) > len(again):
                    parts.append([*again])
            parts[-1] += columns
    return tuple(map(tuple, parts))


def _telling(columns: Sequence[Column], rows: Sequence[Any]) -> tuple[Column, ...]:
    """The first column, and as few others as distinguish all rows."""
    kept = list(columns)
    for column in reversed(columns[1:]):
        others = [other for other in kept if other is not column]
        if len(_kinds(others, rows)) == len(_kinds(kept, rows)):
            kept = others
    return tuple(kept)


def _kinds(columns: Sequence[Column], rows: Sequence[Any]) -> set[tuple[str, ...]]:
    """The different texts of rows in some columns."""
    return {tuple(column.cell(row).plain for column in columns) for row in rows}


def widths(columns: Sequence[Column], rows: Sequence[Any], width: int, *, brief: bool) -> list[int]:
    """Cells of each column; those whose words wrap share what room there is."""
    least = [column.width(rows, brief=brief) for column in columns]
    spare = width - sum(least) - GAP * (len(columns) - 1)
    for place, column in enumerate(columns):
        if column.wrap_at and spare > 0:
            natural = _longest(column.cell(row, brief=brief).plain for row in rows)
            more = min(spare, max(0, natural - least[place]))
            least[place] += more
            spare -= more
    return least


def _longest(texts: Sequence[str] | Iterator[str]) -> int:
    return max(map(cell_len, texts), default=0)
