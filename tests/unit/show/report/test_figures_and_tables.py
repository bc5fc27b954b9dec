"""How numbers are written and tables are laid out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from tilewright.show.report import figures, styles, tables, terminal
from tilewright.show.report.figures import bar
from tilewright.show.report.tables import COUNT, NUMBER, RIGHT, Column, Form, Group, Table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00 ns"),
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
    assert (figures.size(0), figures.size(None), figures.size(48 * 1024)) == ("0 B", "-", "48 KiB")
    assert (figures.percent(0.0), figures.percent(None)) == ("0 %", "-")


def test_bars_grow_with_the_value() -> None:
    lengths = [len(bar(value, 80)) for value in range(81)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[1], lengths[80]) == (0, 1, 10)


ROWS = [("alpha", 1), ("be", 22_000)]
KEY = Group((Column("name", lambda r: r[0]), Column("row", lambda _: "S1")))
ONE = Group((Column("one", lambda r: r[1], COUNT),))
TWO = Group((Column("a long\nheading", lambda r: str(r[1]), RIGHT),))
NONE = Group((Column("nothing", lambda r: None, COUNT),))
BAR = Group((Column("bar", lambda r: "####"),), optional=True)


def parts(groups: list[Group], width: int) -> list[list[str]]:
    return [[c.title for c in part] for part in tables.layout(Table(KEY, tuple(groups), ROWS), width).parts]


def shown(table: Table, width: int) -> list[str]:
    stream = io.StringIO()
    terminal.show([table], Console(file=stream, width=width))
    return stream.getvalue().splitlines()


def test_groups_share_a_table_while_there_is_room() -> None:
    # alpha, row, 22,000 and heading are 5 + 3 + 6 + 7 cells, with 2 blanks between; 22.0k is one cell less
    assert parts([ONE, TWO], 27) == [["name", "row", "one", "a long\nheading"]]
    assert tables.layout(Table(KEY, (ONE, TWO), ROWS), 27).brief is False
    assert tables.layout(Table(KEY, (ONE, TWO), ROWS), 26).brief is True
    assert parts([ONE, TWO], 20) == [["name", "one"], ["name", "a long\nheading"]]


def test_every_column_appears_once_even_if_nothing_fits() -> None:
    assert parts([ONE, TWO], 1) == [["name", "one"], ["name", "a long\nheading"]]
    assert [c.title for c in tables.layout(Table(KEY, (ONE, TWO), ROWS), 1).common] == ["row"]


def test_empty_or_optional_columns_take_no_table_of_their_own() -> None:
    assert parts([NONE, ONE], 99) == [["name", "row", "one"]]
    assert parts([ONE, BAR], 24) == [["name", "row", "one", "bar"]]
    assert parts([ONE, BAR], 18) == [["name", "row", "one"]]


@pytest.mark.parametrize("width", [17, 29, 40])
def test_a_table_has_the_width_that_it_states(width: int) -> None:
    reported = shown(Table(KEY, (ONE, TWO), ROWS), width)
    assert "…" not in "".join(reported)
    assert any(line.startswith("alpha") for line in reported)
    assert max(map(len, reported)) <= width


POINTS = [
    (name, size, "int8" if size < 9 else "int16", "cold", size * 1000) for name in ("alpha", "beta") for size in (8, 16)
]
POINT = Group(
    (
        Column("name", lambda r: r[0]),
        Column("size", lambda r: r[1], NUMBER),
        Column("dtype", lambda r: r[2]),
        Column("caches", lambda r: r[3]),
    )
)
VALUES = Group(tuple(Column(title, lambda r: r[4], COUNT) for title in ("least", "median", "most")))


def test_each_part_repeats_the_key_of_its_rows() -> None:
    table = Table(POINT, (VALUES,), POINTS)
    assert [len(part) for part in tables.layout(table, 48).parts] == [7]
    assert [len(part) for part in tables.layout(table, 47).parts] == [6]
    found = tables.layout(table, 31)
    assert [[c.title for c in part] for part in found.parts] == [
        ["name", "size", "dtype", "least"],  # the dtype follows from the size
        ["name", "size", "median", "most"],
    ]
    assert shown(table, 31)[0] == "in all rows: caches cold"
    for part in found.parts:
        assert len({tuple(column.cell(row).plain for column in part[:2]) for row in POINTS}) == len(POINTS)


def test_a_key_that_is_itself_too_wide_is_continued_too() -> None:
    assert [[c.title for c in part] for part in tables.layout(Table(POINT, (VALUES,), POINTS), 18).parts] == [
        ["name", "size", "dtype"], ["name", "size", "least"], ["name", "size", "median"], ["name", "size", "most"]
    ]  # fmt: skip


def test_one_row_needs_no_more_than_its_name() -> None:
    found = tables.layout(Table(POINT, (VALUES,), POINTS[:1]), 30)
    assert [[c.title for c in part] for part in found.parts] == [
        ["name", "size", "dtype", "caches"], ["name", "least", "median", "most"]
    ]  # fmt: skip
    assert not found.common


TEXTS = [("1", "x = 1", 7), ("2", "    y = f(x, " + "argument, " * 9 + "last)", 1_234_567), ("3", "", None)]
CODE = Table(
    Group((Column("line", lambda r: r[0], RIGHT),)),
    (Group((Column("count", lambda r: r[2], Form(lambda v: figures.count(v) if v else "", figures.short)),)),),
    TEXTS,
    text=Column("source", lambda r: r[1]),
)


@pytest.mark.parametrize(("width", "counts"), [(40, 0), (60, 1), (160, 1)])
def test_lines_of_code_are_never_cut(width: int, counts: int) -> None:
    reported = shown(CODE, width)
    assert len(tables.layout(CODE, width).parts[0]) == 2 + counts
    assert max(map(len, reported)) <= width
    assert " ".join(" ".join(reported).split()).count("argument,") == 9


@pytest.mark.parametrize("width", [12, 20, 31, 80])
def test_no_word_breaks_and_numbers_stay_beside_their_units(width: int) -> None:
    words = "limited by registers, 75 % of 64 KiB used in 12.3 us; unbreakable_name_of_a_kernel: 9 s."
    lines = [line.plain for line in terminal.wrapped(Text(words), width)]
    assert " ".join(lines) == words
    assert all(len(line) <= width or " " not in line.strip() for line in lines)
    assert not any(line.startswith(("%", "KiB", "us", "s.")) for line in lines)


def luminance(colour: str) -> float:
    """Source: WCAG 2.2, "relative luminance"."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("background", ["#ffffff", "#fdf6e3", "#000000", "#1e1e1e", "#111111", "#002b36"])
def test_every_colour_reads_on_dark_and_light(background: str) -> None:
    for name, value in vars(styles).items():
        if isinstance(value, str) and "#" in value and not name.startswith("__"):
            light, dark = sorted((luminance(value[-7:]), luminance(background)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, name  # WCAG 2.2, 1.4.11; none has 4.5 on both white and black
