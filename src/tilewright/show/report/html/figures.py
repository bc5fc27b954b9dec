"""The parts of a page: charts, each for wide windows and for narrow ones, reports, and launches, each as a page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.show.report.blocks import Block
from tilewright.show.report.charts import svg
from tilewright.show.report.charts.records import Chart
from tilewright.show.report.page import html_of


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the page."""

    name: str  #: Its anchor; a script of this name, if there is one, draws it.
    title: str
    body: str  #: HTML with all foreign text escaped.
    values: Mapping[str, Any] | None = None  #: JSON values that its script draws.


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


_BODY = """<div class="controls">
<label>launch <select id="launch"></select></label>
<label>beside it <select id="beside"></select></label>
</div>
<div class="launches"></div>"""


def of_launches(rows: Sequence[tuple[str, str]]) -> Part:
    """Launches of a program, one or two at a time, from a label and a page for each; what pages share is there once.

    >>> made = of_launches([("0: a", "<p>a</p>"), ("1: b", "<p>b</p>")])
    >>> made.values == {"before": "<p>", "after": "</p>", "pages": [["0: a", "a"], ["1: b", "b"]]}
    True
    """
    texts = [text for _, text in rows]
    before = _shared(texts)
    after = _shared([text[len(before) :][::-1] for text in texts])[::-1]
    pages = [[label, text[len(before) : len(text) - len(after)]] for label, text in rows]
    return Part("launches", "Launches", _BODY, {"before": before, "after": after, "pages": pages})


def _shared(texts: Sequence[str]) -> str:
    """The letters with which all begin."""
    least, most = min(texts), max(texts)
    end = next((at for at, letter in enumerate(least) if letter != most[at]), len(least))
    return least[:end]
