"""What a page is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the page."""

    name: str  #: Its anchor; a script of this name, if there is one, draws it.
    title: str
    body: str  #: HTML, in which all text of others is escaped.
    values: Mapping[str, Any] | None = None  #: What its script draws: JSON values.
