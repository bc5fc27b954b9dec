"""Charts in a terminal: lines of Braille dots, eight to a cell, and bars and tables as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, Line, words
from tilewright.show.report.charts import scales
from tilewright.show.report.charts.records import Bars, Chart, Heat, Lines, Series

#: Width and height of the plot in cells; a cell is 2 dots wide and 4 dots high.
_WIDTH, _HEIGHT = 64, 16
#: Dots between ticks, along x and y.
_ACROSS, _DOWN = 16, 12
#: Bits of a cell's dots by row and column. Source: The Unicode Standard, Braille Patterns, U+2800 to U+28FF.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_EMPTY = 0x2800
_COLOURS = ("#2f80c8", "#d9772b", "#2a9a74", "#b9558f", "#a58a1c", "#7d6fd0", "#6a9a3d", "#7c8894")


def blocks(chart: Chart) -> Iterator[Block]:
    """The chart as lines of a report.

    >>> from tilewright.show.report.charts.records import Cell
    >>> for block in blocks(Bars("Times", (Cell(2.0, "2 s", label="naive"), Cell(1.0, "1 s", "predicted", "tiled")))):
    ...     print(block.text.plain)
    Times
    naive  ██████████  2 s
    tiled  █████       1 s (predicted)
    """
    yield words((chart.title, styles.HEADING))
    if isinstance(chart, Bars):
        yield from _bars(chart)
    elif isinstance(chart, Heat):
        yield from _heat(chart)
    else:
        yield from _lines(chart)
    if chart.note:
        yield words((chart.note, styles.QUIET), hang=2)


def _bars(chart: Bars) -> Iterator[Block]:
    most = max((bar.value for bar in chart.bars), default=0)
    widest = max((len(bar.label) for bar in chart.bars), default=0)
    for bar in chart.bars:
        predicted = " (predicted)" if bar.kind == "predicted" else ""
        drawn = figures.bar(bar.value, most).ljust(figures.BAR_CELLS)
        yield Line(Text.assemble(f"{bar.label:{widest}}  ", (drawn, styles.BAR), f"  {bar.text}{predicted}"))


def _heat(chart: Heat) -> Iterator[Block]:
    texts = [
        ["" if cell is None else cell.text + "*" * (cell.kind == "predicted") for cell in row] for row in chart.cells
    ]
    widths = [max(map(len, column)) for column in zip(chart.columns, *texts, strict=True)]
    left = max(map(len, (chart.row_title, *chart.rows)))
    head = "  ".join(name.rjust(width) for name, width in zip(chart.columns, widths, strict=True))
    yield Line(Text(f"{chart.row_title:{left}}  {head}", style=styles.QUIET))
    for name, row in zip(chart.rows, texts, strict=True):
        yield Line(Text(f"{name:>{left}}  " + "  ".join(x.rjust(w) for x, w in zip(row, widths, strict=True))))
    if any("*" in text for row in texts for text in row):
        yield words(("* predicted, not measured", styles.QUIET))


def _lines(chart: Lines) -> Iterator[Block]:
    x = scales.scale(chart.x, [at for one in chart.series for at, _ in one.points], 0, 2 * _WIDTH - 1)
    y = scales.scale(
        chart.y, [value for one in chart.series for _, value in one.points], 4 * _HEIGHT - 1, 0, whole=True
    )
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for number, one in enumerate(chart.series):
        for across, down in _dots(one, x, y):
            place = down // 4, across // 2
            cells[place] = cells.get(place, (0, 0))[0] | _DOTS[down % 4][across % 2], number
    yield words((chart.y.title, styles.QUIET))
    labels = {round(y(tick)) // 4: figures.rate(tick) for tick in y.ticks(_DOWN)}
    left = max(map(len, labels.values()), default=0)
    ends: dict[int, list[str]] = {}
    for number, one in enumerate(chart.series, 1):
        if one.points:
            row = min(max(round(y(one.points[-1][1])) // 4, 0), _HEIGHT - 1)
            ends.setdefault(row, []).append(str(number))
    for row in range(_HEIGHT):
        line = Text(f"{labels.get(row, ''):>{left}} │", style=styles.QUIET)
        for column in range(_WIDTH):
            bits, number = cells.get((row, column), (0, 0))
            line.append(chr(_EMPTY + bits) if bits else " ", style=_COLOURS[number % len(_COLOURS)])
        line.append(",".join(ends.get(row, ())), style=styles.QUIET)
        yield Line(line)
    yield Line(Text(f"{'':{left}} └{'─' * _WIDTH}", style=styles.QUIET))
    yield Line(Text(f"{'':{left}}  {_ticks(x)}  {chart.x.title}", style=styles.QUIET))
    for number, one in enumerate(chart.series):
        label = f"{number + 1} {one.name} ({one.kind})"
        yield words((_sample(one), _COLOURS[number % len(_COLOURS)]), f" {label}")


def _ticks(x: scales.Scale) -> str:
    """The labels of the x axis; a label is left out if it would overlap the previous one."""
    line = ""
    for tick in x.ticks(_ACROSS):
        text, at = f"{tick:,g}" if tick < 100 else f"{tick:,.0f}", int(x(tick)) // 2
        if at >= len(line) + bool(line):
            line = line.ljust(at) + text
    return line.ljust(_WIDTH)[:_WIDTH]


def _sample(series: Series) -> str:
    return {"measured": "⠒⠒⠒", "counted": "⠒⠒⠒", "predicted": "⠒ ⠒", "limit": "⠂⠂⠂", "stated": " ⠒ "}[series.kind]


def _dots(series: Series, x: scales.Scale, y: scales.Scale) -> Iterator[tuple[int, int]]:
    """The dots of a line: a measured line has all of them, a predicted line three of five, a limit one of four."""
    places = [(x(at), y(value)) for at, value in series.points]
    if series.kind == "stated":  # its points, with no line between them
        yield from ((round(across), round(down)) for across, down in places)
        return
    shown, of = {"measured": (1, 1), "counted": (1, 1), "predicted": (3, 5), "limit": (1, 4)}[series.kind]
    number = 0
    for (x1, y1), (x2, y2) in zip(places, places[1:] or places, strict=False):
        steps = max(1, round(max(abs(x2 - x1), abs(y2 - y1))))
        for step in range(steps + 1):
            number += 1
            across, down = round(x1 + (x2 - x1) * step / steps), round(y1 + (y2 - y1) * step / steps)
            if number % of < shown and 0 <= across < 2 * _WIDTH and 0 <= down < 4 * _HEIGHT:
                yield across, down
