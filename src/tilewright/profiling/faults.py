"""Lines whose accesses cost much more than they need: findings TW701 (bank conflicts) and TW702 (uncoalesced).

They are reported whatever limits the launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.instruments.findings import Finding, split
from tilewright.profiling.counts import Counts
from tilewright.profiling.record import SiteCounts

#: Least excess of an access for a finding. Bank conflicts: the smallest is one wavefront in two or three. Sectors: this
#: is above the cost of unaligned rows of 16 or more words (one in three), and below that of a stride of two words (one
#: in two).
CONFLICTS, SPREAD = 0.25, 0.4


def findings(kernel: str, sites: Sequence[SiteCounts], launch: int) -> tuple[Finding, ...]:
    """TW701 and TW702, one for each line and code, at the access with most excess."""
    worst: dict[tuple[str, str | int], tuple[int, SiteCounts, dict[str, float]]] = {}
    lanes: dict[tuple[str, str | int], int] = {}
    known = {id(site.counts): site.counts for site in sites}  # many sites share one record
    faults = {which: tuple(_faults(counts)) for which, counts in known.items()}
    for site in sites:
        for fault, excess, count in faults[id(site.counts)]:
            key = (fault.code, site.source or site.ptx_line)
            lanes[key] = lanes.get(key, 0) + count
            if key not in worst or excess > worst[key][0]:
                worst[key] = (excess, site, fault.details)
    found = []
    for key, (_, site, details) in sorted(worst.items(), key=lambda item: (item[1][1].source, item[1][1].ptx_line)):
        file, line = split(site.source)
        found.append(
            Finding(
                code=key[0], kernel=kernel, source=file, line=line, opcode=site.opcode, ptx_line=site.ptx_line,
                count=lanes[key], launch=launch, details=details,
            )
        )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Fault:
    """A code with its figures."""

    code: str
    moved: float
    ideal: float

    @property
    def details(self) -> dict[str, float]:
        """The details of the finding."""
        return {"moved": self.moved, "ideal": self.ideal}


def _faults(counts: Counts) -> Iterator[tuple[_Fault, int, int]]:
    """The faults of accesses, their excess, and their lanes."""
    for way in (counts.shared_loads, counts.shared_stores, counts.shared_atomics):
        if way.requests and way.excess_wavefronts > CONFLICTS * way.wavefronts:
            fault = _Fault("TW701", way.wavefronts_per_request, way.ideal_per_request)
            yield fault, way.excess_wavefronts, way.lanes
    for moved in (counts.global_loads, counts.global_stores, counts.global_atomics):
        if moved.requests and moved.excess_sectors > SPREAD * moved.sectors:
            fault = _Fault("TW702", moved.sectors_per_request, moved.ideal_per_request)
            yield fault, moved.excess_sectors, moved.lanes


def worst(counts: Counts) -> tuple[str, str]:
    """The code and figures of a line's worst access, or two empty strings."""
    found = max(_faults(counts), key=lambda fault: fault[1], default=None)
    if found is None:
        return "", ""
    fault = found[0]
    return fault.code, Finding(code=fault.code, kernel="", details=fault.details).message
