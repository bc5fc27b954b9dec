"""Findings of one cause: what one change of the kernel mends is reported once, with all its places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.instruments.findings import Finding, codes, split


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong, once."""

    finding: Finding  #: The first of the code that says most.
    others: tuple[Finding, ...] = ()  #: Where else it shows, in the order of the source.

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
    one guard; and shared memory that is too small is so for all. Each code's record says which of these it is, and
    what it may follow from: threads that left have not written what others read.

    >>> store = Finding(code="TW301", kernel="k", source="a.py", line=3, details={"others": ["a.py:9"]})
    >>> other = Finding(code="TW304", kernel="k", source="a.py", line=4, details={"others": ["a.py:9"]})
    >>> [[place.line for place in cause.places] for cause in causes([store, other])]
    [[3, 4]]
    """
    groups: list[tuple[set[Any], list[Finding]]] = []
    rows = list(findings)
    found = {(one.kernel, one.code) for one in rows}
    led = {
        (kernel, first, code) for kernel, code in found for first in codes()[code].follows if (kernel, first) in found
    }
    for finding in rows:
        marks = {*_marks(finding), *(one for one in led if finding.kernel == one[0] and finding.code in one[1:])}
        joined = [group for group in groups if group[0] & marks]
        if not joined:
            groups.append((marks, [finding]))
            continue
        first, *rest = joined
        first[0].update(marks, *(group[0] for group in rest))
        first[1].extend(one for group in rest for one in group[1])
        first[1].append(finding)
        groups = [group for group in groups if group not in rest]
    return tuple(_cause(group) for _, group in groups)


def _marks(finding: Finding) -> Iterator[Any]:
    """What another finding of the same cause has too."""
    cause = codes()[finding.code].one_cause
    if cause == "race":
        for place in (finding.where, *finding.details.get("others", ())):
            if split(place)[1]:
                yield cause, finding.kernel, place
    elif cause == "kernel":
        yield finding.code, finding.kernel
    elif cause and (finding.line or finding.ptx_line):
        yield cause, finding.kernel, finding.where


def _cause(found: Sequence[Finding]) -> Cause:
    """One cause: what follows from another code of it does not speak; else the first of the lowest code does."""
    among = {one.code for one in found}
    first = min(found, key=lambda one: (not among.isdisjoint(codes()[one.code].follows), one.code))
    return Cause(first, tuple(one for one in found if one is not first))
