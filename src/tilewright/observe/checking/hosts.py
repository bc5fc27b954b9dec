"""TW305: the host uses memory that it shares with the device before it waits for a stream's work on it."""

from __future__ import annotations

from tilewright.observe.instruments.findings import Finding, split
from tilewright.simulate.observer import HostRace


def finding(race: HostRace) -> Finding:
    """The finding at the host's line.

    >>> found = finding(HostRace("`x`", False, "a.py:9", "`double`", "double", "a.py:8", True))
    >>> found.line, found.message
    (9, 'the host reads `x` without waiting for `double`, launched at a.py:8, which writes it')
    """
    file, line = split(race.line)
    details = {
        "how": "launched" if race.kernel else "copied",
        "array": race.array.strip("`"),
        "memory": race.array,
        "work": race.work,
        "access": _verb(race.writes),
        "other_access": _verb(race.work_writes),
        "others": [race.work_line],
    }
    return Finding(code="TW305", kernel=race.kernel, source=file, line=line, details=details)


def _verb(writes: bool) -> str:
    return "writes" if writes else "reads"
