"""The part of a page that shows one launch of a program, or two beside each other, each as a page of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.show.report.html.parts import Part

_BODY = """<div class="controls">
<label>launch <select id="launch"></select></label>
<label>beside it <select id="beside"></select></label>
</div>
<div class="launches"></div>"""


def part(rows: Sequence[tuple[str, str]]) -> Part:
    """From a label and a page for each launch; what the pages share is there once.

    >>> made = part([("0: a", "<p>a</p>"), ("1: b", "<p>b</p>")])
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
