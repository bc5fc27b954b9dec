"""What a page must be once it is built: its pictures are there, and its code can be read. `make docs` fails otherwise.

Source of the contrast: WCAG 2.2, success criterion 1.4.3 and its definitions of contrast ratio and relative luminance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LEAST_CONTRAST = 4.5
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


def absent_pictures(built: Path) -> list[str]:
    """Pages with a picture whose file is not there, as `page: picture`."""
    found = []
    for page in sorted(built.rglob("*.html")):
        for source in re.findall(
            r'<(?:img|object|source)[^>]*? (?:src|data|srcset)="([^"]*)"', page.read_text("utf-8")
        ):
            if not re.match(r"\w+:", source) and not (page.parent / source.partition("#")[0]).is_file():
                found.append(f"{page.relative_to(built)}: {source}")
    return found


def faint(css: str) -> list[str]:
    """Rules of Pygments' style sheet whose words are too faint on their ground, as `selector: contrast`.

    >>> faint(".highlight { background: #f0f0f0 } .highlight .go { color: #888888 } .highlight .k { color: #007020 }")
    ['.highlight .go: 3.1']
    """
    rules = [(selector.split("*/")[-1].strip(), body) for selector, body in _RULE.findall(css)]
    grounds = {
        selector.removesuffix(".highlight"): ground
        for selector, body in rules
        if selector.endswith(".highlight") and (ground := _colour(body, "background"))
    }
    found = []
    for selector, body in rules:
        theme = selector.partition(".highlight")[0]
        ink, ground = _colour(body, "color"), _colour(body, "background-color") or grounds.get(theme)
        if ink and ground and ".highlight" in selector and (ratio := contrast(ink, ground)) < LEAST_CONTRAST:
            found.append(f"{selector}: {ratio:.1f}")
    return found


def _colour(body: str, name: str) -> str | None:
    found = re.search(rf"(?:^|[;\s]){name}: *#([0-9a-fA-F]{{6}}|[0-9a-fA-F]{{3}})\b", body)
    return found[1] if found else None


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, each three or six hexadecimal digits.

    >>> contrast("000", "ffffff")
    21.0
    """
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(colour: str) -> Iterator[float]:
    digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    for start in (0, 2, 4):
        value = int(digits[start : start + 2], 16) / 255
        yield value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
