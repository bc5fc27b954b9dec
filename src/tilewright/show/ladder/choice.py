"""Choose records of the catalogue by name or by source row."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

from tilewright.errors import ArgumentValueError, nearest
from tilewright.multiply.kernels.catalogue import Record


def select(records: Sequence[Record], patterns: Iterable[str], argument: str = "kernels") -> tuple[Record, ...]:
    """Return the records that any pattern names: a kernel's name, a source row (`S9`), or either with `*` and `?`.

    Raises ArgumentValueError: a pattern names nothing.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        names = {
            r.name
            for r in records
            if fnmatch.fnmatchcase(r.name, pattern) or fnmatch.fnmatchcase(r.source.lower(), pattern.lower())
        }
        if not names:
            close = nearest(pattern, [r.name for r in records], most=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(close)}?" if close else "see `tilewright kernels`"
            raise ArgumentValueError(f"`{argument}` must name records of the catalogue (got {pattern!r}); {hint}")
        chosen |= names
    return tuple(r for r in records if r.name in chosen)


def choose(records: Sequence[Record], name: str) -> Record:
    """Return the one record of that name.

    Raises ArgumentValueError: no record, or several, have the name.
    """
    found = select(records, [name])
    if len(found) > 1:
        listed = ", ".join(record.name for record in found)
        raise ArgumentValueError(f"a kernel must be named by one record's name (got {name!r}: {listed})")
    return found[0]
