"""Tables that stay readable at any width: columns come in groups, and groups that do not fit start a new table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Blanks between columns: the box's divider and the padding before it.
GAP = 3


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading (lines separated by newlines) and how a row's cell is made.

    Words wrap in a column of text, at `wrap_at` cells or more; 0 keeps every cell in one line.
    """

    heading: str
    cell: Callable[[Any], str | Text]
    justify: Literal["left", "right", "center"] = "right"
    wrap_at: int = 0

    def width(self, rows: Sequence[Any]) -> int:
        """Least cells the column takes."""
        lines = [*self.heading.split("\n"), *(str(self.cell(row)) for row in rows)]
        longest = max(cell_len(line) for line in lines)
        return min(longest, self.wrap_at) if self.wrap_at else longest


@dataclass(frozen=True, slots=True)
class Group:
    """Columns that belong together and stay in one table."""

    columns: tuple[Column, ...]

    def width(self, rows: Sequence[Any]) -> int:
        """Cells the group takes, gaps included."""
        return sum(column.width(rows) + GAP for column in self.columns)


def tables(key: Group, groups: Sequence[Group], rows: Sequence[Any], width: int) -> list[tuple[Column, ...]]:
    """Pack groups into as few tables as the width allows, in order.

    The first table starts with all of the key's columns, the others with its first one.
    """
    packed = [list(key.columns)]
    room = width - key.width(rows) + 1  # the last column has no divider after it
    for number, group in enumerate(groups):
        needed = group.width(rows)
        if number and needed > room:
            packed.append([key.columns[0]])
            room = width - key.columns[0].width(rows) - GAP + 1
        packed[-1].extend(group.columns)
        room -= needed
    return [tuple(table) for table in packed]


def show(console: Console, key: Group, groups: Sequence[Group], rows: Sequence[Any]) -> None:
    """Print rows in as few tables as the console is wide enough for."""
    for number, table in enumerate(tables(key, groups, rows, console.width)):
        if number:
            console.print()
        _show_one(console, table, rows)


def _show_one(console: Console, columns: Sequence[Column], rows: Sequence[Any]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, GAP - 1, 0, 0), header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(
            column.heading,
            justify=column.justify,
            no_wrap=not column.wrap_at,
            overflow="fold" if column.wrap_at else "ellipsis",
            min_width=column.width(rows),
            vertical="top" if any(other.wrap_at for other in columns) else "bottom",
        )
    for row in rows:
        table.add_row(*(column.cell(row) for column in columns))
    console.print(table)
