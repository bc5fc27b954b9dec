"""TW413: accesses to registers of a `wgmma` while it may be in flight, or without a `wgmma.fence`.

A `wgmma` reads and writes its registers until a wait covers its group. A write to them before it needs a `wgmma.fence`
in between. Copies do not count: compilers copy at the back edge of a loop and after a fence, and the assembler merges
both registers. Compilers also move constants past a fence. So a constant counts only if no fence can have preceded the
write in the source: if no path from the kernel's beginning has a fence, or if a `wgmma` has used the register since the
last fence, because no compiler moves the constant across that use.

Source: PTX ISA, 9.7.15.7.1 (wgmma.fence), 9.7.15.7.3 (wgmma.wait_group), 9.7.15.4 (async proxy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.simulate.isa import Role
from tilewright.simulate.isa.warpgroup import is_sparse
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op, registers_of

#: Group of products that no `wgmma.commit_group` has closed.
_UNCOMMITTED = -1
#: Most registers that a finding names.
_SHOWN = 4


@dataclass(frozen=True, order=True, slots=True)
class _Flight:
    """A register in flight."""

    age: int  #: Groups committed since the register's own; the youngest group has 0.
    ptx_line: int  #: Line of the product.
    sums: bool  #: The product accumulates into the register; otherwise it only reads it.


@dataclass(slots=True)
class _State:
    """The state at a point of a program: registers that may be in flight, and those written since the last fence."""

    flying: dict[str, _Flight] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  #: Registers that products used since the last fence.
    fenced: bool = False  #: Whether some path here has a fence.
    constants: frozenset[str] = frozenset()  #: Registers that never hold anything but constants.

    def copy(self) -> _State:
        return replace(self, flying=dict(self.flying), written=dict(self.written), used=set(self.used))

    def join(self, other: _State) -> bool:
        """Add what may hold on another path to here; return whether that added anything."""
        before = dict(self.flying), dict(self.written), set(self.used), self.fenced
        for register, flight in other.flying.items():
            self.flying[register] = min(flight, self.flying.get(register, flight))
        for register, line in other.written.items():
            self.written[register] = min(line, self.written.get(register, line))
        self.used |= other.used
        self.fenced |= other.fenced
        return before != (self.flying, self.written, self.used, self.fenced)


def findings(values: Values, kernel: str) -> list[Finding]:
    """A finding for each instruction that accesses such a register too early, or without a fence."""
    if not any(_is_product(op) for op in values.ops):
        return []
    found: dict[int, Finding] = {}
    for block, state in zip(values.graph.blocks, _at_blocks(values), strict=True):
        for op in _ops(block.ops, block.end):
            for how, registers, other in _wrong(op, state):
                details = {"how": how, "registers": sorted(registers)[:_SHOWN], "others": [values.where(other)]}
                found.setdefault(id(op), values.finding("TW413", op, kernel, details))
            _follow(op, state)
    return list(found.values())


def _ops(ops: Iterable[Op], end: Op | None) -> Iterator[Op]:
    yield from ops
    if end is not None:
        yield end


def _at_blocks(values: Values) -> list[_State]:
    """For each block, what may hold at its beginning, computed to a fixed point."""
    blocks = values.graph.blocks
    constants = _constants(values)
    states = [_State(constants=constants) for _ in blocks]
    waiting = list(range(len(blocks)))[::-1]
    while waiting:
        index = waiting.pop()
        state = states[index].copy()
        for op in _ops(blocks[index].ops, blocks[index].end):
            _follow(op, state)
        for successor in blocks[index].successors:
            if states[successor].join(state) and successor not in waiting:
                waiting.append(successor)
    return states


def _constants(values: Values) -> frozenset[str]:
    """Registers that are only ever set to constants."""
    sources: dict[str, set[str]] = {}
    for op in values.ops:
        copied = _sources(op) if op.form.row.role is Role.COPY else []
        for number, register in enumerate(op.writes):
            sources.setdefault(register, set()).add(copied[number] if len(copied) == len(op.writes) else register)
    found = set(sources)
    while wrong := {r for r in found if not sources[r] <= {"", *found} - {r}}:
        found -= wrong
    return frozenset(found)


def _is_product(op: Op) -> bool:
    return op.form.row.kind == "warpgroup"


def _fragment(op: Op) -> list[str]:
    """A's registers if A is not in shared memory, and the metadata register if A is sparse."""
    held = registers_of(op.sources[1]) if isinstance(op.sources[1], tree.Vector) else []
    return held + (registers_of(op.named["e"]) if is_sparse(op.form) else [])


def _wrong(op: Op, state: _State) -> Iterator[tuple[str, set[str], int]]:
    """The faults of an instruction: the rule, the registers, and the PTX line of the other access."""
    if _is_product(op):
        used = {*op.writes, *_fragment(op)}
        unfenced = used & state.written.keys()
        # Products that accumulate into the same registers run in order; a register that is read must be complete.
        early = {r for r in _fragment(op) if r in state.flying and state.flying[r].sums}
        if unfenced:
            yield "unfenced", unfenced, min(state.written[r] for r in unfenced)
    elif op.form.row.role is Role.COPY:
        early = set()
    else:
        early = {r for r in op.reads if r in state.flying and state.flying[r].sums}
        early |= {r for r in op.writes if r in state.flying}
    if early:
        yield "early", early, min(state.flying[r].ptx_line for r in early)


def _follow(op: Op, state: _State) -> None:
    """Apply the effect of an instruction to the state."""
    if _is_product(op):
        line = op.instruction.ptx_line
        state.flying |= {r: _Flight(_UNCOMMITTED, line, sums=False) for r in _fragment(op)}
        state.flying |= {r: _Flight(_UNCOMMITTED, line, sums=True) for r in op.writes}
        state.used |= {*op.writes, *_fragment(op)}
    elif op.form.row.role is Role.WARPGROUP:
        _order(op, state)
    elif op.form.row.role is Role.COPY and len(op.destinations) == len(_sources(op)):
        _copy(op, state)
    else:
        for register in op.writes:
            state.flying.pop(register, None)
        state.written |= dict.fromkeys(op.writes, op.instruction.ptx_line)


def _copy(op: Op, state: _State) -> None:
    """Give a copy the state of its source: in flight, or written.

    A constant counts as written only if no compiler can have moved it past a fence that stood before it.
    """
    pairs = list(zip(op.destinations, _sources(op), strict=True))
    flying = {to: state.flying[source] for to, source in pairs if source in state.flying}
    written = {to: state.written[source] for to, source in pairs if source in state.written}
    written |= {
        to: op.instruction.ptx_line
        for to, source in pairs
        if (not source or source in state.constants) and (not state.fenced or to in state.used)
    }
    for to, _ in pairs:
        state.flying.pop(to, None)
        state.written.pop(to, None)
    state.flying |= flying
    state.written |= written


def _sources(op: Op) -> list[str]:
    """The source registers of a copy; "" for a constant."""
    items = [x for s in op.sources for x in (s.items if isinstance(s, tree.Vector) else (s,))]
    return [x.name if isinstance(x, tree.Register) else "" for x in items]


def _order(op: Op, state: _State) -> None:
    """Apply a fence, the end of a group, or a wait for all but the youngest groups."""
    if op.form.has("fence"):
        state.written.clear()
        state.used.clear()
        state.fenced = True
    elif op.form.has("commit_group"):
        for register, flight in state.flying.items():
            state.flying[register] = _Flight(flight.age + 1, flight.ptx_line, flight.sums)
    else:
        left = op.sources[0].value if isinstance(op.sources[0], tree.Immediate) else 0
        state.flying = {r: f for r, f in state.flying.items() if f.age < left}
