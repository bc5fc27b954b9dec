"""TW305: the host uses memory that it shares with the device before a stream's work there is known to be done."""

from __future__ import annotations

from tilewright.instruments.findings import Finding, split
from tilewright.simt.observer import HostRace


def finding(race: HostRace) -> Finding:
    """The finding at the host's line.

    Examples
    --------
    >>> found = finding(HostRace("`x`", False, "a.py:9", "`double`", "double", "a.py:8", True))
    >>> found.line, found.message
    (9, 'the host reads `x` without waiting for `double`, launched at a.py:8, which writes there')
    """
    file, line = split(race.line)
    begun = f"{'launched' if race.kernel else 'asked for'} at {race.work_line}"
    message = (
        f"the host {'writes' if race.writes else 'reads'} {race.array} without waiting for {race.work}, {begun}, which "
        f"{'writes' if race.work_writes else 'reads'} there"
    )
    details = {"array": race.array.strip("`"), "other": race.work_line}
    return Finding(code="TW305", message=message, kernel=race.kernel, source=file, line=line, details=details)
