"""Lines whose accesses cost much more than they need: findings TW701 (bank conflicts) and TW702 (uncoalesced).

They are reported whatever limits the launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tilewright.observe.instruments.findings import Finding, split
from tilewright.observe.profiling.counts import Counts
from tilewright.observe.profiling.record import SiteCounts

#: Least excess of an access for a finding. Bank conflicts: the smallest is one wavefront in two or three. Sectors: this
#: is above the cost of unaligned rows of 16 or more words (one in three), and below that of a stride of two words (one
#: in two).
CONFLICTS, SPREAD = 0.25, 0.4
#: A sector that serves more lanes is a broadcast: the rows of A that a warp of a 16 x 16 block reads are two sectors.
_BROADCAST_LANES = 8


class _Fault(NamedTuple):
    """An access with too much excess: its code, its lanes, and the details of a finding."""

    code: str
    excess: int
    lanes: int
    details: dict[str, float]


def findings(kernel: str, sites: Sequence[SiteCounts], launch: int) -> tuple[Finding, ...]:
    """TW701 and TW702, one for each line and code, at the access with most excess."""
    known = {id(site.counts): site.counts for site in sites}  # many sites share one record
    faults = {which: tuple(_faults(counts)) for which, counts in known.items()}
    lines: dict[tuple[str, str | int], list[tuple[_Fault, SiteCounts]]] = {}
    for site in sites:
        for fault in faults[id(site.counts)]:
            lines.setdefault((fault.code, site.source or site.ptx_line), []).append((fault, site))
    worst = [(max(each, key=lambda one: one[0].excess), sum(one.lanes for one, _ in each)) for each in lines.values()]
    worst.sort(key=lambda item: (item[0][1].source, item[0][1].ptx_line))
    return tuple(
        Finding(
            code=fault.code,
            kernel=kernel,
            source=split(site.source)[0],
            line=split(site.source)[1],
            opcode=site.opcode,
            ptx_line=site.ptx_line,
            count=lanes,
            launch=launch,
            details=fault.details,
        )
        for (fault, site), lanes in worst
    )


def _faults(counts: Counts) -> Iterator[_Fault]:
    for way in (counts.shared_loads, counts.shared_stores, counts.shared_atomics):
        if way.requests and way.excess_wavefronts > CONFLICTS * way.wavefronts:
            details = {"moved": way.wavefronts_per_request, "ideal": way.ideal_per_request}
            yield _Fault("TW701", way.excess_wavefronts, way.lanes, details)
    for moved in (counts.global_loads, counts.global_stores, counts.global_atomics):
        broadcast = moved.lanes > _BROADCAST_LANES * moved.sectors
        if moved.requests and not broadcast and moved.excess_sectors > SPREAD * moved.sectors:
            details = {"moved": moved.sectors_per_request, "ideal": moved.ideal_per_request}
            yield _Fault("TW702", moved.excess_sectors, moved.lanes, details)


def worst(counts: Counts) -> tuple[str, str]:
    """The code and figures of a line's worst access, or two empty strings."""
    found = max(_faults(counts), key=lambda fault: fault.excess, default=None)
    return (found.code, Finding(code=found.code, kernel="", details=found.details).message) if found else ("", "")
