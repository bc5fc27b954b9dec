"""The parts of reports, independent of the medium: blocks of words, lines, labelled facts and tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.text import Text

from tilewright.show.report.tables import Table


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph: wraps between words if a width is set, with further lines indented by `hang`."""

    text: Text
    indent: int = 0
    hang: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is never wrapped: code, or text that editors parse."""

    text: Text


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels with words, a line each."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """An empty line."""


Block = Words | Line | Facts | Gap | Table


def words(*parts: str | Text | tuple[str, str], indent: int = 0, hang: int = 0) -> Words:
    """A paragraph of texts, each plain or with its style.

    >>> words(("TW101", "bold"), " found").text.plain
    'TW101 found'
    """
    return Words(Text.assemble(*parts), indent, hang)


def legend(tables: Iterable[Table], *, brief: bool = False) -> list[Block]:
    """Explanations of the tables' titles, each once."""
    meanings: dict[str, str] = {}
    for table in tables:
        meanings |= table.legend
    if brief:
        meanings["k, M, G"] = "thousands, millions, 10^9"
    parts = "; ".join(f"{title}: {meaning}" for title, meaning in meanings.items())
    return [Words(Text(f"{parts}.", style="dim"))] if parts else []
