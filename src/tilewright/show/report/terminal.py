"""Writes the blocks of a report to a terminal or a pipe.

On a terminal, paragraphs and tables are wrapped between words at the terminal's width; a `Line` is never wrapped. In a
pipe, a paragraph is one line too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tilewright.show.report import styles
from tilewright.show.report.blocks import Block, Facts, Gap, Line, Words
from tilewright.show.report.console import keeps_lines, speaks_unicode
from tilewright.show.report.tables import GAP, Column, Table, layout, widths

#: Width of the label of a fact, in cells.
LABEL = 16
#: A unit, which is not separated from the number before it.
_UNIT = re.compile(r"(%|B|[KMG]iB|ns|us|ms|s)(?![^ ,;.:)])")
#: Replacements of the same width for characters that an encoding lacks, so that columns stay aligned.
_ASCII = str.maketrans("✓✗…─█▏▎▍▌▋▊▉", "+x.-########", "") | {ord("→"): "->"}


def show(blocks: Iterable[Block], console: Console) -> None:
    """Print blocks, one below the other."""
    for block in blocks:
        if isinstance(block, Gap):
            _print(Text(), console)
        elif isinstance(block, Line):
            _print(block.text, console)
        elif isinstance(block, Words):
            _paragraph(block.text, console, block.indent, block.indent + block.hang)
        elif isinstance(block, Facts):
            for label, words in block.rows:
                _paragraph(Text.assemble((f"{label:<{LABEL}}", "bold"), words), console, 0, LABEL)
        else:
            _table(block, console)


def _print(text: Text, console: Console) -> None:
    """Print one line; only the terminal may wrap it."""
    if not speaks_unicode(console) and not text.plain.isascii():
        text = Text(text.plain.translate(_ASCII), style=text.style)
    console.print(text, soft_wrap=True)


def _paragraph(text: Text, console: Console, first: int, then: int) -> None:
    """Print text wrapped at the console's width; its first line is indented by `first`, the others by `then`."""
    if keeps_lines(console):
        _print(Text(" " * first) + text, console)
        return
    head, rest = _split(text, console.width - first)
    _print(Text(" " * first) + head, console)
    if rest.plain.strip():
        for line in wrapped(rest, console.width - then):
            _print(Text(" " * then) + line, console)


def _split(text: Text, width: int) -> tuple[Text, Text]:
    """The words that fit on the first line, and the rest of the text."""
    lines = wrapped(text, width)
    if len(lines) == 1:
        return lines[0], Text()
    used = len(lines[0].plain)
    rest = text[used:]
    return lines[0], rest[len(rest.plain) - len(rest.plain.lstrip()) :]


def wrapped(text: Text, width: int) -> list[Text]:
    """Wrap text at `width` cells; a longer word is not broken, and has a line of its own."""
    lines: list[Text] = []
    start = last = 0  # the line's beginning, and where its last whole word ends
    plain = text.plain
    for begin, end in _words(plain):
        if last > start and cell_len(plain[start:end]) > width:
            lines.append(text[start:last])
            start = begin
        last = end
    lines.append(text[start:last])
    return lines


def _words(plain: str) -> Iterable[tuple[int, int]]:
    """The spans of words; a number and its unit are one word. The first span includes the blanks before it."""
    found = [word.span() for word in re.finditer(r"[^ ]+", plain)]
    begin = 0
    for place, (_, end) in enumerate(found):
        if place + 1 < len(found) and _UNIT.match(plain, found[place + 1][0]) and plain[end - 1].isdigit():
            continue
        yield begin, end
        begin = found[place + 1][0] if place + 1 < len(found) else end


def _table(table: Table, console: Console) -> None:
    found = layout(table, console.width)
    if found.common:
        said = ", ".join(f"{column.title} {column.cell(table.rows[0]).plain}".strip() for column in found.common)
        _paragraph(Text.assemble(("in all rows: ", "bold"), said), console, 0, GAP)
    for number, columns in enumerate(found.parts):
        if number:
            _print(Text(), console)
        _part(columns, table, console, brief=found.brief)


def _part(columns: Sequence[Column], table: Table, console: Console, *, brief: bool) -> None:
    cells = widths(columns, table.rows, console.width, brief=brief)
    _head(columns, cells, console)
    for heading, row in table.headed():
        if heading:
            _print(Text(heading, style=styles.PLACE), console)
        lines = [
            wrapped(column.cell(row, brief=brief), width if column.wrap_at else 1 << 20)
            for column, width in zip(columns, cells, strict=True)
        ]
        if not columns[-1].wrap_at and not keeps_lines(console):
            lines[-1] = _code(
                columns[-1].cell(row, brief=brief), console.width - sum(cells[:-1]) - GAP * (len(cells) - 1)
            )
        for depth in range(max(map(len, lines))):
            _row([part[depth] if depth < len(part) else Text() for part in lines], columns, cells, console)


def _code(text: Text, width: int) -> list[Text]:
    """Wrap a line of code at `width` cells; further lines are indented by four cells more than the first."""
    if cell_len(text.plain) <= width:
        return [text]
    indent = len(text.plain) - len(text.plain.lstrip()) + 4
    head, rest = _split(text, width)
    return [head, *(Text(" " * indent) + line for line in wrapped(rest, width - indent))]


def _head(columns: Sequence[Column], cells: Sequence[int], console: Console) -> None:
    titles = [column.title.split("\n") for column in columns]
    depth = max(map(len, titles))
    for line in range(depth):
        row = [Text(title[line - depth + len(title)] if line >= depth - len(title) else "", "bold") for title in titles]
        _row(row, columns, cells, console)
    _print(Text("─" * min(console.width, sum(cells) + GAP * (len(cells) - 1)), style="dim"), console)


def _row(row: Sequence[Text], columns: Sequence[Column], cells: Sequence[int], console: Console) -> None:
    line = Text()
    for text, column, width in zip(row, columns, cells, strict=True):
        line.append(" " * GAP if line or column is not columns[0] else "")
        fill = " " * (width - cell_len(text.plain))
        line.append_text(text + fill if column.form.justify == "left" else Text(fill) + text)
    line.rstrip()
    _print(line, console)
