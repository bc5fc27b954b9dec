"""Findings as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tilewright.ladder.rung import Climb, Rung
from tilewright.native.upkeep import Contents


def climb_document(climb: Climb) -> dict[str, Any]:
    """Return {"machine", "problem", "rungs"}; counts and footprint stand beside a rung's other fields.

    What was not counted is null, never 0.
    """
    return {
        "machine": asdict(climb.machine),
        "problem": {**asdict(climb.problem), "operations": climb.problem.operations},
        "rungs": [_rung_document(rung) for rung in climb.rungs],
    }


def climb_json(climb: Climb) -> str:
    """Return the document as text, in ASCII: it is valid whatever the terminal's encoding."""
    return json.dumps(climb_document(climb), indent=2)


def cache_json(contents: Contents, limit_bytes: int) -> str:
    """Return what the cache holds, and may hold, as text."""
    return json.dumps({**asdict(contents), "limit_bytes": limit_bytes}, indent=2)


def _rung_document(rung: Rung) -> dict[str, Any]:
    document = asdict(rung)
    counts, footprint = document.pop("counts"), document.pop("footprint")
    return {**document, **counts, **footprint}
