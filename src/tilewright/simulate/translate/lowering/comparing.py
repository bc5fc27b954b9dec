"""Comparisons of values that are a scalar base and a constant per lane: done in the narrowest type that fits.

``base + p[lane] < limit`` holds if ``p[lane] < limit - base``. The difference is a scalar. Only its order relative to
the least and greatest constant matters, so it is clamped to their range. Then 32 lanes of a thread index are compared
as bytes, in one vector; with the operands' 64 bits they would take eight vectors, and packing.
"""

from __future__ import annotations

from tilewright.simulate.code import Value
from tilewright.simulate.isa import Form, Role
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.analysis.shape import AFFINE, UNIFORM, Shape
from tilewright.simulate.translate.lowering.emitter import Emitter


def narrowed(emitter: Emitter, op: Op) -> list[Value] | None:
    """Sources in a narrower type that compare like the instruction's own; None if the shapes do not allow it."""
    type_ = _compared_type(op.form) if op.form.row.role is Role.COMPARE else ""
    if not type_ or type_[0] not in "sub" or type_ not in ("s32", "u32", "b32", "s64", "u64", "b64"):
        return None
    a, b = (emitter.shapes.operand(source) for source in op.sources[:2])
    bits = int(type_[1:])
    if AFFINE not in (a.kind, b.kind) or not (_exact(a, bits, type_) and _exact(b, bits, type_)):
        return None
    differences = [x - y for x, y in zip(a.offsets, b.offsets, strict=True)]
    least, most = min(differences), max(differences)
    room = most - least + 2  # one more on each side, for limits beyond all lanes
    narrow = next((f"i{n}" for n in (8, 16, 32) if n < bits and room < 1 << (n - 1)), None)
    if narrow is None:
        return None
    code, wide = emitter.code, f"i{bits}"
    first, second = (emitter.read(source, type_, base=True) for source in op.sources[:2])
    gap = code.call("llvm.ssub.sat", wide, second, first)
    gap = code.call("llvm.smax", wide, gap, code.const(wide, least - 1))
    gap = code.call("llvm.smin", wide, gap, code.const(wide, most + 1))
    limit = code.cast("trunc", code.sub(gap, code.const(wide, least - 1)), narrow)
    lanes = code.constants(narrow, [d - least + 1 for d in differences])
    return [lanes, limit, *(emitter.read(source, "pred") for source in op.sources[2:])]


def _compared_type(form: Form) -> str:
    return form["stype"] or form["type"]


def _exact(shape: Shape, bits: int, type_: str) -> bool:
    """Whether the base and each lane's constant add up without wrapping, and not to a negative number read as unsigned.

    The base is the value of lane 0, which may be inactive: so it may exceed the bounds by the range of the constants.
    """
    low, high = shape.lo, shape.hi
    if shape.kind == UNIFORM:  # a literal may exceed the signed range
        return type_[0] != "u" or (low is not None and high is not None and 0 <= low <= high < 1 << (bits - 1))
    if shape.kind != AFFINE or low is None or high is None or (type_[0] == "u" and low < 0):
        return False
    return low - max(shape.lane_offsets) >= -(1 << (bits - 1)) and high - min(shape.lane_offsets) < 1 << (bits - 1)
