"""Counters of loops: registers that are copied and stepped by constants, and the bounds that loops give them.

A step may be one of several constants: compilers write `i += (i < n)` as `selp` of 1 and 0, and an addition.

Without these bounds, a register that a loop adds to could have any value. Then nothing computed from it is known not to
wrap or not to be negative, and addresses would be handled lane by lane. Two facts bound a counter:

- The loop goes on only while a comparison holds. So no step starts beyond the value that the counter is compared with.
- No warp runs long enough to step a 64-bit register through its range: `STEPS_MAX` iterations take more than fifty days
  at a thousand million a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.simulate.isa import Role
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Block, Graph, Op

#: Most iterations of one loop by a warp.
STEPS_MAX = 1 << 52
#: A step so small that `STEPS_MAX` of them stay within 63 bits.
_STEP_MAX = 1 << 10
#: The negation of each comparison, and its form with exchanged operands; unsigned relations have the signed names.
_INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq", "eq": "ne"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_EXCHANGED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne", "eq": "eq"}

Bounds = tuple[int | None, int | None]
Move = tuple[str, str, set[int]]  #: The register written, the one read, and the constants that may be added.
#: Nothing has been written yet.
_NOTHING: Bounds = (1, 0)


@dataclass(slots=True)
class Counter:
    """A set of registers whose values move between them by copies and steps."""

    bits: int  #: Width of the registers.
    steps: set[int] = field(default_factory=set)  #: The constants that instructions add.
    #: The comparisons that the next iteration depends on: the relation that holds if the loop goes on, whether it is
    #: signed, and the limit.
    limits: list[tuple[str, bool, tree.Operand]] = field(default_factory=list)
    checked: bool = True  #: Whether every step comes after such a comparison or a fresh value.
    inner: list[int] = field(default_factory=list)  #: Numbers of its copies and steps.
    entry: Bounds = _NOTHING  #: Bounds of the values that come from other instructions.

    def enter(self, low: int | None, high: int | None) -> bool:
        """Add bounds of a value from another instruction; True if the counter's bounds changed."""
        before = self.entry
        if before == _NOTHING:
            self.entry = (low, high)
        else:
            a, b = before
            self.entry = (
                None if a is None or low is None else min(a, low),
                None if b is None or high is None else max(b, high),
            )
        return self.entry != before

    def bounds(self, limits: Sequence[Bounds]) -> Bounds:
        """Bounds of every value, given the bounds of the limits."""
        low, high = self.entry
        if low is None or high is None or self.entry == _NOTHING:
            return None, None
        rise, fall = max(0, *self.steps), min(0, *self.steps)
        highest, lowest = self._reached(limits, low, high)
        top = None if highest is None else max(high, highest) + rise
        bottom = None if lowest is None else min(low, lowest) + fall
        if self.bits == 64 and rise <= _STEP_MAX and -fall <= _STEP_MAX:
            top = high + rise * STEPS_MAX if top is None else top
            bottom = low + fall * STEPS_MAX if bottom is None else bottom
        most = 1 << (self.bits - 1)
        if top is None or bottom is None or top >= most or bottom < -most:
            return None, None
        return bottom, top

    def _reached(self, limits: Sequence[Bounds], low: int, high: int) -> tuple[int | None, int | None]:
        """The highest and the lowest value before a step; None where the comparisons do not bound it."""
        rises, falls = any(s > 0 for s in self.steps), any(s < 0 for s in self.steps)
        highest, lowest = (None if rises else high), (None if falls else low)
        if not self.checked:
            return highest, lowest
        tops: list[int | None] = []
        bottoms: list[int | None] = []
        for (relation, signed, _), (least, most) in zip(self.limits, limits, strict=True):
            top = bottom = None
            if least is not None and most is not None and (signed or least >= 0):
                if relation in ("lt", "le"):
                    top = most - (relation == "lt")
                elif relation in ("gt", "ge") and signed:
                    bottom = least + (relation == "gt")
                elif relation == "ne" and least == most and low == high and self._meets(low, least):
                    top = bottom = least
            tops.append(top)
            bottoms.append(bottom)
        if rises and tops and None not in tops:
            highest = max(t for t in tops if t is not None)
        if falls and bottoms and None not in bottoms:
            lowest = min(b for b in bottoms if b is not None)
        return highest, lowest

    def _meets(self, first: int, limit: int) -> bool:
        """Whether steps from the first value reach the only limit exactly, so that every step starts before it."""
        steps = self.steps - {0}
        step = next(iter(steps), 0)
        if len(steps) != 1 or len(self.limits) != 1:
            return False
        return (limit - first) % step == 0 and (limit - first) // step > 0


class Counters:
    """The counters of a function, from its instructions by number and the widths of its registers."""

    def __init__(self, graph: Graph, ops: list[Op], bits: Mapping[str, int]) -> None:
        self.of: dict[str, Counter] = {}  #: Counters by register.
        self.inner: set[int] = set()  #: Numbers of the copies and steps inside counters.
        constants = _constants(ops)
        moves = _cycles({i: m for i, op in enumerate(ops) if (m := _move(op, bits, constants)) is not None})
        for index, (target, source, steps) in moves.items():
            self._join(target, source, bits)
            self.inner.add(index)
            counter = self.of[target]
            counter.steps |= steps
            counter.inner.append(index)
        if moves:
            by_op = {id(ops[index]): move for index, move in moves.items()}
            self._check_steps(graph, by_op)

    def _join(self, target: str, source: str, bits: Mapping[str, int]) -> None:
        a = self.of.setdefault(target, Counter(bits[target]))
        b = self.of.setdefault(source, Counter(bits[source]))
        if a is not b:
            a.steps |= b.steps
            a.inner += b.inner
            for name, counter in self.of.items():
                if counter is b:
                    self.of[name] = a

    def _check_steps(self, graph: Graph, moves: dict[int, Move]) -> None:
        """Find the comparisons before each step: a register is *checked* if every path has a comparison.

        A forward data-flow iteration over sets of checked registers, one bit each. A fresh value counts as checked: its
        bounds are among the entry's.
        """
        bit = {name: 1 << i for i, name in enumerate(self.of)}
        everything = (1 << len(bit)) - 1
        passed = {block.index: self._edges(graph, block, bit) for block in graph.blocks}
        at = [everything] * len(graph.blocks)
        work = [block.index for block in graph.blocks]
        while work:
            block = graph.blocks[work.pop()]
            state = at[block.index]
            for op in block.ops:
                state = _after(op, state, moves, bit)
            for edge, successor in enumerate(block.successors):
                met = at[successor] & (state | passed[block.index].get(edge, 0))
                if met != at[successor]:
                    at[successor] = met
                    work.append(successor)
        for block in graph.blocks:
            state = at[block.index]
            for op in block.ops:
                move = moves.get(id(op))
                if move is not None and any(move[2]) and not state & bit[move[1]]:
                    self.of[move[1]].checked = False
                state = _after(op, state, moves, bit)

    def _edges(self, graph: Graph, block: Block, bit: Mapping[str, int]) -> dict[int, int]:
        """The registers that a block's branch compares, for each of its two edges; also records the limits."""
        if block.kind != "branch" or len(set(block.successors)) < 2:
            return {}
        written: set[str] = set()
        for op in reversed(block.ops):
            if block.predicate in op.writes:
                break
            written |= set(op.writes)
        else:
            return {}
        compares = op.form.row.role is Role.COMPARE and op.form["type"]  # `set` has two types and gives a number
        if not compares or op.guard is not None or len(op.sources) != 2 or len(op.writes) != 1:
            return {}
        type_, relation = op.form["type"], _UNSIGNED.get(op.form["CmpOp"], op.form["CmpOp"])
        if type_[0] not in "sub" or relation not in _INVERSE:
            return {}
        found: dict[int, int] = {}
        for one, other, holds in ((*op.sources, relation), (*op.sources[::-1], _EXCHANGED[relation])):
            if not isinstance(one, tree.Register) or one.name not in bit or one.name in written:
                continue
            counter = self.of[one.name]
            if int(type_[1:]) != counter.bits or not _steady(graph, other):
                continue
            for edge in (0, 1):
                here = holds if (edge == 0) != block.negated else _INVERSE[holds]
                if _bounds_steps(here, counter):
                    counter.limits.append((here, type_[0] == "s", other))
                    found[edge] = found.get(edge, 0) | bit[one.name]
        return found


def _bounds_steps(relation: str, counter: Counter) -> bool:
    """Whether a relation bounds a counter's steps."""
    if relation in ("lt", "le"):
        return min(counter.steps) >= 0
    if relation in ("gt", "ge"):
        return max(counter.steps) <= 0
    return relation == "ne"


def _steady(graph: Graph, operand: tree.Operand) -> bool:
    """Whether an operand is a literal or a register with known bounds."""
    return isinstance(operand, tree.Immediate) or getattr(operand, "name", None) in graph.registers


def _after(op: Op, state: int, moves: Mapping[int, Move], bit: Mapping[str, int]) -> int:
    """The checked registers after an instruction."""
    move = moves.get(id(op))
    for name in op.writes:
        if name in bit:
            checked = move is None or (not any(move[2]) and state & bit[move[1]] != 0)
            if op.guard is not None:  # the old value may remain
                checked = checked and state & bit[name] != 0
            state = state | bit[name] if checked else state & ~bit[name]
    return state


def _constants(ops: Sequence[Op]) -> dict[str, set[int]]:
    """The values of registers that hold one of a few literals: all their definitions are copies or choices of them."""
    found: dict[str, set[int]] = {}
    others: set[str] = set()
    for op in ops:
        row = op.form.row
        chosen = op.sources[:2] if row.role is Role.CHOOSE else op.sources[:1] if row.linear == "move" else ()
        literals = [s.value for s in chosen if isinstance(s, tree.Immediate) and s.kind == "int"]
        if len(op.writes) != 1 or op.guard is not None or not chosen or len(literals) < len(chosen):
            others |= set(op.writes)
        else:
            found.setdefault(op.writes[0], set()).update(literals)
    return {name: values for name, values in found.items() if name not in others}


def _move(op: Op, bits: Mapping[str, int], constants: Mapping[str, set[int]]) -> Move | None:
    """A copy or a step by constants: the register written, the one read, and the possible steps (0 for a copy)."""
    linear = op.form.row.linear
    if linear not in ("move", "add", "sub") or len(op.destinations) != 1 or op.form["vec"] or len(op.writes) != 1:
        return None
    target, *sources = op.writes[0], *op.sources[:2]
    width = int("".join(c for c in op.form["type"] if c.isdigit()) or 0)
    steps = {0} if linear == "move" else _literals(sources[1], constants)
    if linear == "add" and not steps:
        sources.reverse()
        steps = _literals(sources[1], constants)
    source = sources[0]
    if not isinstance(source, tree.Register) or not steps:
        return None
    if width < 32 or not bits.get(target) == bits.get(source.name) == width:
        return None
    signed = {s - ((s >> (width - 1)) << width) for s in (step & ((1 << width) - 1) for step in steps)}
    return target, source.name, {-s for s in signed} if linear == "sub" else signed


def _literals(operand: tree.Operand, constants: Mapping[str, set[int]]) -> set[int]:
    """The constants that an operand may be; empty where it may be others. A register is 0 before its definition."""
    if isinstance(operand, tree.Immediate):
        return {operand.value} if operand.kind == "int" else set()
    return {0} | constants[operand.name] if isinstance(operand, tree.Register) and operand.name in constants else set()


def _cycles(moves: dict[int, Move]) -> dict[int, Move]:
    """The moves whose registers are on a cycle, or between two cycles."""
    while True:
        targets = {target for target, _, _ in moves.values()}
        sources = {source for _, source, _ in moves.values()}
        kept = {i: m for i, m in moves.items() if m[0] in sources and m[1] in targets}
        if len(kept) == len(moves):
            return moves
        moves = kept
