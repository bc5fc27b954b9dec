"""Charts and reports as parts of the page: each chart twice, for wide windows and for narrow ones."""

from __future__ import annotations

import html
from collections.abc import Iterable

from tilewright.show.report.blocks import Block
from tilewright.show.report.charts import svg
from tilewright.show.report.charts.records import Chart
from tilewright.show.report.html.parts import Part
from tilewright.show.report.page import html_of


def charted(name: str, title: str, text: str, charts: Iterable[Chart], more: str = "") -> Part:
    """A section of charts below a paragraph, then more HTML."""
    drawn = "\n".join(_chart(chart) for chart in charts)
    return Part(name, title, f'<p>{html.escape(text)}</p>\n<div class="charts">{drawn}</div>\n{more}')


def folded(title: str, blocks: Iterable[Block]) -> str:
    """A report that a click opens."""
    return f"<details><summary>{html.escape(title)}</summary>{html_of(blocks)}</details>"


def _chart(chart: Chart) -> str:
    wide, narrow = (svg.text(chart, width, alone=False) for width in (svg.WIDE, svg.NARROW))
    return f'<figure class="chart"><div class="wide">{wide}</div><div class="narrow">{narrow}</div></figure>'


def section(name: str, title: str, text: str, blocks: Iterable[Block]) -> Part:
    """A section with a report's blocks."""
    return Part(name, title, f"<p>{html.escape(text)}</p>\n{html_of(blocks)}")
