"""What bounds a launch, in words, and the lines that cause it: a small table of rules.

The slowest unit (:mod:`tilewright.profiling.units`) is the bound. The first rule that holds says why it has so much to
do; a cause is the line that makes most of its work. Findings TW701 and TW702 name every line with too much excess,
whatever bounds the launch.
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

#: Share of a launch's work that must be excess for it to be the reason of the bound.
EXCESS = 0.25
#: Excess of what an access moves from which it is a finding. Bank conflicts: the least of them is one wavefront in two
#: or three. Sectors: more than rows of 16 words or more cost that start off their alignment, one in three; a stride of
#: two words costs one in two.
CONFLICTS, SPREAD = 0.25, 0.4
#: Share of the work from which a second line is named.
_SECOND = 0.2


@dataclass(frozen=True, slots=True)
class Evidence:
    """What rules look at."""

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
        """Of the grid."""
        return math.prod(self.grid)

    @property
    def excess_sectors(self) -> float:
        """Share of global memory's sectors that no ideal access would move."""
        moved = self.totals.in_global
        return moved.excess_sectors / moved.sectors if moved.sectors else 0.0

    @property
    def excess_wavefronts(self) -> float:
        """Share of shared memory's wavefronts that are bank conflicts."""
        fronts = self.totals.in_shared
        return fronts.excess_wavefronts / fronts.wavefronts if fronts.wavefronts else 0.0

    @property
    def local_share(self) -> float:
        """Share of the sectors that are local memory's."""
        local, other = self.totals.in_local.sectors, self.totals.in_global.sectors
        return local / (local + other) if local else 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: when it holds, what it says, and where its threshold is from."""

    name: str
    threshold: float  #: What `measure` must pass.
    source: str
    measure: Callable[[Evidence], float]  #: Of the evidence; 0 where the rule does not apply.
    #: With `{bound}`, `{value}` (what was measured, in percent), `{blocks}` and `{multiprocessors}`.
    sentence: str
    #: What of a line's counts causes it; the slowest unit's work by default.
    weight: Callable[[Counts], int] | None = None


_MEMORY = (DRAM, L2, L1)
_ISSUED = (ISSUE, *ARITHMETIC)


def _where(bounds: Sequence[str], measure: Callable[[Evidence], float]) -> Callable[[Evidence], float]:
    """A measure that applies only where one of these units is the bound."""
    return lambda evidence: measure(evidence) if evidence.bound in bounds else 0.0


#: The first that holds speaks; the last one always does.
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
    """The bound and the one or two lines that cause it; None where nothing ran."""
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
    """TW701 and TW702, one a line and code, at the access that moves most more than it needs."""
    worst: dict[tuple[str, str | int], tuple[int, SiteCounts, dict[str, float]]] = {}
    lanes: dict[tuple[str, str | int], int] = {}
    known = {id(site.counts): site.counts for site in sites}  # many sites have one record
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
    """A code, and the figures behind it."""

    code: str
    moved: float
    ideal: float

    @property
    def details(self) -> dict[str, float]:
        """What the code's sentence says."""
        return {"moved": self.moved, "ideal": self.ideal}


def _faults(counts: Counts) -> Iterator[tuple[_Fault, int, int]]:
    """What is amiss with accesses, how much of what they move is excess, and their lanes."""
    for way in (counts.shared_loads, counts.shared_stores, counts.shared_atomics):
        if way.requests and way.excess_wavefronts > CONFLICTS * way.wavefronts:
            fault = _Fault("TW701", way.wavefronts_per_request, way.ideal_per_request)
            yield fault, way.excess_wavefronts, way.lanes
    for moved in (counts.global_loads, counts.global_stores, counts.global_atomics):
        if moved.requests and moved.excess_sectors > SPREAD * moved.sectors:
            fault = _Fault("TW702", moved.sectors_per_request, moved.ideal_per_request)
            yield fault, moved.excess_sectors, moved.lanes


def _fault(counts: Counts) -> tuple[str, str]:
    """The code and figures of a line's worst access, or two empty texts."""
    found = max(_faults(counts), key=lambda fault: fault[1], default=None)
    if found is None:
        return "", ""
    fault = found[0]
    return fault.code, Finding(code=fault.code, kernel="", details=fault.details).message
