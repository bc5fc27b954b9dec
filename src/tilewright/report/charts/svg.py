"""Charts as SVG, laid out for a width."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from tilewright.report.charts import style
from tilewright.report.charts.records import Bars, Chart, Heat

#: Widths that charts are made for: a page of a report, and a telephone.
WIDE, NARROW = 640, 360
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


def text(chart: Chart, width: int = WIDE, *, alone: bool = True) -> str:
    """The chart as an `<svg>` element.

    `width`: width of the layout in pixels; the chart can be shown at any size. `alone`: whether it is a file of its
    own, with its own colours, light and dark. In a page, the page's style sheet has them.

    >>> from tilewright.report.charts.records import Bars, Cell
    >>> text(Bars("Times", (Cell(2.0, "2 s", label="naive"),)))[:40]
    '<svg xmlns="http://www.w3.org/2000/svg" '
    """
    from tilewright.report.charts import bars, heat, lines

    drawing = Drawing(width)
    drawing.paragraph(chart.title, font_size=TITLE_SIZE, font_weight="bold")
    if isinstance(chart, Heat):
        heat.draw(chart, drawing)
    elif isinstance(chart, Bars):
        bars.draw(chart, drawing)
    else:
        lines.draw(chart, drawing)
    if chart.note:
        drawing.height += 6
        drawing.paragraph(chart.note, fill="var(--tw-quiet)", font_size=12)
    return element(drawing, chart.title, alone=alone)


def element(drawing: Drawing, title: str, *, alone: bool = True) -> str:
    """What was drawn, as an `<svg>` element; see :func:`text`."""
    edge = 12 if alone else 0  # a file has no page around it
    width, height = drawing.width + 2 * edge, round(drawing.height + 4) + 2 * edge
    own = (
        f"<style>{style.sheet(':root')}</style>\n"
        f'<rect x="{-edge}" y="{-edge}" width="{width}" height="{height}" fill="var(--tw-ground)"/>\n'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-edge} {-edge} {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{html.escape(title)}" font-family="{style.FONT}">\n'
        f"<title>{html.escape(title)}</title>\n{own if alone else ''}" + "\n".join(drawing.parts) + "\n</svg>"
    )
