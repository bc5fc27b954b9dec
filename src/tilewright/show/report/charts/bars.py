"""Bars below each other, from 0: filled where measured or counted, a dashed outline where predicted."""

from __future__ import annotations

from tilewright.show.report.charts import style
from tilewright.show.report.charts.drawing import LINE, SIZE, Drawing
from tilewright.show.report.charts.records import Bars, kinds

_EACH = 24
_THICK = 15
_LEAST_LENGTH = 1.5


def draw(chart: Bars, drawing: Drawing) -> None:
    """Draw the bars below the present content."""
    left = max((style.width(bar.label, SIZE) for bar in chart.bars), default=0) + 10
    right = max((style.width(bar.text, SIZE) for bar in chart.bars), default=0) + 10
    most = max((bar.value for bar in chart.bars), default=0) or 1.0
    room = max(40.0, drawing.width - left - right)
    drawing.height += 8
    for bar in chart.bars:
        base = drawing.height + _EACH * 0.65
        length = max(_LEAST_LENGTH, room * bar.value / most) if bar.value else 0.0
        drawing.text(left - 8, base, bar.label, text_anchor="end")
        filled = {"fill": "var(--tw-line-0)"}
        outlined = {
            "fill": "var(--tw-line-1)",
            "fill_opacity": 0.25,
            "stroke": "var(--tw-line-1)",
            "stroke_dasharray": "5 3",
        }
        place = {"x": round(left, 1), "y": drawing.height + 4, "width": round(length, 1), "height": _THICK}
        drawing.add("rect", **place, **(outlined if bar.kind == "predicted" else filled))
        drawing.text(left + length + 7, base, bar.text)
        drawing.height += _EACH
    if "predicted" in kinds(chart):
        drawing.height += LINE * 0.3
        drawing.paragraph("Dashed: predicted, not measured.", fill="var(--tw-quiet)", font_size=12)
