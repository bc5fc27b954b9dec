"""Colours of charts, light and dark, as variables of CSS; and estimates of text width.

People with any common colour blindness can distinguish the lines' colours. Their contrast with the background is at
least 3 to 1 (WCAG 2.2, 1.4.11), that of words 4.5 to 1 (1.4.3). Source: Okabe and Ito, Color Universal Design, 2008.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

#: By name: light, dark.
_COLOURS = MappingProxyType(
    {
        "ground": ("#ffffff", "#14181d"),
        "panel": ("#f4f6f8", "#1c2229"),
        "ink": ("#1b1f24", "#e8ecf0"),
        "quiet": ("#57606a", "#a3adb8"),
        "grid": ("#d5dae0", "#333c46"),
        "heat": ("#0a4f8a", "#7cc0f5"),
        "accent": ("#0b62a8", "#6fb6f0"),
        "good": ("#1f7a35", "#5fcf80"),
        "bad": ("#c22f27", "#ff7d72"),
        "line-0": ("#0068ad", "#56b4e9"),
        "line-1": ("#c24e00", "#f08c3a"),
        "line-2": ("#00795a", "#2fc79c"),
        "line-3": ("#a8437f", "#dd8fbb"),
        "line-4": ("#8a6d00", "#e6c229"),
        "line-5": ("#5b4bb5", "#a79bf2"),
        "line-6": ("#3d6f1b", "#9bd36a"),
        "line-7": ("#55606b", "#b4bfca"),
    }
)
#: Further colours for words on a page.
_WORDS = MappingProxyType(
    {"warning": ("#8a5200", "#eba43f"), "place": ("#0f6a6a", "#4cc3c3"), "predicted": ("#8a3fb5", "#cf97ee")}
)
#: How many colours lines have.
LINES = 8
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_VARIABLE = re.compile(r"var\(--tw-([\w-]+)\)")
#: Mean width of a letter of a common sans-serif font, relative to its height.
_LETTER = 0.52


def colours(*, dark: bool, page: bool = False) -> Mapping[str, str]:
    """The colours by name, of a drawing or of a page.

    >>> colours(dark=True)["ground"]
    '#14181d'
    """
    return {name: pair[dark] for name, pair in {**_COLOURS, **(_WORDS if page else {})}.items()}


def sheet(where: str, *, page: bool = False) -> str:
    """CSS rules that set the variables for the selector `where`, by the reader's preferred scheme; printing is light.

    >>> sheet("svg").count("--tw-ink:")
    2
    """
    light, dark = (
        f"{where} {{{'; '.join(f'--tw-{name}: {value}' for name, value in colours(dark=is_dark, page=page).items())}}}"
        for is_dark in (False, True)
    )
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{{dark}}}"


def plain(text: str, *, dark: bool) -> str:
    """A drawing with colours in place of variables, for programs without CSS variables.

    >>> plain('fill="var(--tw-ground)"', dark=False)
    'fill="#ffffff"'
    """
    named = colours(dark=dark)
    return _VARIABLE.sub(lambda found: named[found[1]], text)


def width(text: str, size: float) -> float:
    """The estimated width of a text, in pixels."""
    return len(text) * size * _LETTER
