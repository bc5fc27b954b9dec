"""Findings as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from tilewright.backends.protocol import Device
from tilewright.drivers.script import Ended
from tilewright.ladder.rung import Climb, Rung
from tilewright.native.upkeep import Contents
from tilewright.profiling import Profile
from tilewright.profiling.counts import Summable
from tilewright.report import program


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


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return a profile's fields, and the means and shares that follow from its counts.

    Counts that are all zero are left out; what is not known is null.
    """
    document: dict[str, Any] = _plain(profile)
    return document


def profiles_json(profiles: Sequence[Profile], failed: Sequence[tuple[str, str]], ended: Ended) -> str:
    """Return {"profiles": [...], "failed": [...], "program": {...}} as text in ASCII.

    One profile a launch, kernel and error of each launch that has none, and how the program ended.
    """
    document = {
        "profiles": [profile_document(profile) for profile in profiles],
        "failed": [{"kernel": kernel, "error": error} for kernel, error in failed],
        "program": program.document(ended),
    }
    return json.dumps(document, indent=2)


def _plain(value: Any) -> Any:
    """A record as JSON values: fields, then properties that are numbers or names."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        items = ((field.name, getattr(value, field.name)) for field in fields(value))
        known = {name: _plain(item) for name, item in items if not isinstance(item, Summable) or item}
        computed = (name for name in dir(kind) if isinstance(getattr(kind, name), property))
        plain = {name: getattr(value, name) for name in computed}
        return known | {name: x for name, x in plain.items() if isinstance(x, int | float | str)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def cache_json(contents: Contents, limit_bytes: int) -> str:
    """Return what the cache holds, and may hold, as text."""
    return json.dumps({**asdict(contents), "limit_bytes": limit_bytes}, indent=2)


def devices_json(found: Sequence[Device]) -> str:
    """Return {"devices": [...]}, each with what it can do or why it is missing."""
    return json.dumps({"devices": [asdict(device) for device in found]}, indent=2)


def _rung_document(rung: Rung) -> dict[str, Any]:
    document = asdict(rung)
    counts, footprint = document.pop("counts"), document.pop("footprint")
    return {**document, **counts, **footprint}
