"""Shapes: what is known of a value's differences between lanes, and arithmetic on shapes.

Uniform values are emitted as scalars, affine ones as a scalar base (the value in lane 0), so a known affine address
becomes one vector load, not a gather. Shapes also have intervals and alignments. These prove that widening an affine
value does not wrap, and they fold the many comparisons and masks of Numba's index arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.simulate.code import LANES

UNIFORM, AFFINE, STRIDED, VECTOR = 0, 1, 2, 3
#: Most different multiples of a stride: the rows of a block in one warp.
ROWS_MAX = 8
#: Alignment of zero: any power of two that matters divides it.
ALIGN_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """The known facts of a value in all active lanes."""

    kind: int  #: UNIFORM, AFFINE, STRIDED or VECTOR.
    #: Per lane, the value minus the value in lane 0; for STRIDED without the multiples of the stride.
    lane_offsets: tuple[int, ...] = ()
    #: `lo`, `hi`: bounds of every lane's value read as signed; None when unknown.
    lo: int | None = None
    hi: int | None = None
    align: int = 1  #: A power of two dividing the value (in lane 0).
    #: For STRIDED: per lane, the multiple of the stride relative to lane 0. The stride is one number of the warp, known
    #: only at run time; at least one lane is one stride away.
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
        """The greatest difference between two lanes' values; None if unknown."""
        between = max(self.offsets) - min(self.offsets)
        if self.kind == STRIDED:
            return None if self.reach is None else between + self.reach * (max(self.rows) - min(self.rows))
        return between

    def free(self) -> Shape:
        """A vector with the same bounds."""
        return Shape(VECTOR, (), self.lo, self.hi, self.align)

    def within(self, bits: int) -> Shape:
        """The shape without bounds that exceed the signed range of a width."""
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
    """The smallest shape that covers both."""
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
    """A shape with the rows of one or both operands, and a bound combined from theirs (0 without a stride)."""
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
    """Product: affine where the other factor is a known constant, strided if that is uniform."""
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
    """A product with a uniform number that is known only at run time."""
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
    """Extension from `bits`; an affine value stays affine only if no lane can wrap."""
    known = a.lo is not None and a.hi is not None and (signed or a.lo >= 0)
    if a.kind in (AFFINE, STRIDED):
        span = a.spread
        if not known or span is None or (a.hi or 0) - (a.lo or 0) + span >= 1 << (bits - 1):
            return Shape(VECTOR, (), a.lo if known else None, a.hi if known else None)
    if known:
        return a
    if not signed:  # zero extension by itself bounds the result
        return Shape(a.kind, a.lane_offsets, 0, (1 << bits) - 1, a.align)
    return Shape(a.kind, a.lane_offsets, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, a.align)


def narrow(a: Shape, bits: int) -> Shape:
    """Truncation to `bits`."""
    return a.within(bits)


def compare(operator: str, a: Shape, b: Shape, *, signed: bool) -> Shape:
    """A comparison's predicate; folded if the intervals decide."""
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


def around(shape: Shape, lo: int | None, hi: int | None) -> Shape:
    """A shape with the bounds that a loop's comparison gives to running lanes.

    The base is the value of lane 0, which may have left the loop, so the bounds are widened until they cover it too.
    """
    spread = shape.spread if shape.kind in (AFFINE, STRIDED) else 0
    if lo is None or hi is None or spread is None:
        return replace(shape, lo=None, hi=None)
    return replace(shape, lo=lo - spread, hi=hi + spread)
