"""Charts as PNG, for slides and pages that do not take SVG."""

from __future__ import annotations

from tilewright.ground.installation import require
from tilewright.show.report.charts import style, svg
from tilewright.show.report.charts.records import Chart

#: PNG pixels for each pixel of the chart, for high-resolution screens.
ZOOM = 2


def image(chart: Chart, width: int = svg.WIDE, *, dark: bool = False) -> bytes:
    """The chart as a PNG file's bytes.

    Raises MissingExtraError: resvg-py, which draws it, is not installed.
    """
    resvg_py = require("resvg_py", "PNG charts, unlike SVG, need", "report")
    drawn = style.plain(svg.text(chart, width), dark=dark)
    return bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=ZOOM))
