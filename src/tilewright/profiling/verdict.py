"""One verdict a kernel: what limits it, the cause that its author can change, the line, and the edit.

The limit is the unit or the stall (:mod:`tilewright.profiling.names`) with the largest share of the predicted time;
without a prediction, the unit with the longest time for the PTX's counts. Of the rules whose evidence concerns this
limit, the one that could save the largest part applies; a cause is the line with most of that evidence. Findings TW701
and TW702 report every line with too much excess, whatever the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.instruments.findings import Finding, split
from tilewright.machine import Gpu
from tilewright.machine.occupancy import Occupancy
from tilewright.profiling import names
from tilewright.profiling.counts import LANES, Counts
from tilewright.profiling.record import Cause, LineCounts, SiteCounts, Traffic, Unit, Verdict
from tilewright.profiling.units import work
from tilewright.simt.isa import Role, role_of

#: Least part that a rule could save.
EXCESS = 0.25
#: Least excess of an access for a finding. Bank conflicts: the smallest is one wavefront in two or three. Sectors: this
#: is above the cost of unaligned rows of 16 or more words (one in three), and below that of a stride of two words (one
#: in two).
CONFLICTS, SPREAD = 0.25, 0.4
#: Least share of the evidence for which a second line is named.
_SECOND = 0.2
#: Limits that concern a multiprocessor's own memory, memory beyond it, and the issue of instructions.
_NEAR = (names.L1, names.TAGS, names.LSU, names.MIO, names.SHORT, names.BARRIER)
_FAR = (names.L2, names.DRAM, names.LONG)
_ISSUED = (names.ISSUE, names.FMA, names.ALU, names.FP64, names.FP16, names.XU, names.UNIFORM, names.BRANCH, names.WAIT,
           names.PIPE, names.DISPATCH)  # fmt: skip
_LATENCY = (names.LONG, names.SHORT, names.WAIT, names.NO_WARPS)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of the rules."""

    gpu: Gpu
    blocks: int  #: Of the grid.
    totals: Counts
    units: Sequence[Unit]  #: The slowest first.
    moved: Traffic
    lines: Sequence[LineCounts] = ()
    sites: Sequence[SiteCounts] = ()
    occupancy: Occupancy | None = None
    #: Shares of the predicted time, by name; empty without a prediction.
    shares: Mapping[str, float] = field(default_factory=dict)
    #: How often a warp executes the local-memory instructions of the machine code, by PTX line, and their share of all
    #: memory instructions.
    local: Mapping[int, float] = field(default_factory=dict)
    local_share: float = 0.0

    @property
    def bound(self) -> str:
        """Name of what limits the launch."""
        return max(self.shares, key=lambda name: self.shares[name]) if self.shares else self.units[0].name

    @property
    def share(self) -> float | None:
        """Its share of the time; None if unknown."""
        return self.shares.get(self.bound)

    def of(self, name: str) -> float:
        """The share of a name: of the predicted time, else of the longest limit."""
        if self.shares:
            return self.shares.get(name, 0.0)
        return next((unit.seconds / self.units[0].seconds for unit in self.units if unit.name == name), 0.0)

    def executed(self, ending: str = "", role: Role | None = None) -> int:
        """How often warps execute the PTX instructions with this ending and role."""
        return sum(
            site.counts.warp_instructions
            for site in self.sites
            if site.opcode.endswith(ending) and (role is None or role_of(site.opcode) is role)
        )


def _conflicts(e: Evidence) -> float:
    """Excess wavefronts of shared memory, of what the first level does."""
    return e.totals.in_shared.excess_wavefronts / _first_level(e) if e.bound in _NEAR else 0.0


def _spread(e: Evidence) -> float:
    """Excess sectors of global memory, of what the first level or memory beyond it does."""
    moved = e.totals.in_global
    if e.bound in _NEAR:
        return moved.excess_sectors / _first_level(e)
    return moved.excess_sectors / moved.sectors if e.bound in _FAR and moved.sectors else 0.0


def _first_level(e: Evidence) -> float:
    """Clocks of the first level: a wavefront's, an excess sector's, and those of four sectors side by side."""
    moved = e.totals.in_global + e.totals.in_local
    return max(1.0, e.totals.in_shared.wavefronts + moved.excess_sectors + moved.ideal_sectors / 4)


def _local(e: Evidence) -> float:
    if e.bound not in (*_NEAR, *_FAR):
        return 0.0
    local, other = e.totals.in_local.sectors, e.totals.in_global.sectors
    return max(e.local_share, local / (local + other) if local else 0.0)


def _doubles(e: Evidence) -> float:
    """What float32 would save of float64 arithmetic on converted float32 values."""
    if e.bound not in (names.FP64, names.PIPE, names.WAIT, names.SHORT) or not e.executed(".f64.f32"):
        return 0.0
    return e.of(names.FP64) * (1 - e.gpu.fp64_per_clock / e.gpu.fp32_per_clock)


def _by_hand(e: Evidence) -> float:
    """What tensor cores would save of float16 products made one by one."""
    halves = e.totals.operations.float16 or e.executed("f32.f16")
    if e.bound not in _ISSUED or not halves or e.totals.mix.tensor or not e.gpu.tensor_per_clock.get("f16"):
        return 0.0
    return e.executed(role=Role.MULTIPLY_ADD) / e.totals.warp_instructions


def _waiting(e: Evidence) -> float:
    """What more warps could hide of a latency."""
    idle = 0.0 if e.occupancy is None or e.occupancy.fraction > 1 / 2 else 1 - e.occupancy.fraction
    return idle * e.of(e.bound) if e.bound in _LATENCY and e.shares else 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its evidence, its words, and the source of the evidence."""

    name: str
    source: str
    saving: Callable[[Evidence], float]  #: The part that mending it could save, 0 to 1; 0 if it does not apply.
    #: With `{value}` (the saving), `{sectors}`, `{wavefronts}` (those of the first cause) and figures of the launch.
    sentence: str
    edit: str
    weight: Callable[[Counts], int] | None = None  #: A line's part in the evidence; by default the limit's work.
    change: str = ""  #: The change of a prediction that mends it.


NOTHING = "the work itself"
WITHOUT_CONFLICTS, COALESCED, IN_REGISTERS = "without bank conflicts", "all accesses coalesced", "without local memory"
RULES = (
    Rule(
        "few blocks", "CUDA C++ Best Practices Guide, Thread and Block Heuristics",
        lambda e: 1 - e.blocks / e.gpu.multiprocessors,
        "{blocks} for {multiprocessors} multiprocessors, so {value} of the GPU is idle",
        "launch more blocks: a larger problem, smaller tiles, or k split among blocks",
    ),
    Rule(
        "bank conflicts", "Nsight Compute, rule Uncoalesced Shared Accesses; the threshold is ours", _conflicts,
        "bank conflicts: {wavefronts} in shared memory",
        "pad each row of the shared array by an element ([32][33]), or let neighbouring lanes take neighbouring words",
        lambda c: c.in_shared.excess_wavefronts, WITHOUT_CONFLICTS,
    ),
    Rule(
        "uncoalesced access", "Nsight Compute, rule Uncoalesced Global Accesses; the threshold is ours", _spread,
        "uncoalesced access: {sectors}",
        "let the column (the last index) follow threadIdx.x, so that neighbouring lanes take neighbouring elements",
        lambda c: c.in_global.excess_sectors, COALESCED,
    ),
    Rule(
        "local memory", "CUDA C++ Best Practices Guide, Local Memory; the threshold is ours", _local,
        "local memory: {value} of the accesses are spilled registers, or arrays indexed at run time",
        "keep less in each thread (smaller tiles), allow more registers, and index local arrays by constants",
        lambda c: c.in_local.sectors, IN_REGISTERS,
    ),
    Rule(
        "divergence", "Nsight Compute, rule Thread Divergence; the threshold is ours",
        lambda e: 1 - e.totals.lane_efficiency if e.bound in _ISSUED else 0.0,
        "divergence: {value} of the lanes of its instructions are switched off",
        "let whole warps take one way: choose by the warp, not by the lane",
        lambda c: LANES * c.warp_instructions - c.thread_instructions,
    ),
    Rule(
        "float64 by accident", "CUDA C++ Best Practices Guide, Promotion to double", _doubles,
        "float32 values are converted and computed in float64",
        "write constants in float32: 0.5f in CUDA C++, np.float32(0.5) in Python",
        lambda c: c.mix.double,
    ),
    Rule(
        "tensor cores not used", "CUDA C++ Programming Guide, Warp Matrix Functions; the threshold is ours", _by_hand,
        "{value} of its instructions multiply float16 values one by one; the tensor cores are idle",
        "multiply tiles by mma or wmma instructions",
        lambda c: c.operations.float16 + c.operations.float32,
    ),
    Rule(
        "low occupancy", "CUDA C++ Best Practices Guide, Occupancy; the threshold is ours", _waiting,
        "latency: {warps} a multiprocessor (occupancy {occupancy}, limited by {limiter}) hide too little of it",
        "let more warps fit (see --details), or let each thread start several loads before it uses the first",
    ),
    Rule(
        "barriers", "Nsight Compute, Profiling Guide, stall Barrier; the threshold is ours",
        lambda e: e.of(e.bound) if e.bound == names.BARRIER and e.shares else 0.0,
        "its warps stand at barriers for {value} of the time",
        "do more between barriers: larger tiles, or two of them in turn; several smaller blocks overlap too",
        lambda c: c.barriers,
    ),
)  # fmt: skip
#: Where no rule applies: the edit, by limit.
_EDITS = {
    names.ISSUE: "fewer instructions for a result: more results a thread, wider loads",
    names.L1: "keep more values in registers: more results a thread",
    names.LSU: "wider loads, and more results a thread",
    names.L2: "larger tiles in shared memory, so that blocks read less",
    names.DRAM: "larger tiles in shared memory or smaller types, so that less is read; else it is at its limit",
    names.LONG: "start loads earlier: several before the first use, or asynchronous copies",
    names.SHORT: "load values of shared memory before they are needed; more results a thread",
    names.WAIT: "more independent results a thread",
}
_PLAIN = "no access, branch or launch stands out"
_OTHER = "fewer of these operations for a result"


def verdict(e: Evidence) -> Verdict | None:
    """The limit, its cause with one or two lines, and the edit; None if nothing ran."""
    if not e.units:
        return None
    saving, rule = max(((rule.saving(e), rule) for rule in RULES), key=lambda pair: pair[0])
    if saving < EXCESS:
        return Verdict(e.bound, e.share, NOTHING, _PLAIN, _EDITS.get(e.bound, _OTHER), _causes(e, None))
    causes = _causes(e, rule)
    return Verdict(e.bound, e.share, rule.name, _sentence(e, rule, saving, causes), rule.edit, causes, rule.change)


def _sentence(e: Evidence, rule: Rule, saving: float, causes: Sequence[Cause]) -> str:
    first = (causes[0].file, causes[0].line) if causes else None
    worst = next((line.counts for line in e.lines if (line.file, line.line) == first), e.totals)
    sectors, wavefronts, fit = worst.in_global, worst.in_shared, e.occupancy
    return rule.sentence.format(
        value=f"{100 * saving:.0f} %",
        blocks=f"{e.blocks:,} block{'s' * (e.blocks != 1)}",
        multiprocessors=e.gpu.multiprocessors,
        sectors=_beside(sectors.sectors_per_request, sectors.ideal_per_request, "sectors"),
        wavefronts=_beside(wavefronts.wavefronts_per_request, wavefronts.ideal_per_request, "wavefronts"),
        warps=f"{fit.active_warps} warps" if fit else "",
        occupancy=f"{100 * fit.fraction:.0f} %" if fit else "",
        limiter=fit.limiter if fit else "",
    )


def _beside(moved: float, ideal: float, of: str) -> str:
    return f"{moved:.3g} {of} a request where {ideal:.3g} would do"


def _causes(e: Evidence, rule: Rule | None) -> tuple[Cause, ...]:
    """The one or two lines with most of a rule's evidence."""
    if rule is not None and rule.name == "local memory" and not e.totals.in_local:
        return _spills(e)
    weight = rule.weight if rule and rule.weight else work(e.bound, e.moved)
    whole = weight(e.totals)
    shares = sorted(((weight(line.counts) / whole, line) for line in e.lines if whole), key=lambda pair: -pair[0])
    return tuple(
        Cause(line.file, line.line, part, *_fault(line.counts), line.text.strip())
        for rank, (part, line) in enumerate(shares[:2])
        if not rank or part >= _SECOND
    )


def _spills(e: Evidence) -> tuple[Cause, ...]:
    """The line whose values the assembler spills most, from the PTX lines of those instructions."""
    found: dict[str, float] = {}
    sources = {site.ptx_line: site.source for site in e.sites}
    for line, times in e.local.items():
        if sources.get(line):
            found[sources[line]] = found.get(sources[line], 0.0) + times
    if not found:
        return ()
    worst = max(found, key=lambda source: found[source])
    file, number = split(worst)
    text = next((line.text.strip() for line in e.lines if (line.file, line.line) == (file, number)), "")
    return (Cause(file, number, found[worst] / sum(e.local.values()), text=text),)


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
