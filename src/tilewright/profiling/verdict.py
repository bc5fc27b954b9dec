"""Rules that name what bounds a launch, and the lines that cause it.

The slowest unit (:mod:`tilewright.profiling.units`) is the bound. The first rule that holds gives the reason for its
work; a cause is the line with most of that work. Findings TW701 and TW702 report every line with too much excess,
whatever the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.instruments.findings import Finding, split
from tilewright.machine import Gpu
from tilewright.profiling.counts import LANES, Counts
from tilewright.profiling.record import Cause, Extent, LineCounts, SiteCounts, Traffic, Unit, Verdict
from tilewright.profiling.units import ARITHMETIC, DRAM, ISSUE, L1, L2, work

#: Least share of excess in a launch's work that makes it the reason of the bound.
EXCESS = 0.25
#: Least excess of an access for a finding. Bank conflicts: the smallest is one wavefront in two or three. Sectors: this
#: is above the cost of unaligned rows of 16 or more words (one in three), and below that of a stride of two words (one
#: in two).
CONFLICTS, SPREAD = 0.25, 0.4
#: Least share of the work for which a second line is named.
_SECOND = 0.2


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of the rules."""

    gpu: Gpu
    grid: Extent
    totals: Counts
    units: Sequence[Unit]
    moved: Traffic

    @property
    def bound(self) -> str:
        """Name of the slowest unit."""
        return self.units[0].name

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.grid)

    @property
    def excess_sectors(self) -> float:
        """Share of global memory's sectors that ideal accesses would not move."""
        moved = self.totals.in_global
        return moved.excess_sectors / moved.sectors if moved.sectors else 0.0

    @property
    def excess_wavefronts(self) -> float:
        """Share of shared memory's wavefronts that are bank conflicts."""
        fronts = self.totals.in_shared
        return fronts.excess_wavefronts / fronts.wavefronts if fronts.wavefronts else 0.0

    @property
    def local_share(self) -> float:
        """Local memory's share of the sectors."""
        local, other = self.totals.in_local.sectors, self.totals.in_global.sectors
        return local / (local + other) if local else 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: when it holds, its sentence, and the source of its threshold."""

    name: str
    threshold: float  #: The value that `measure` must exceed.
    source: str
    measure: Callable[[Evidence], float]  #: Measures the evidence; 0 if the rule does not apply.
    #: With `{bound}`, `{value}` (the measure, in percent), `{blocks}` and `{multiprocessors}`.
    sentence: str
    #: The part of a line's counts that causes the bound; by default the slowest unit's work.
    weight: Callable[[Counts], int] | None = None


_MEMORY = (DRAM, L2, L1)
_ISSUED = (ISSUE, *ARITHMETIC)


def _where(bounds: Sequence[str], measure: Callable[[Evidence], float]) -> Callable[[Evidence], float]:
    """A measure that applies only if one of these units is the bound."""
    return lambda evidence: measure(evidence) if evidence.bound in bounds else 0.0


#: The first rule that holds applies; the last one always holds.
RULES = (
    Rule(
        "few blocks", 0.0, "CUDA C++ Best Practices Guide, Thread and Block Heuristics",
        lambda e: 1 - e.blocks / e.gpu.multiprocessors,
        "{blocks} for {multiprocessors} multiprocessors: {value} of the GPU is idle, the rest bound by {bound}",
    ),
    Rule(
        "bank conflicts", EXCESS, "Nsight Compute, rule Uncoalesced Shared Accesses; the threshold is ours",
        _where((L1,), lambda e: e.excess_wavefronts),
        "bound by {bound}: {value} of shared memory's wavefronts are bank conflicts",
        lambda c: c.in_shared.excess_wavefronts,
    ),
    Rule(
        "uncoalesced access", EXCESS, "Nsight Compute, rule Uncoalesced Global Accesses; the threshold is ours",
        _where(_MEMORY, lambda e: e.excess_sectors),
        "bound by {bound}: {value} of the sectors of global memory are more than its accesses need",
        lambda c: c.in_global.excess_sectors,
    ),
    Rule(
        "local memory", EXCESS, "CUDA C++ Best Practices Guide, Local Memory; the threshold is ours",
        _where(_MEMORY, lambda e: e.local_share),
        "bound by {bound}: {value} of the sectors are local memory's: spills, or arrays indexed at run time",
        lambda c: c.in_local.sectors,
    ),
    Rule(
        "divergence", EXCESS, "Nsight Compute, rule Thread Divergence; the threshold is ours",
        _where(_ISSUED, lambda e: 1 - e.totals.lane_efficiency),
        "bound by {bound}: {value} of the lanes that instructions go to are switched off",
        lambda c: LANES * c.warp_instructions - c.thread_instructions,
    ),
    Rule(
        "slowest unit", 0.0, "Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009",
        lambda e: 1.0,
        "bound by {bound}",
    ),
)  # fmt: skip


def verdict(evidence: Evidence, lines: Sequence[LineCounts]) -> Verdict | None:
    """The bound, and the one or two lines that cause it; None if nothing ran."""
    if not evidence.units:
        return None
    rule, value = next((rule, value) for rule in RULES if (value := rule.measure(evidence)) > rule.threshold)
    sentence = rule.sentence.format(
        bound=evidence.bound,
        value=f"{100 * value:.0f} %",
        blocks=f"{evidence.blocks:,} block{'s' * (evidence.blocks != 1)}",
        multiprocessors=evidence.gpu.multiprocessors,
    )
    weight = rule.weight or work(evidence.bound, evidence.moved)
    whole = weight(evidence.totals)
    shares = sorted(((weight(line.counts) / whole, line) for line in lines), key=lambda pair: -pair[0])
    causes = [
        Cause(line.file, line.line, part, *_fault(line.counts))
        for rank, (part, line) in enumerate(shares[:2])
        if not rank or part >= _SECOND
    ]
    return Verdict(evidence.bound, rule.name, sentence, tuple(causes))


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


def _fault(counts: Counts) -> tuple[str, str]:
    """The code and figures of a line's worst access, or two empty strings."""
    found = max(_faults(counts), key=lambda fault: fault[1], default=None)
    if found is None:
        return "", ""
    fault = found[0]
    return fault.code, Finding(code=fault.code, kernel="", details=fault.details).message
