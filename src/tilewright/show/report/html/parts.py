"""The parts of a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the page."""

    name: str  #: Its anchor; a script of this name, if there is one, draws it.
    title: str
    body: str  #: HTML with all foreign text escaped.
    values: Mapping[str, Any] | None = None  #: JSON values that its script draws.
