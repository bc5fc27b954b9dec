"""Drawings made of SVG elements, from the top down."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from tilewright.show.report.charts import style

SIZE, TITLE_SIZE, LINE = 13, 16, 18


@dataclass(slots=True)
class Drawing:
    """Elements of an SVG, from the top down."""

    width: int
    height: float = 0  #: Height of the content so far.
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, **attributes: object) -> None:
        """An element; `_` in names stands for `-`."""
        self.element(tag, "", **attributes)

    def element(self, tag: str, tooltip: str, **attributes: object) -> None:
        """An element with a tooltip."""
        inside = f"><title>{html.escape(tooltip)}</title></{tag}>" if tooltip else "/>"
        self.parts.append(f"<{tag}{_attributes(attributes)}{inside}")

    def text(self, x: float, y: float, words: str, **attributes: object) -> None:
        """A line of text, its base line at y."""
        attributes = {"x": round(x, 1), "y": round(y, 1), "fill": "var(--tw-ink)", "font_size": SIZE} | attributes
        self.parts.append(f"<text{_attributes(attributes)}>{html.escape(words)}</text>")

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = "grid") -> None:
        """A thin straight line."""
        ends = {"x1": round(x1, 1), "y1": round(y1, 1), "x2": round(x2, 1), "y2": round(y2, 1)}
        self.add("line", **ends, stroke=f"var(--tw-{colour})", stroke_width=1)

    def paragraph(self, words: str, **attributes: object) -> None:
        """Text below the present content, broken into lines."""
        size = attributes.get("font_size", SIZE)
        assert isinstance(size, int)
        for line in broken(words, self.width - 2, size):
            self.height += size * 1.35
            self.text(0, self.height - size * 0.3, line, **attributes)


def _attributes(values: dict[str, object]) -> str:
    return "".join(f' {name.replace("_", "-")}="{html.escape(str(value))}"' for name, value in values.items())


def broken(words: str, width: float, size: float) -> list[str]:
    """A sentence broken into lines of about the given width at most.

    >>> broken("one two three", 60, 13)
    ['one two', 'three']
    """
    lines: list[str] = []
    for word in words.split():
        if lines and style.width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
