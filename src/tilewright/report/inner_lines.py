"""Lines of libraries, as they are named beside the user's line that calls them."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ptx.frames import within


def listed(places: Iterable[str]) -> str:
    """Places as `file:line`, those of one file together.

    Examples
    --------
    >>> listed([*(f"/env/site-packages/lib/a.py:{line}" for line in (7, 9, 12)), "/usr/local/cuda/include/b.h:3"])
    'lib/a.py:7, 9, 12 and include/b.h:3'
    """
    files: dict[str, list[str]] = {}
    for place in places:
        file, _, line = within(place).rpartition(":")
        files.setdefault(file, []).append(line)
    return " and ".join(f"{file}:{', '.join(lines)}" for file, lines in files.items())
