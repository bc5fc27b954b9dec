"""The one sentence of a finding: its code's text, filled with its data.

The texts are in `codes.toml` alone. No code parses a sentence back.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class _Words(string.Formatter):
    """Formats a list as a tuple, or joined by the text after the colon; `*noun` counts the noun."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """One field."""
        if isinstance(value, list | tuple):
            return format_spec.join(map(str, value)) if format_spec else str(tuple(value))
        if format_spec.startswith("*"):
            return f"{value:,} {format_spec[1:]}{'s' * (value != 1)}"
        return format(value, format_spec)

    def fields(self, text: str) -> set[str]:
        """Names of the fields of a text."""
        return {name for _, name, _, _ in self.parse(text) if name}


def sentence(text: str, clauses: Mapping[str, str], data: Mapping[str, Any], where: str = "") -> str:
    """The text filled in, and its clauses; "" if the data lack a field of the text.

    `codes.toml` describes the fields. A clause is named after the field whose presence adds it. `where` is the place of
    the finding itself; another place that is equal to it becomes "the same line".

    >>> sentence("{n:*lane} read {shape}", {"line": "; line {line}"}, {"n": 2, "shape": [3, 4], "line": 5})
    '2 lanes read (3, 4); line 5'
    >>> sentence("a race at {there}", {}, {"others": ["a.py:3", "a.py:9"]}, "a.py:9")
    'a race at a.py:3 and the same line'
    """
    words = _Words()
    races = {"there": data.get("others", ()), "whose": data, "region": data if "space" in data else None}
    known = {name: value for name, value in races.items() if value is not None} | dict(data)
    if words.fields(text) - known.keys():
        return ""
    known |= {name: _OWN[name](known[name], where) for name in _OWN.keys() & known.keys()}
    said = [text, *(clause for name, clause in clauses.items() if name in data)]
    return "".join(words.vformat(part, (), known) for part in said)


def _there(others: Sequence[str], where: str) -> str:
    """The other lines of a race that are known."""
    return " and ".join("the same line" if other == where else other for other in others) or "another line"


def _ends(ends: Sequence[Sequence[int]], where: str) -> str:
    """The largest index of each axis: pairs of index and axis."""
    return " and ".join(f"{index:,} of axis {axis}" for index, axis in ends)


def _region(data: Mapping[str, Any], where: str) -> str:
    """The memory of a race, with its variable if that is known."""
    space = f"in {data['space']} memory"
    return f"of `{data['variable']}` {space}" if "variable" in data else space


def _whose(data: Mapping[str, Any], where: str) -> str:
    """The thread of a race's other access, or the part of a warp that it is in, between commas."""
    parts = [str(tuple(data["other_block"]))] if "other_block" in data else []
    if "other_thread" in data:
        parts.append(f"thread {tuple(data['other_thread'])}")
    elif "other_threads" in data:
        first, last = map(tuple, data["other_threads"])
        parts.append(f"one of threads {first} to {last}")
    return "".join(f", {part}" for part in parts) + "," * bool(parts)


#: Arrays in one sentence.
_LISTED = 6


def _arrays(arrays: Sequence[tuple[str, Sequence[int]]], where: str) -> str:
    """Names and shapes, up to a limit."""
    words = ", ".join(f"`{name}` of shape {tuple(shape)}" for name, shape in arrays[:_LISTED])
    return words + (f" and {len(arrays) - _LISTED} more" if len(arrays) > _LISTED else "")


#: Fields with a format of their own.
_OWN: Mapping[str, Callable[[Any, str], str]] = {
    "there": _there,
    "ends": _ends,
    "arrays": _arrays,
    "region": _region,
    "whose": _whose,
}
