"""How numbers are written and columns are packed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tilewright.report import columns, figures
from tilewright.report.columns import Column, Group
from tilewright.report.figures import bar


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00 us"),
        (9.994e-6, "9.99 us"),
        (9.996e-6, "10.0 us"),
        (99.96e-6, "100 us"),
        (0.0012345, "1.23 ms"),
        (1.0, "1.00 s"),
        (1234.5, "1,234 s"),
        (None, "-"),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert figures.seconds(value) == text


def test_zero_is_a_count_and_none_is_not() -> None:
    assert (figures.count(0), figures.count(None)) == ("0", "-")
    assert (figures.size(0), figures.size(None), figures.size(48 * 1024)) == ("0", "-", "48 KiB")
    assert (figures.percent(0.0), figures.percent(None)) == ("0 %", "-")


def test_bars_grow_with_the_value() -> None:
    lengths = [len(bar(value, 80)) for value in range(81)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[1], lengths[80]) == (0, 1, 10)


ROWS = [("alpha", "1"), ("be", "22")]
KEY = Group((Column("name", lambda r: r[0], "left"), Column("row", lambda _: "S1", "left")))
ONE = Group((Column("one", lambda r: r[1]),))
TWO = Group((Column("a long\nheading", lambda r: r[1]),))


def test_groups_share_a_table_while_there_is_room() -> None:
    # alpha + row + one + heading is 5 + 3 + 3 + 7, each with 3 blanks, the last with 2
    assert [len(t) for t in columns.tables(KEY, [ONE, TWO], ROWS, 29)] == [4]
    assert [len(t) for t in columns.tables(KEY, [ONE, TWO], ROWS, 28)] == [3, 2]


def test_every_column_appears_once_even_where_nothing_fits() -> None:
    packed = columns.tables(KEY, [ONE, TWO], ROWS, 1)
    assert [c.heading for table in packed for c in table] == ["name", "row", "one", "name", "a long\nheading"]


def test_later_tables_use_their_whole_width() -> None:
    # alpha + heading + one is 5 + 7 + 3, with 3 + 3 + 2 blanks
    assert [len(t) for t in columns.tables(KEY, [ONE, TWO, ONE], ROWS, 23)] == [3, 3]
    assert [len(t) for t in columns.tables(KEY, [ONE, TWO, ONE], ROWS, 22)] == [3, 2, 2]


@pytest.mark.parametrize("width", [17, 29, 40])
def test_a_table_is_as_wide_as_it_says(width: int) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    columns.show(console, KEY, [ONE, TWO], ROWS)
    assert "…" not in stream.getvalue()
    assert "alpha" in stream.getvalue()
    assert max(map(len, stream.getvalue().splitlines())) <= width
