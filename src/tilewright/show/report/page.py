"""Blocks as HTML, for notebooks: readable on light and dark pages, and without styles of the page."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator

from rich.style import Style
from rich.text import Text

from tilewright.show.report import styles
from tilewright.show.report.blocks import Block, Facts, Gap, Line, Words
from tilewright.show.report.tables import Column, Table

#: Text and background keep the page's colours; rules and hovered rows use the text's colour, more transparent.
_SHEET = """
.tilewright {font-size: 13px; line-height: 1.4; max-width: 100%; overflow-x: auto}
.tilewright p {margin: 0 0 2px; white-space: pre-wrap}
.tilewright pre {margin: 0; padding: 0; font-size: 12px; line-height: 1.35; background: none; color: inherit}
.tilewright table {border-collapse: collapse; margin: 6px 0; font-size: 12px; color: inherit}
.tilewright th, .tilewright td {padding: 1px 10px 1px 0; text-align: right; vertical-align: top; background: none}
.tilewright th {vertical-align: bottom; border-bottom: 1px solid color-mix(in srgb, currentColor 40%, transparent)}
.tilewright td.left, .tilewright th.left {text-align: left}
.tilewright td {white-space: nowrap; font-variant-numeric: tabular-nums}
.tilewright td.words {white-space: normal; min-width: 12em}
.tilewright td.code {white-space: pre; font-family: monospace}
.tilewright tr:hover td {background: color-mix(in srgb, currentColor 8%, transparent)}
""".strip()


def html_of(blocks: Iterable[Block]) -> str:
    """One `div` with its own style sheet.

    >>> from tilewright.show.report.blocks import words
    >>> html_of([words("a < ", ("b", "bold"))]).splitlines()[-1]
    '<p>a &lt; <span style="font-weight: bold">b</span></p></div>'
    """
    return f'<div class="tilewright"><style>{_SHEET}</style>\n' + "\n".join(_parts(blocks)) + "</div>"


def _parts(blocks: Iterable[Block]) -> Iterator[str]:
    code: list[str] = []
    for block in blocks:
        if isinstance(block, Line):
            code.append(_spans(block.text))
            continue
        if code:
            yield f"<pre>{chr(10).join(code)}</pre>"
            code = []
        if isinstance(block, Words):
            style = f' style="margin-left: {block.indent / 2:g}em"' if block.indent else ""
            yield f"<p{style}>{_spans(block.text)}</p>"
        elif isinstance(block, Facts):
            yield _facts(block)
        elif isinstance(block, Gap):
            yield '<p style="height: .6em"></p>'
        else:
            yield _table(block)
    if code:
        yield f"<pre>{chr(10).join(code)}</pre>"


def _spans(text: Text) -> str:
    """Text with its styles."""
    ends = sorted({0, len(text.plain), *(end for span in text.spans for end in (span.start, span.end))})
    parts = []
    for start, end in itertools.pairwise(ends):
        named = [str(text.style), *(str(span.style) for span in text.spans if span.start <= start and end <= span.end)]
        css = _css(Style.combine([Style(), *(Style.parse(style) for style in named if style)]))
        words = html.escape(text.plain[start:end])
        parts.append(f'<span style="{css}">{words}</span>' if css else words)
    return "".join(parts)


def _css(style: Style) -> str:
    rules = [
        f"color: {_colour(style.color.get_truecolor().hex)}" if style.color else "",
        "font-weight: bold" if style.bold else "",
        "font-style: italic" if style.italic else "",
        "opacity: .7" if style.dim else "",
    ]
    return "; ".join(filter(None, rules))


def _colour(value: str) -> str:
    """A colour that a page may set to match its background."""
    name = styles.VARIABLES.get(value)
    return value if name is None else f"var(--tw-{name}, {value})"


def _facts(facts: Facts) -> str:
    rows = (
        f'<tr><td class="left"><b>{html.escape(label.strip())}</b></td>'
        f'<td class="left words">{html.escape(words)}</td></tr>'
        for label, words in facts.rows
    )
    return f"<table>{''.join(rows)}</table>"


def _table(table: Table) -> str:
    columns = table.columns
    titles = (html.escape(column.title).replace("\n", "<br>") for column in columns)
    head = "".join(
        f"<th{_class(column, table, head=True)}{_hint(column)}>{title}</th>"
        for column, title in zip(columns, titles, strict=True)
    )
    body = "".join(
        (f'<tr><td class="left" colspan="{len(columns)}"><b>{html.escape(heading)}</b></td></tr>' if heading else "")
        + "<tr>"
        + "".join(f"<td{_class(c, table)}>{_spans(c.cell(row))}</td>" for c in columns)
        + "</tr>"
        for heading, row in table.headed()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _hint(column: Column) -> str:
    return f' title="{html.escape(column.legend)}"' if column.legend else ""


def _class(column: Column, table: Table, *, head: bool = False) -> str:
    names = ["left"] if column.form.justify == "left" else []
    if not head:
        names += ["code"] if column is table.text else ["words"] if column.wrap_at else []
    return f' class="{" ".join(names)}"' if names else ""
