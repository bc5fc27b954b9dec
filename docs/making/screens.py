"""The first screen of `tilewright ladder` as a picture, from the page that shows it and whose examples are run."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.show.report.charts import svg
from tilewright.show.report.charts.drawing import Drawing

PAGE = Path(__file__).resolve().parents[1] / "ladder.md"
COMMAND = "$ tilewright ladder"
_CELL, _LINE = 7.8, 18  #: Width and height of a cell.
_EIGHTHS = "▏▎▍▌▋▊▉█"


def first_screen() -> str:
    """The screen, letter by letter; bars are drawn, so that no font leaves gaps in them."""
    found = re.search(rf"^{re.escape(COMMAND)}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE.name} shows `{COMMAND}`"
    lines = [COMMAND, *found[1].splitlines()]
    drawing = Drawing(round(max(map(len, lines)) * _CELL))
    for line in lines:
        drawing.height += _LINE
        _draw(drawing, line)
    return svg.element(drawing, "The first screen of tilewright ladder")


def _draw(drawing: Drawing, line: str) -> None:
    for part in re.finditer(rf"[{_EIGHTHS}]+|─+|✓|(?:(?![{_EIGHTHS}─✓]).)+", line):
        x, y, words = part.start() * _CELL, drawing.height, part[0]
        wide = len(words) * _CELL
        if words[0] in _EIGHTHS:
            eighths = sum(1 + _EIGHTHS.index(letter) for letter in words)
            bar = {"x": round(x, 1), "y": y - 12, "width": round(eighths / 8 * _CELL, 1), "height": 13}
            drawing.add("rect", **bar, fill="var(--tw-line-0)")
        elif words[0] == "─":
            drawing.line(x, y - 5, x + wide, y - 5, "quiet")
        elif words.strip():
            colour = "good" if words == "✓" else "quiet" if line in (COMMAND,) else "ink"
            look = {"font_family": "monospace", "style": "white-space:pre", "textLength": round(wide, 1)}
            drawing.text(x, y, words, fill=f"var(--tw-{colour})", lengthAdjust="spacingAndGlyphs", **look)
