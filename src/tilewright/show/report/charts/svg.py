"""Charts as SVG, laid out for a width."""

from __future__ import annotations

import html

from tilewright.show.report.charts import bars, heat, lines, style
from tilewright.show.report.charts.drawing import TITLE_SIZE, Drawing
from tilewright.show.report.charts.records import Bars, Chart, Heat

#: Widths that charts are made for: a page of a report, and a telephone.
WIDE, NARROW = 640, 360


def text(chart: Chart, width: int = WIDE, *, alone: bool = True) -> str:
    """The chart as an `<svg>` element.

    `width`: width of the layout in pixels; the chart can be shown at any size. `alone`: whether it is a file of its
    own, with its own colours, light and dark. In a page, the page's style sheet has them.

    >>> from tilewright.show.report.charts.records import Bars, Cell
    >>> text(Bars("Times", (Cell(2.0, "2 s", label="naive"),)))[:40]
    '<svg xmlns="http://www.w3.org/2000/svg" '
    """
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
    """The drawing as an `<svg>` element; see :func:`text`."""
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
