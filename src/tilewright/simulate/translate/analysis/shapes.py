"""The :class:`Shape` of each register: the same in all lanes, a base plus a constant per lane, or a vector.

They are computed together with the branches where a warp diverges and with the blocks where lanes then wait, because a
register that waiting lanes still read must be a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.counters import Counters
from tilewright.simulate.translate.analysis.frontier import thread_frontiers
from tilewright.simulate.translate.analysis.graph import CARRY, STACK, Graph, Op
from tilewright.simulate.translate.analysis.shape import (
    ANY_UNIFORM,
    ANY_VECTOR,
    UNIFORM,
    VECTOR,
    Shape,
    add,
    around,
    constant,
    join,
)
from tilewright.simulate.translate.analysis.special import LaunchClass, special_shape
from tilewright.simulate.translate.analysis.transfer import transfer


class Shapes:
    """The fixed point of shapes, divergent branches and thread frontiers of one kernel."""

    def __init__(
        self, graph: Graph, launch: LaunchClass, bits: Callable[[str], int], params: Mapping[str, int]
    ) -> None:
        self.graph = graph
        self.launch = launch
        self.bits = bits
        self.params = params
        self.forced: set[str] = set()
        self.of: dict[str, Shape] = {}  #: Every register's shape.
        self.divergent: set[int] = set()  #: Blocks whose end can split a warp.
        self.frontiers: list[set[int]] = [set() for _ in graph.blocks]  #: Thread frontier of each block.
        while True:
            self._iterate()
            self.divergent = {b.index for b in graph.blocks if self._splits(b.index)}
            self.frontiers = thread_frontiers(graph, self.divergent)
            demoted = self._must_be_vectors() - self.forced
            if not demoted:
                break
            self.forced |= demoted

    def blends(self, block: int, register: str) -> bool:
        """Whether a write in a block must keep the old value of lanes that wait elsewhere."""
        return any(register in self.graph.blocks[w].live_in for w in self.frontiers[block])

    def operand(self, operand: tree.Operand) -> Shape:
        """The shape of a source operand."""
        match operand:
            case tree.Register(name):
                if name in self.graph.registers:
                    return self.of.get(name, constant(0))
                return special_shape(name, self.launch)
            case tree.Immediate(value, "int"):
                return constant(value)
            case tree.Address(tree.Register() as base, offset):
                return add(self.operand(base), constant(offset))
            case tree.Vector(items):
                return Shape(VECTOR if any(self.operand(i).kind for i in items) else UNIFORM)
            case tree.Negated(inner):
                shape = self.operand(inner)
                return constant(1 - shape.constant) if shape.constant is not None else shape
        return ANY_UNIFORM

    def results(self, op: Op) -> list[Shape]:
        """Shapes of an instruction's destinations, before they are joined with the registers' shapes."""
        sources = [self.operand(s) for s in op.sources]
        if op.form.row.takes_carry:
            sources.append(self.operand(tree.Register(CARRY)))
        if op.form.row.kind == "stack":
            sources.append(self.operand(tree.Register(STACK)))
        shapes = transfer(op, sources, self.launch, self.params)
        guard = op.guard
        if guard is not None and self.operand(guard.register).kind == VECTOR:
            shapes = [s.free() for s in shapes]
        return shapes

    def _iterate(self) -> None:
        """Visit the instructions whose sources changed since their last visit, until there are none."""
        changes: dict[str, int] = {}
        self.of = {}
        ops = [op for block in self.graph.blocks for op in (*block.ops, block.end) if op is not None and op.writes]
        counters = Counters(self.graph, ops, {name: self.bits(name) for name in self.graph.registers})
        readers: dict[str, list[int]] = {}
        for index, op in enumerate(ops):
            for name in op.reads:
                readers.setdefault(name, []).append(index)
        for counter in {id(c): c for c in counters.of.values()}.values():
            for *_, limit in counter.limits:
                if isinstance(limit, tree.Register):
                    readers.setdefault(limit.name, []).extend(counter.inner)
        stale = [True] * len(ops)
        while any(stale):
            for index, op in enumerate(ops):
                if not stale[index]:
                    continue
                stale[index] = False
                for name, shape in zip(op.writes, self._for_writes(op), strict=True):
                    found = shape
                    counted = counters.of.get(name)
                    if counted is not None and index in counters.inner:
                        limits = [self._bounds(limit) for *_, limit in counted.limits]
                        found = around(shape, *counted.bounds(limits))
                    elif counted is not None and counted.enter(shape.lo, shape.hi):
                        for inner in counted.inner:
                            stale[inner] = True
                    if self._absorb(name, found, changes):
                        for reader in readers.get(name, ()):
                            stale[reader] = True

    def _bounds(self, operand: tree.Operand) -> tuple[int | None, int | None]:
        """An operand's bounds; none if it was not written yet."""
        shape = self.operand(operand)
        return shape.lo, shape.hi

    def _for_writes(self, op: Op) -> list[Shape]:
        """One shape for each of `op.writes`."""
        shapes = self.results(op)
        if len(shapes) == 1:
            return shapes * len(op.writes)
        kept = [s for d, s in zip(op.destinations, shapes, strict=False) if d != "_"]
        kept += [ANY_VECTOR] * (len(op.writes) - len(kept))
        return kept

    def _absorb(self, name: str, shape: Shape, changes: dict[str, int]) -> bool:
        """Join a new shape into a register's; True if that changed it."""
        width = self.bits(name)
        shape = shape.within(width) if width > 1 else shape
        if name in self.forced or max(map(abs, shape.offsets)) >= 1 << (width - 1):
            shape = shape.free()
        old = self.of.get(name)
        new = shape if old is None else join(old, shape)
        if new == old:
            return False
        changes[name] = changes.get(name, 0) + 1
        if changes[name] > 4:  # a loop: drop its bounds, then the rest converges
            new = replace(new, lo=None, hi=None, reach=None)
        if changes[name] > 40:
            new = ANY_VECTOR
        self.of[name] = new
        return new != old

    def _splits(self, index: int) -> bool:
        block = self.graph.blocks[index]
        if block.kind == "branch":
            return self.operand(tree.Register(block.predicate)).kind == VECTOR
        if block.kind == "switch" and block.end is not None:
            return self.operand(block.end.sources[0]).kind != UNIFORM
        return False

    def _must_be_vectors(self) -> set[str]:
        """Registers written while waiting lanes still read the old value."""
        found = set()
        for block in self.graph.blocks:
            waiting = self.frontiers[block.index]
            if not waiting:
                continue
            live = set().union(*(self.graph.blocks[w].live_in for w in waiting))
            for op in (*block.ops, block.end):
                if op is not None:
                    found |= live & set(op.writes)
        return found
