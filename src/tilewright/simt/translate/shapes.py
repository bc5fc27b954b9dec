"""Which registers are the same in all lanes, or a base plus a constant per lane.

Every register gets one :class:`Shape` for the whole kernel. Uniform registers are emitted as scalars, affine ones as a
scalar base (their value in lane 0), so an address known to be affine becomes one vector load instead of a gather.
Shapes have intervals and alignments too: these prove that widening an affine value does not wrap, and fold the
comparisons and masks that Numba's index arithmetic is full of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.ptx import tree
from tilewright.simt.translate.code import LANES
from tilewright.simt.translate.counters import Counters
from tilewright.simt.translate.frontier import thread_frontiers
from tilewright.simt.translate.graph import CARRY, Graph, Op

if TYPE_CHECKING:
    from tilewright.simt.translate.special import LaunchClass

UNIFORM, AFFINE, STRIDED, VECTOR = 0, 1, 2, 3
#: Different multiples of a stride, at most: rows of a block that one warp spans.
ROWS_MAX = 8
#: Alignment of zero: any power of two that matters divides it.
ALIGN_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a value in all active lanes."""

    kind: int  #: UNIFORM, AFFINE, STRIDED or VECTOR.
    #: For AFFINE: value minus the value in lane 0, per lane. For STRIDED too, but for multiples of the stride.
    lane_offsets: tuple[int, ...] = ()
    #: `lo`, `hi`: bounds of every lane's value read as signed; None when unknown.
    lo: int | None = None
    hi: int | None = None
    align: int = 1  #: A power of two dividing the value (in lane 0).
    #: For STRIDED: by how many strides each lane's value is further than that in lane 0. The stride is one number of
    #: the warp, which only the run knows; some lane is one stride away.
    rows: tuple[int, ...] = ()
    reach: int | None = None  #: For STRIDED: a bound of the stride's magnitude; None when unknown.

    @property
    def constant(self) -> int | None:
        """The value, when only one is possible."""
        return self.lo if self.lo is not None and self.lo == self.hi else None

    @property
    def offsets(self) -> tuple[int, ...]:
        """Each lane's value minus that of lane 0, zeros for a uniform value."""
        return self.lane_offsets if self.kind in (AFFINE, STRIDED) else (0,) * LANES

    @property
    def spread(self) -> int | None:
        """How far two lanes' values lie apart, at most; None when unknown."""
        between = max(self.offsets) - min(self.offsets)
        if self.kind == STRIDED:
            return None if self.reach is None else between + self.reach * (max(self.rows) - min(self.rows))
        return between

    def free(self) -> Shape:
        """The same bounds, and nothing known of how lanes differ."""
        return Shape(VECTOR, (), self.lo, self.hi, self.align)

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
    if kind in (AFFINE, STRIDED) and a.offsets != b.offsets:
        kind = VECTOR
    if kind == STRIDED and a.kind == b.kind and a.rows != b.rows:
        kind = VECTOR
    known = a.lo is not None and b.lo is not None and a.hi is not None and b.hi is not None
    lo = min(a.lo, b.lo) if known else None  # type: ignore[type-var]
    hi = max(a.hi, b.hi) if known else None  # type: ignore[type-var]
    shape = Shape(kind, a.offsets if kind in (AFFINE, STRIDED) else (), lo, hi, min(a.align, b.align))
    return _in_rows(shape, a, b, max) if kind == STRIDED else shape


def _in_rows(shape: Shape, a: Shape, b: Shape, reach: Callable[[int, int], int]) -> Shape:
    """A shape with the rows of one or both operands, and a bound made of theirs (0 for one without a stride)."""
    bounds = [x.reach if x.kind == STRIDED else 0 for x in (a, b)]
    together = None if None in bounds else reach(*bounds)  # type: ignore[arg-type]
    return replace(shape, kind=STRIDED, rows=a.rows or b.rows, reach=together)


def _affine(lane_offsets: Sequence[int], lo: int | None, hi: int | None, align: int) -> Shape:
    if any(lane_offsets):
        return Shape(AFFINE, tuple(lane_offsets), lo, hi, align)
    return Shape(UNIFORM, (), lo, hi, align)


def _bounds(function: Callable[[int, int], int], a: Shape, b: Shape) -> tuple[int | None, int | None]:
    if a.lo is None or a.hi is None or b.lo is None or b.hi is None:
        return None, None
    corners = [function(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(corners), max(corners)


def add(a: Shape, b: Shape, sign: int = 1) -> Shape:
    """Sum, or difference with sign -1."""
    lo, hi = _bounds(lambda x, y: x + sign * y, a, b)
    if VECTOR in (a.kind, b.kind) or (a.kind == b.kind == STRIDED and a.rows != b.rows):
        return Shape(VECTOR, (), lo, hi)
    lane_offsets = [x + sign * y for x, y in zip(a.offsets, b.offsets, strict=True)]
    if STRIDED in (a.kind, b.kind):
        return _in_rows(Shape(STRIDED, tuple(lane_offsets), lo, hi, min(a.align, b.align)), a, b, lambda x, y: x + y)
    return _affine(lane_offsets, lo, hi, min(a.align, b.align))


def multiply(a: Shape, b: Shape) -> Shape:
    """Product: affine where the other factor is a known constant, strided where that is uniform."""
    lo, hi = _bounds(lambda x, y: x * y, a, b)
    align = min(a.align * b.align, ALIGN_MAX)
    if a.kind == UNIFORM and b.kind == UNIFORM:
        return Shape(UNIFORM, (), lo, hi, align)
    if b.constant is None:
        a, b = b, a
    if b.constant is None or a.kind == VECTOR:
        return _by_uniform(a, b, lo, hi, align) if b.kind == UNIFORM else _by_uniform(b, a, lo, hi, align)
    factor = b.constant
    if a.kind == STRIDED and factor:
        product = Shape(STRIDED, tuple(x * factor for x in a.offsets), lo, hi, align)
        return _in_rows(product, a, constant(0), lambda x, y: x * abs(factor))
    return _affine([x * factor for x in a.offsets], lo, hi, align)


def _by_uniform(a: Shape, factor: Shape, lo: int | None, hi: int | None, align: int) -> Shape:
    """A product with a number of the warp that only the run knows."""
    product = Shape(VECTOR, (), lo, hi)
    if factor.kind != UNIFORM or a.kind not in (AFFINE, STRIDED) or (a.kind == STRIDED and any(a.lane_offsets)):
        return product
    unit = math.gcd(*a.lane_offsets) if a.kind == AFFINE else 1
    rows = tuple(x // unit for x in a.lane_offsets) if a.kind == AFFINE else a.rows
    if 1 not in rows or len(set(rows)) > ROWS_MAX:
        return product
    most = None if factor.lo is None or factor.hi is None else max(abs(factor.lo), abs(factor.hi))
    before = a.reach if a.kind == STRIDED else unit
    reach = None if most is None or before is None else most * before
    return Shape(STRIDED, (0,) * LANES, lo, hi, align, rows, reach)


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
    if a.kind == AFFINE:
        period = _low_ones(mask) if mask >= 0 else _low_ones(~mask)
        if period and a.align >= 1 << period and min(a.offsets) >= 0 and (mask >= 0 or mask == -(1 << period)):
            lane_offsets = [x & mask for x in a.offsets]
            return _affine(lane_offsets, low, high, ALIGN_MAX if mask >= 0 else a.align)
    return Shape(VECTOR, (), low, high)


def _low_ones(mask: int) -> int:
    """K when mask is 2**k - 1, else 0."""
    return mask.bit_length() if mask >= 0 and mask & (mask + 1) == 0 else 0


def or_(a: Shape, b: Shape) -> Shape:
    """Bitwise or; adding low bits to an aligned affine value keeps it."""
    if b.constant is None:
        a, b = b, a
    if a.kind == UNIFORM and b.kind == UNIFORM:
        return ANY_UNIFORM
    low = b.constant
    if a.kind == AFFINE and low is not None and low >= 0:
        unit = 1 << low.bit_length()
        if a.align >= unit and all(x % unit == 0 for x in a.offsets):
            return Shape(AFFINE, a.lane_offsets, None, None, 1)
    return ANY_VECTOR


def shift_right(a: Shape, b: Shape, bits: int, *, signed: bool) -> Shape:
    """Right shift by a constant."""
    count = b.constant
    nonnegative = a.lo is not None and a.hi is not None and a.lo >= 0
    if count is None or count < 0 or not nonnegative:
        return Shape(UNIFORM if a.kind == b.kind == UNIFORM else VECTOR)
    count = min(count, bits)
    lo, hi = (a.lo or 0) >> count, (a.hi or 0) >> count
    if lo == hi == 0:
        return constant(0)
    if a.kind == AFFINE and a.align >= 1 << count and min(a.offsets) >= 0:
        return _affine([x >> count for x in a.offsets], lo, hi, max(1, a.align >> count))
    return Shape(UNIFORM if a.kind == UNIFORM else VECTOR, (), lo, hi, max(1, a.align >> count))


def widen(a: Shape, bits: int, *, signed: bool) -> Shape:
    """Extension from `bits`; an affine value stays one only when no lane can wrap."""
    known = a.lo is not None and a.hi is not None and (signed or a.lo >= 0)
    if a.kind in (AFFINE, STRIDED):
        span = a.spread
        if not known or span is None or (a.hi or 0) - (a.lo or 0) + span >= 1 << (bits - 1):
            return Shape(VECTOR, (), a.lo if known else None, a.hi if known else None)
    if known:
        return a
    if not signed:  # zero extension bounds the result by itself
        return Shape(a.kind, a.lane_offsets, 0, (1 << bits) - 1, a.align)
    return Shape(a.kind, a.lane_offsets, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, a.align)


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


def _around(shape: Shape, lo: int | None, hi: int | None) -> Shape:
    """A shape with bounds that a loop's comparison sets the lanes that run.

    The base is the value of lane 0, which may have left the loop: the bounds are widened until they hold for it too.
    """
    spread = shape.spread if shape.kind in (AFFINE, STRIDED) else 0
    if lo is None or hi is None or spread is None:
        return replace(shape, lo=None, hi=None)
    return replace(shape, lo=lo - spread, hi=hi + spread)


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
            shapes = [s.free() for s in shapes]
        return shapes

    def _iterate(self) -> None:
        """Sweep over the instructions whose sources changed since they were last looked at, until there are none."""
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
                        found = _around(shape, *counted.bounds(limits))
                    elif counted is not None and counted.enter(shape.lo, shape.hi):
                        for inner in counted.inner:
                            stale[inner] = True
                    if self._absorb(name, found, changes):
                        for reader in readers.get(name, ()):
                            stale[reader] = True

    def _bounds(self, operand: tree.Operand) -> tuple[int | None, int | None]:
        """An operand's bounds; none where nothing was written to it yet."""
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
        """Join a new shape into a register's; True when that changed it."""
        width = self.bits(name)
        shape = shape.within(width) if width > 1 else shape
        if name in self.forced or max(map(abs, shape.offsets)) >= 1 << (width - 1):
            shape = shape.free()
        old = self.of.get(name)
        new = shape if old is None else join(old, shape)
        if new == old:
            return False
        changes[name] = changes.get(name, 0) + 1
        if changes[name] > 4:  # a loop: give its bounds up, then the rest settles by itself
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
