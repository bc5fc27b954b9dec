"""Which registers are the same in all lanes, or a base plus a constant per lane.

Every register gets one :class:`Shape` for the whole kernel. Uniform registers are emitted as scalars, patterns as a
scalar base (their value in lane 0), so an address known to be a pattern becomes one vector load instead of a gather.
Intervals and alignments ride along: they prove that widening a pattern does not wrap, and fold comparisons and masks
that Numba's index arithmetic is full of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.simt.ptx import tree
from tilewright.simt.translate.code import LANES
from tilewright.simt.translate.frontier import thread_frontiers
from tilewright.simt.translate.graph import CARRY, Graph, Op

if TYPE_CHECKING:
    from tilewright.simt.translate.special import LaunchClass

UNIFORM, PATTERN, VECTOR = 0, 1, 2
#: Alignment of zero: any power of two that matters divides it.
ALIGN_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a value in all active lanes.

    Attributes
    ----------
    kind : int
        UNIFORM, PATTERN or VECTOR.
    pattern : tuple of int
        For PATTERN: value minus the value in lane 0, per lane.
    lo, hi : int or None
        Bounds of every lane's value read as signed; None when unknown.
    align : int
        A power of two dividing the value (in lane 0).
    """

    kind: int
    pattern: tuple[int, ...] = ()
    lo: int | None = None
    hi: int | None = None
    align: int = 1

    @property
    def constant(self) -> int | None:
        """The value, when only one is possible."""
        return self.lo if self.lo is not None and self.lo == self.hi else None

    @property
    def offsets(self) -> tuple[int, ...]:
        """The pattern, zeros for a uniform value."""
        return self.pattern if self.kind == PATTERN else (0,) * LANES

    def within(self, bits: int) -> Shape:
        """The same with bounds dropped where they leave the signed range of a width."""
        if self.lo is None or self.hi is None:
            return self
        if self.lo < -(1 << (bits - 1)) or self.hi >= 1 << (bits - 1):
            return replace(self, lo=None, hi=None)
        return self


ANY_UNIFORM = Shape(UNIFORM)
ANY_VECTOR = Shape(VECTOR)


def constant(value: int) -> Shape:
    """The shape of a literal."""
    return Shape(UNIFORM, lo=value, hi=value, align=ALIGN_MAX if value == 0 else min(value & -value, ALIGN_MAX))


def join(a: Shape, b: Shape) -> Shape:
    """The least shape that covers both."""
    kind = max(a.kind, b.kind)
    if kind == PATTERN and a.offsets != b.offsets:
        kind = VECTOR
    known = a.lo is not None and b.lo is not None and a.hi is not None and b.hi is not None
    lo = min(a.lo, b.lo) if known else None  # type: ignore[type-var]
    hi = max(a.hi, b.hi) if known else None  # type: ignore[type-var]
    return Shape(kind, a.offsets if kind == PATTERN else (), lo, hi, min(a.align, b.align))


def _patterned(pattern: Sequence[int], lo: int | None, hi: int | None, align: int) -> Shape:
    if any(pattern):
        return Shape(PATTERN, tuple(pattern), lo, hi, align)
    return Shape(UNIFORM, (), lo, hi, align)


def _bounds(function: Callable[[int, int], int], a: Shape, b: Shape) -> tuple[int | None, int | None]:
    if a.lo is None or a.hi is None or b.lo is None or b.hi is None:
        return None, None
    corners = [function(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(corners), max(corners)


def add(a: Shape, b: Shape, sign: int = 1) -> Shape:
    """Sum, or difference with sign -1."""
    lo, hi = _bounds(lambda x, y: x + sign * y, a, b)
    if VECTOR in (a.kind, b.kind):
        return Shape(VECTOR, (), lo, hi)
    pattern = [x + sign * y for x, y in zip(a.offsets, b.offsets, strict=True)]
    return _patterned(pattern, lo, hi, min(a.align, b.align))


def multiply(a: Shape, b: Shape) -> Shape:
    """Product: a pattern stays one only when the other side is a known constant."""
    lo, hi = _bounds(lambda x, y: x * y, a, b)
    align = min(a.align * b.align, ALIGN_MAX)
    if a.kind == UNIFORM and b.kind == UNIFORM:
        return Shape(UNIFORM, (), lo, hi, align)
    if b.constant is None:
        a, b = b, a
    if b.constant is None or a.kind == VECTOR:
        return Shape(VECTOR, (), lo, hi)
    factor = b.constant
    return _patterned([x * factor for x in a.offsets], lo, hi, align)


def and_(a: Shape, b: Shape, bits: int) -> Shape:
    """Bitwise and, exact for masks of low or high bits."""
    if b.constant is None:
        a, b = b, a
    if a.kind == UNIFORM and b.kind == UNIFORM and b.constant is None:
        both = a.lo is not None and b.lo is not None and a.lo >= 0 and b.lo >= 0
        return Shape(UNIFORM, (), 0, min(a.hi or 0, b.hi or 0)) if both else ANY_UNIFORM
    mask = b.constant
    if mask is None:
        if a.constant == 0 or b.constant == 0:
            return constant(0)
        return Shape(max(a.kind, b.kind) and VECTOR)
    nonnegative = a.lo is not None and a.hi is not None and a.lo >= 0
    if nonnegative and mask & ((1 << (a.hi or 0).bit_length()) - 1) == 0:
        return constant(0)
    if nonnegative and mask & ((1 << (a.hi or 0).bit_length()) - 1) == (1 << (a.hi or 0).bit_length()) - 1:
        return a
    low, high = (0, mask) if mask >= 0 else (a.lo, a.hi) if nonnegative else (None, None)
    if mask < 0 and nonnegative:
        low = 0
    if a.kind == UNIFORM:
        return Shape(UNIFORM, (), low, high, min(max(a.align, (mask & -mask) if mask else 1), ALIGN_MAX))
    if a.kind == PATTERN:
        period = _low_ones(mask) if mask >= 0 else _low_ones(~mask)
        if period and a.align >= 1 << period and min(a.offsets) >= 0 and (mask >= 0 or mask == -(1 << period)):
            pattern = [x & mask for x in a.offsets]
            return _patterned(pattern, low, high, ALIGN_MAX if mask >= 0 else a.align)
    return Shape(VECTOR, (), low, high)


def _low_ones(mask: int) -> int:
    """K when mask is 2**k - 1, else 0."""
    return mask.bit_length() if mask >= 0 and mask & (mask + 1) == 0 else 0


def or_(a: Shape, b: Shape) -> Shape:
    """Bitwise or; adding low bits to an aligned pattern keeps it."""
    if b.constant is None:
        a, b = b, a
    if a.kind == UNIFORM and b.kind == UNIFORM:
        return ANY_UNIFORM
    low = b.constant
    if a.kind == PATTERN and low is not None and low >= 0:
        unit = 1 << low.bit_length()
        if a.align >= unit and all(x % unit == 0 for x in a.offsets):
            return Shape(PATTERN, a.pattern, None, None, 1)
    return ANY_VECTOR


def shift_right(a: Shape, b: Shape, bits: int, *, signed: bool) -> Shape:
    """Right shift by a constant."""
    count = b.constant
    nonnegative = a.lo is not None and a.hi is not None and a.lo >= 0
    if count is None or count < 0 or not nonnegative:
        return Shape(VECTOR if VECTOR in (a.kind, b.kind) or PATTERN in (a.kind, b.kind) else UNIFORM)
    count = min(count, bits)
    lo, hi = (a.lo or 0) >> count, (a.hi or 0) >> count
    if lo == hi == 0:
        return constant(0)
    if a.kind == PATTERN and a.align >= 1 << count and min(a.offsets) >= 0:
        return _patterned([x >> count for x in a.offsets], lo, hi, max(1, a.align >> count))
    return Shape(UNIFORM if a.kind == UNIFORM else VECTOR, (), lo, hi, max(1, a.align >> count))


def widen(a: Shape, bits: int, *, signed: bool) -> Shape:
    """Extension from `bits`; a pattern survives only when no lane can wrap."""
    known = a.lo is not None and a.hi is not None and (signed or a.lo >= 0)
    if a.kind == PATTERN:
        span = max(a.offsets) - min(a.offsets)
        if not known or (a.hi or 0) - (a.lo or 0) + span >= 1 << (bits - 1):
            return Shape(VECTOR, (), a.lo if known else None, a.hi if known else None)
    if known:
        return a
    if not signed:  # zero extension bounds the result by itself
        return Shape(a.kind, a.pattern, 0, (1 << bits) - 1, a.align)
    return Shape(a.kind, a.pattern, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, a.align)


def narrow(a: Shape, bits: int) -> Shape:
    """Truncation to `bits`."""
    return a.within(bits)


def compare(operator: str, a: Shape, b: Shape, *, signed: bool) -> Shape:
    """A comparison's predicate; folded where the intervals decide."""
    kind = UNIFORM if a.kind == UNIFORM and b.kind == UNIFORM else VECTOR
    free = Shape(kind, (), 0, 1)
    if a.lo is None or a.hi is None or b.lo is None or b.hi is None or (not signed and min(a.lo, b.lo) < 0):
        return free
    below, above = a.hi < b.lo, a.lo > b.hi
    at_most, at_least = a.hi <= b.lo, a.lo >= b.hi
    always = {"lt": below, "le": at_most, "gt": above, "ge": at_least, "ne": below or above, "eq": False}
    never = {"lt": at_least, "le": above, "gt": at_most, "ge": below, "eq": below or above, "ne": False}
    always |= {"lo": below, "ls": at_most, "hi": above, "hs": at_least}
    never |= {"lo": at_least, "ls": above, "hi": at_most, "hs": below}
    if a.constant is not None and a.constant == b.constant:
        always["eq"] = never["ne"] = True
    if always.get(operator):
        return constant(1)
    if never.get(operator):
        return constant(0)
    return free


class Shapes:
    """The fixed point of shapes, divergent branches and thread frontiers of one kernel.

    Attributes
    ----------
    of : dict of str to Shape
        Every register's shape.
    divergent : set of int
        Blocks whose end can split a warp.
    frontiers : list of set of int
        Thread frontier of each block.
    """

    def __init__(
        self, graph: Graph, launch: LaunchClass, bits: Callable[[str], int], params: Mapping[str, int]
    ) -> None:
        self.graph = graph
        self.launch = launch
        self.bits = bits
        self.params = params
        self.forced: set[str] = set()
        self.of: dict[str, Shape] = {}
        self.divergent: set[int] = set()
        self.frontiers: list[set[int]] = [set() for _ in graph.blocks]
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
                from tilewright.simt.translate.special import special_shape

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
        """Shapes of an instruction's destinations, before it is joined with what was there."""
        sources = [self.operand(s) for s in op.sources]
        if op.form.row.takes_carry:
            sources.append(self.operand(tree.Register(CARRY)))
        shapes = self._transfer(op, sources)
        guard = op.guard
        if guard is not None and self.operand(guard.register).kind == VECTOR:
            shapes = [replace(s, kind=VECTOR, pattern=()) for s in shapes]
        return shapes

    def _iterate(self) -> None:
        """Sweep over the instructions whose sources changed since they were last looked at, until there are none."""
        changes: dict[str, int] = {}
        self.of = {}
        ops = [op for block in self.graph.blocks for op in (*block.ops, block.end) if op is not None and op.writes]
        readers: dict[str, list[int]] = {}
        for index, op in enumerate(ops):
            for name in op.reads:
                readers.setdefault(name, []).append(index)
        stale = [True] * len(ops)
        while any(stale):
            for index, op in enumerate(ops):
                if not stale[index]:
                    continue
                stale[index] = False
                for name, shape in zip(op.writes, self._for_writes(op), strict=True):
                    if self._absorb(name, shape, changes):
                        for reader in readers.get(name, ()):
                            stale[reader] = True

    def _for_writes(self, op: Op) -> list[Shape]:
        """One shape for each of `op.writes`."""
        shapes = self.results(op)
        if len(shapes) == 1:
            return shapes * len(op.writes)
        kept = [s for d, s in zip(op.destinations, shapes, strict=False) if d != "_"]
        kept += [ANY_VECTOR] * (len(op.writes) - len(kept))
        return kept

    def _absorb(self, name: str, shape: Shape, changes: dict[str, int]) -> bool:
        """Join a new shape into a register's; True when that changed it."""
        width = self.bits(name)
        shape = shape.within(width) if width > 1 else shape
        if name in self.forced:
            shape = replace(shape, kind=VECTOR, pattern=())
        if shape.kind == PATTERN and max(map(abs, shape.pattern)) >= 1 << (width - 1):
            shape = replace(shape, kind=VECTOR, pattern=())
        old = self.of.get(name)
        new = shape if old is None else join(old, shape)
        if new == old:
            return False
        changes[name] = changes.get(name, 0) + 1
        if changes[name] > 4:  # a loop: give its bounds up, then the rest settles by itself
            new = replace(new, lo=None, hi=None)
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
        """Registers written while lanes that still read the old value wait elsewhere."""
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

    def _transfer(self, op: Op, sources: list[Shape]) -> list[Shape]:
        from tilewright.simt.translate.transfer import transfer

        return transfer(op, sources, self.launch, self.params)
