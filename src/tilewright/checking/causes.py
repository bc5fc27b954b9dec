"""Findings of one cause: what one change of the kernel mends is told once, with all its places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.instruments.findings import Finding

#: Codes of accesses that nothing orders: those that meet at a line lack the same barrier.
_UNORDERED = frozenset({"TW301", "TW302", "TW303", "TW304"})
#: Codes that have one cause at a line: a mask that leaves out lanes which take part, or whose values others
#: take; a guard that is missing, as `out[i] = a[i]` lacks one for both arrays, and rows run over where indices do.
_OF_LINE = {"TW404": "mask", "TW405": "mask", "TW101": "guard", "TW107": "guard"}
#: Codes that have one cause in a kernel, however many places: threads that leave are missing at every later barrier,
#: and what is stored past the end of a shared array that is too small is loaded from there too.
_OF_KERNEL = frozenset({"TW402", "TW103"})


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong, once.

    Attributes
    ----------
    finding : Finding
        The first of its most telling code.
    others : tuple of Finding
        Where else it shows, in the order of the source.
    """

    finding: Finding
    others: tuple[Finding, ...] = ()

    @property
    def places(self) -> tuple[Finding, ...]:
        """All of them."""
        return (self.finding, *self.others)

    def to_json(self) -> dict[str, Any]:
        """The finding's fields, and those of the others as `places`."""
        return {**self.finding.to_json(), "places": [other.to_json() for other in self.others]}


def causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """Findings with those of the same cause together, in the order of each cause's first place.

    Races of a kernel that meet at a line lack one barrier; barriers that threads miss by leaving miss them for one
    exit; what is wrong with the lanes of a line's shuffle is its mask; accesses of a line that leave their arrays lack
    one guard; and shared memory that is too small is so for all.

    Examples
    --------
    >>> store = Finding(code="TW301", message="m", kernel="k", source="a.py", line=3, details={"other": "a.py:9"})
    >>> other = Finding(code="TW304", message="m", kernel="k", source="a.py", line=4, details={"other": "a.py:9"})
    >>> [[place.line for place in cause.places] for cause in causes([store, other])]
    [[3, 4]]
    """
    groups: list[tuple[set[Any], list[Finding]]] = []
    for finding in findings:
        marks = set(_marks(finding))
        joined = [group for group in groups if group[0] & marks]
        if not joined:
            groups.append((marks, [finding]))
            continue
        first, *rest = joined
        first[0].update(marks, *(group[0] for group in rest))
        first[1].extend(one for group in rest for one in group[1])
        first[1].append(finding)
        groups = [group for group in groups if group not in rest]
    return tuple(_cause(found) for _, found in groups)


def _marks(finding: Finding) -> Iterator[Any]:
    """What another finding of the same cause has too."""
    if finding.code in _UNORDERED:
        for place in (finding.where, *str(finding.details.get("other", "")).split(", ")):
            if place.rpartition(":")[2].isdigit():
                yield "race", finding.kernel, place
    elif finding.code in _OF_LINE and (finding.line or finding.ptx_line):
        yield _OF_LINE[finding.code], finding.kernel, finding.where
    elif finding.code in _OF_KERNEL:
        yield finding.code, finding.kernel


def _cause(found: Sequence[Finding]) -> Cause:
    first = min(found, key=lambda one: one.code)  # the first in the source, of one code
    return Cause(first, tuple(one for one in found if one is not first))
