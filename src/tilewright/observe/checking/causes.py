"""The findings of a run, as a tuple that displays itself, and their causes, each of which a report shows once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.ground.display import Shown
from tilewright.observe.instruments.findings import Finding, codes, split


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause and the findings that it explains."""

    finding: Finding  #: The finding to report: of the lowest code that follows from no other.
    others: tuple[Finding, ...] = ()  #: The other findings of this cause, in source order.

    @property
    def places(self) -> tuple[Finding, ...]:
        """All findings of the cause, the reported one first."""
        return (self.finding, *self.others)

    def to_json(self) -> dict[str, Any]:
        """The fields of the reported finding; the others are in `places`."""
        return {**self.finding.to_json(), "places": [other.to_json() for other in self.others]}


def causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """Group findings by cause, in the order of each cause's first place.

    These findings share a cause: races of a kernel that involve the same line (one missing barrier); barriers that
    threads miss because they left by the same exit; faults in the lanes of one shuffle line (its mask); out-of-bounds
    accesses of one line (one missing guard); all findings of too little shared memory in a kernel. `codes.toml` states
    the rule of each code (`one_cause`), and which codes it can follow from (`follows`): for example, threads that left
    early have not written what others read.

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
    """Keys that all findings of the same cause share."""
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
    """Choose the finding to report: the lowest code that does not follow from another code of the group."""
    among = {one.code for one in found}
    first = min(found, key=lambda one: (not among.isdisjoint(codes()[one.code].follows), one.code))
    return Cause(first, tuple(one for one in found if one is not first))


class Findings(Shown, tuple[Finding, ...]):
    """Findings in source order, one for each line and code; text and HTML are as `tilewright check` prints them.

    Parameters
    ----------
    findings : iterable of Finding
    launches, kernels : int
        How many launches, and of how many kernels, were checked.
    held : iterable of Finding
        Those that `strict` would add.

    Examples
    --------
    >>> found = Findings([Finding(code="TW601", kernel="k", ptx_line=9)])
    >>> len(found), found[0].code, found == (found[0],)
    (1, 'TW601', True)
    >>> print(Findings([]))
    no findings in 1 launch of 1 kernel
    """

    launches: int
    kernels: int
    held: tuple[Finding, ...]

    def __new__(
        cls, findings: Iterable[Finding], launches: int = 1, kernels: int = 1, held: Iterable[Finding] = ()
    ) -> Findings:
        """Store the numbers of launches and kernels, and what is held back, with the findings."""
        found = super().__new__(cls, tuple(findings))
        found.launches, found.kernels, found.held = launches, kernels, tuple(held)
        return found

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings grouped by cause: one missing barrier is one cause, with its places."""
        return causes(self)
