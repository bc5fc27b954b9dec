"""One verdict a kernel: what limits it, the cause that its author can change, the line, and the edit.

The limit is the unit or the stall (:mod:`tilewright.simulate.machine.limiters`) with the largest share of the predicted
time; without a prediction, the unit with the longest time for the PTX's counts. Of the rules that concern this limit,
the one that could save the largest part applies; a cause is the line with most of its evidence. Where the model can
predict the mended kernel, a rule applies only if that is faster
(:func:`tilewright.observe.prediction.launches.of_work`).

Sources: CUDA C++ Best Practices Guide, "Thread and Block Heuristics", "Local Memory", "Occupancy" and "Promotion to
double"; CUDA C++ Programming Guide, "Warp Matrix Functions"; Nsight Compute, rules "Uncoalesced Shared Accesses",
"Uncoalesced Global Accesses" and "Thread Divergence", and stall "Barrier". The thresholds are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.observe.instruments.findings import split
from tilewright.observe.profiling import faults
from tilewright.observe.profiling.counts import LANES, Counts
from tilewright.observe.profiling.record import Cause, LineCounts, SiteCounts, Traffic, Unit, Verdict
from tilewright.observe.profiling.units import work
from tilewright.simulate.isa import Role, role_of
from tilewright.simulate.machine import Gpu, limiters as names
from tilewright.simulate.machine.occupancy import Occupancy

#: Least part that a rule could save, by its evidence.
EXCESS = 0.25
#: Least share of the evidence for which a second line is named.
_SECOND = 0.2
#: Limits that concern a multiprocessor's own memory, memory beyond it, the issue of instructions, and float64.
_NEAR = (names.L1, names.TAGS, names.LSU, names.MIO, names.SHORT, names.BARRIER)
_FAR = (names.L2, names.DRAM, names.LONG)
_ISSUED = (
    names.ISSUE,
    names.FMA,
    names.ALU,
    names.FP64,
    names.FP16,
    names.XU,
    names.UNIFORM,
    names.BRANCH,
    names.WAIT,
    names.PIPE,
    names.DISPATCH,
)
_LATENCY = (names.LONG, names.SHORT, names.WAIT, names.NO_WARPS)
_DOUBLE = (names.FP64, names.XU, names.PIPE, names.WAIT, names.SHORT)


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
    cap: str = ""  #: What caps a thread's registers (:func:`register_cap`).

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

    @property
    def first_level(self) -> float:
        """Clocks of the first level: a wavefront's, an excess sector's, and those of four sectors side by side."""
        moved = self.totals.in_global + self.totals.in_local
        return max(1.0, self.totals.in_shared.wavefronts + moved.excess_sectors + moved.ideal_sectors / 4)

    @property
    def spills(self) -> dict[int, float]:
        """`local` without the lines whose PTX itself accesses local memory."""
        arrays = {site.ptx_line for site in self.sites if site.counts.in_local}
        return {line: times for line, times in self.local.items() if line not in arrays}

    def executed(self, ending: str = "", role: Role | None = None) -> int:
        """How often warps execute the PTX instructions with this ending and role."""
        return sum(
            site.counts.warp_instructions
            for site in self.sites
            if site.opcode.endswith(ending) and (role is None or role_of(site.opcode) is role)
        )


def register_cap(directives: Mapping[str, tuple[int, ...]], gpu: Gpu) -> str:
    """The limit that keeps a thread below the GPU's most registers for one; "" if the PTX states none.

    >>> from tilewright import machine
    >>> register_cap({".maxntid": (1024, 1, 1), ".minnctapersm": (2,)}, machine.gpu("h100"))
    'launch bounds of 1,024 threads and 2 blocks'
    >>> register_cap({".maxntid": (256, 1, 1)}, machine.gpu("h100"))
    ''
    """
    if most := directives.get(".maxnreg"):
        return f"maxnreg of {most[0]}"
    threads = math.prod(directives.get(".maxntid") or directives.get(".reqntid") or (1,))
    (blocks,) = directives.get(".minnctapersm", (1,))
    if threads * blocks * gpu.registers_per_thread <= gpu.registers_per_multiprocessor:
        return ""
    return f"launch bounds of {threads:,} threads" + f" and {blocks} blocks" * (blocks > 1)


def _spread(e: Evidence) -> float:
    """Excess sectors of global memory, of what the first level or memory beyond it does."""
    moved = e.totals.in_global
    return moved.excess_sectors / (e.first_level if e.bound in _NEAR else max(1, moved.sectors))


def _arrays(e: Evidence) -> float:
    local, other = e.totals.in_local.sectors, e.totals.in_global.sectors
    return local / (local + other) if local else 0.0


def _spilled(e: Evidence) -> float:
    return e.local_share * sum(e.spills.values()) / sum(e.local.values()) if e.local else 0.0


def _doubles(e: Evidence) -> float:
    """The share that float32 would save of float64 arithmetic on converted float32 values, and of the conversions."""
    conversions = e.executed(".f64.f32")
    if not conversions:
        return 0.0
    special = max(1, e.totals.mix.convert + e.totals.mix.transcendental)
    converting = min(1.0, (conversions + e.executed(".f32.f64")) / special)
    return max(e.of(names.FP64) * (1 - e.gpu.fp64_per_clock / e.gpu.fp32_per_clock), e.of(names.XU) * converting)


def _by_hand(e: Evidence) -> float:
    """The share that tensor cores would save of float16 products made one by one."""
    halves = e.totals.operations.float16 or e.executed("f32.f16")
    if not halves or e.totals.mix.tensor or not e.gpu.tensor_per_clock.get("f16"):
        return 0.0
    return e.executed(role=Role.MULTIPLY_ADD) / e.totals.warp_instructions


def _waiting(e: Evidence) -> float:
    """The share of a latency that more warps could hide."""
    idle = 0.0 if e.occupancy is None or e.occupancy.fraction > 1 / 2 else 1 - e.occupancy.fraction
    return idle * (e.share or 0.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the limits that it concerns, its evidence and its words."""

    name: str
    limits: Collection[str]
    saving: Callable[[Evidence], float]  #: The part that mending it could save, 0 to 1.
    #: With `{value}` (the saving), `{sectors}`, `{wavefronts}` (those of the first cause) and figures of the launch.
    sentence: str
    edit: str
    weight: Callable[[Counts], int] | None = None  #: A line's part in the evidence; by default the limit's work.
    change: str = ""  #: The change of a prediction that mends it.


NOTHING = "the work itself"
WITHOUT_CONFLICTS, COALESCED, IN_REGISTERS = "without bank conflicts", "all accesses coalesced", "without local memory"
_SPILLED = "spilled registers"
RULES = (
    Rule(
        "few blocks", (*names.UNITS, *names.STALLS), lambda e: 1 - e.blocks / e.gpu.multiprocessors,
        "{blocks} for {multiprocessors} multiprocessors, so {value} of the GPU is idle",
        "launch more blocks: a larger problem, smaller tiles, or k split among blocks",
    ),
    Rule(
        "bank conflicts", _NEAR, lambda e: e.totals.in_shared.excess_wavefronts / e.first_level,
        "bank conflicts: {wavefronts} in shared memory",
        "pad each row of the shared array by an element ([32][33]), or let neighbouring lanes take neighbouring words",
        lambda c: c.in_shared.excess_wavefronts, WITHOUT_CONFLICTS,
    ),
    Rule(
        "uncoalesced access", (*_NEAR, *_FAR), _spread, "uncoalesced access: {sectors}",
        "let the column (the last index) follow threadIdx.x, so that neighbouring lanes take neighbouring elements",
        lambda c: c.in_global.excess_sectors, COALESCED,
    ),
    Rule(
        "local arrays", (*_NEAR, *_FAR), _arrays,
        "local memory: {value} of its sectors are of arrays that are indexed at run time",
        "index local arrays by constants (unroll their loops), so that they stay in registers",
        lambda c: c.in_local.sectors, IN_REGISTERS,
    ),
    Rule(
        _SPILLED, (*_NEAR, *_FAR), _spilled, "local memory: {value} of the accesses are spilled registers",
        "{cap}keep fewer values alive in each thread (smaller tiles)", change=IN_REGISTERS,
    ),
    Rule(
        "divergence", _ISSUED, lambda e: 1 - e.totals.lane_efficiency,
        "divergence: {value} of the lanes of its instructions are switched off",
        "let whole warps take one way: choose by the warp, not by the lane",
        lambda c: LANES * c.warp_instructions - c.thread_instructions,
    ),
    Rule(
        "float64 by accident", _DOUBLE, _doubles, "float32 values are converted and computed in float64",
        "write constants in float32: 0.5f in CUDA C++, np.float32(0.5) in Python", lambda c: c.mix.double,
    ),
    Rule(
        "tensor cores not used", _ISSUED, _by_hand,
        "{value} of its instructions multiply float16 values one by one; the tensor cores are idle",
        "multiply tiles by mma or wmma instructions", lambda c: c.operations.float16 + c.operations.float32,
    ),
    Rule(
        "low occupancy", _LATENCY, _waiting,
        "latency: {warps} a multiprocessor (occupancy {occupancy}, limited by {limiter}) hide too little of it",
        "let more warps fit (see --details), or let each thread start several loads before it uses the first",
    ),
    Rule(
        "barriers", (names.BARRIER,), lambda e: e.share or 0.0,
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


def verdict(e: Evidence, useless: Collection[str] = ()) -> Verdict | None:
    """The limit, its cause with one or two lines, and the edit; None if nothing ran.

    Rules whose change is `useless` do not apply.
    """
    if not e.units:
        return None
    rules = [rule for rule in RULES if e.bound in rule.limits and rule.change not in useless]
    saving, rule = max(((rule.saving(e), rule) for rule in rules), key=lambda pair: pair[0])
    if saving < EXCESS:
        return Verdict(e.bound, e.share, NOTHING, _PLAIN, _EDITS.get(e.bound, _OTHER), _causes(e, None))
    causes, cap = _causes(e, rule), f"raise the cap on registers (its {e.cap}), or " if e.cap else ""
    sentence = _sentence(e, rule, saving, causes)
    return Verdict(e.bound, e.share, rule.name, sentence, rule.edit.format(cap=cap), causes, rule.change)


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
    """The one or two lines with most of a rule's evidence; of spills, those whose values the assembler spills."""
    if rule is not None and rule.name == _SPILLED:
        spills, parts = e.spills, dict.fromkeys(((line.file, line.line) for line in e.lines), 0.0)
        for site in e.sites:
            if (where := split(site.source)) in parts:
                parts[where] += spills.get(site.ptx_line, 0.0)
        whole = sum(spills.values())
    else:
        weight = rule.weight if rule and rule.weight else work(e.bound, e.moved)
        parts = {(line.file, line.line): weight(line.counts) for line in e.lines}
        whole = weight(e.totals)
    worst = sorted(e.lines, key=lambda line: -parts[line.file, line.line])[: 2 if whole else 0]
    shares = [(parts[line.file, line.line] / whole, line) for line in worst]
    return tuple(
        Cause(line.file, line.line, share, *faults.worst(line.counts), line.text.strip())
        for rank, (share, line) in enumerate(shares)
        if share and (not rank or share >= _SECOND)
    )
