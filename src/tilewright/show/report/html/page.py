"""The page: one file of HTML that loads nothing."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from tilewright.show.report.charts import style
from tilewright.show.report.html.figures import Part
from tilewright.version import __version__

#: Most bytes of a page, which people mail and open on telephones.
MOST_BYTES = 2_000_000
#: Most letters of a figure; longer texts have a smaller font.
_FIGURE = 12
#: The browser may run the page's own script and load nothing.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def document(title: str, subtitle: str, facts: Sequence[tuple[str, str, str]], parts: Sequence[Part]) -> str:
    """The whole page.

    `title`, `subtitle`: plain text. `facts`: the main facts: a label, a figure, and a few words below it. `parts`: in
    this order; a script of a part's name draws it from its values.

    >>> page = document("a < b", "", [], [Part("one", "One", "<p>text</p>", {"x": "</script>"})])
    >>> "<title>a &lt; b</title>" in page, page.count("</script>")
    (True, 2)
    """
    links = "".join(f'<a href="#{part.name}">{html.escape(part.title)}</a>' for part in parts)
    sections = "\n".join(_section(part) for part in parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{html.escape(title)}</title>
<style>
{style.sheet(":root", page=True)}
{_file("page.css")}</style>
</head>
<body>
<header>
<h1>{html.escape(title)}</h1>
<p class="subtitle">{html.escape(subtitle)}</p>
</header>
<nav aria-label="parts">{links}</nav>
<main>
{_facts(facts)}
{sections}
</main>
<footer>Made by Tilewright {__version__}; nothing in it is loaded from elsewhere.</footer>
{_scripts(parts)}
</body>
</html>
"""


def _section(part: Part) -> str:
    return f'<section id="{part.name}">\n<h2>{html.escape(part.title)}</h2>\n{part.body}\n</section>'


def _facts(facts: Sequence[tuple[str, str, str]]) -> str:
    cells = []
    for label, figure, words in facts:
        kind = " class=words" if len(figure) > _FIGURE else ""
        shown = f"<dd{kind}>{html.escape(figure)}<small>{html.escape(words)}</small></dd>"
        cells.append(f"<div><dt>{html.escape(label)}</dt>{shown}</div>")
    return f'<dl class="facts">{"".join(cells)}</dl>' if cells else ""


def _scripts(parts: Sequence[Part]) -> str:
    values = [(part.name, part.values) for part in parts if part.values is not None]
    data = "\n".join(
        f'<script type="application/json" id="values-{name}">{_embedded(each)}</script>' for name, each in values
    )
    folder = resources.files(__package__)
    drawn = [name for name, _ in values if folder.joinpath(f"{name}.js").is_file()]
    code = "\n".join(_file(f"{name}.js") for name in ("page", *drawn))
    return f"{data}\n<script>\n{code}</script>"


def _embedded(values: Mapping[str, Any]) -> str:
    """JSON for a script element: without `<`, which could start the end tag or a comment."""
    return json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
