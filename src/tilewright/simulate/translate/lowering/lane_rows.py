"""Instructions that each lane computes by itself, and operands with the types of their row.

Comparisons of values that are a scalar base and a constant per lane are done in the narrowest type that fits:
``base + p[lane] < limit`` holds if ``p[lane] < limit - base``. The difference is a scalar. Only its order relative to
the least and greatest constant matters, so it is clamped to their range. Then 32 lanes of a thread index are compared
as bytes, in one vector; with the operands' 64 bits they would take eight vectors, and packing.
"""

from __future__ import annotations

from tilewright.simulate.code import Value, element_type
from tilewright.simulate.events import VALUES_MAX, EventKind, Handler, Site
from tilewright.simulate.isa import Form, Role, lower
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.analysis.shape import AFFINE, STRIDED, UNIFORM, VECTOR, Shape
from tilewright.simulate.translate.analysis.transfer import transfer
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.lowering.results import shape_of, write
from tilewright.simulate.translate.memory.access_events import store_values


def is_packed(op: Op) -> bool:
    """Whether a move unpacks or packs a register."""
    return len(op.destinations) > 1 or isinstance(op.sources[0], tree.Vector)


def write_unpacked(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """`mov.b64 {a, b}, c`, `mov.b64 c, {a, b}`, and `mov.v2.b32 {a, b}, {c, d}`."""
    code = emitter.code
    type_ = op.form["type"]
    source = op.sources[0]
    if op.form["vec"]:
        assert isinstance(source, tree.Vector), "operands are checked"
        values = [emitter.read(item, type_) for item in source.items]
        for name, value in zip(op.destinations, values, strict=True):
            write(emitter, name, value, type_, shape_of(value), guard)
        return
    if isinstance(source, tree.Vector):
        parts = [emitter.read(i, emitter.operand_type(i, type_, len(source.items))) for i in source.items]
        value = emitter.pack([code.cast("bitcast", p, f"i{p.bits}") for p in parts], type_)
    else:
        value = emitter.read(source, type_)
    if len(op.destinations) == 1:
        write(emitter, op.destinations[0], value, type_, shape_of(value), guard)
        return
    whole = code.cast("bitcast", value, f"i{value.bits}")
    bits = whole.bits // len(op.destinations)
    for index, name in enumerate(op.destinations):
        part = code.binary("lshr", whole, code.const(whole.type, index * bits))
        write(emitter, name, code.cast("trunc", part, f"i{bits}"), f"b{bits}", shape_of(value), guard)


def emit_lane(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """A row's own meaning: in scalars when the result is uniform or affine, else over the lanes."""
    code, form = emitter.code, op.form
    if emitter.instruments:
        notify_values(emitter, op)
    shapes = emitter.shapes.results(op)
    shape = shapes[0]
    if shape.kind == VECTOR and guard is not None:
        shape = _unguarded_shape(emitter, op)
    integer = element_type(form.type_of(letter_of(form.row.operands[0])))[0] == "i"
    if len(shapes) == 1 and shape.kind == UNIFORM and shape.constant is not None and integer:
        type_ = element_type(form.type_of(letter_of(form.row.operands[0])))
        results: tuple[Value, ...] = (code.const(type_, shape.constant),) * len(op.destinations)
    else:
        scalar = shape.kind != VECTOR
        results = lower(code, form, *(narrowed(emitter, op) or read_sources(emitter, op, base=scalar)))
        if scalar:  # if a known predicate selects, the other operand may be a vector
            results = tuple(map(emitter.first_lane, results))
    stride = _stride(emitter, op, shape, results[0]) if shape.kind == STRIDED else None
    for index, name in enumerate(op.destinations):
        if name == "_":
            continue
        value = results[index]
        letter = letter_of(form.row.operands[0].split("|")[0] if index == 0 else form.row.operands[0].split("|")[-1])
        type_ = "pred" if value.type == "i1" else form.type_of(letter)
        result = shape if value.lanes == 1 and len(shapes) == 1 else shape_of(value)
        write(emitter, name, value, type_, result, guard, stride)


def _stride(emitter: Emitter, op: Op, shape: Shape, first: Value) -> Value:
    """The stride of a result: the difference between a lane one stride away and lane 0, whose value is given."""
    code, lane = emitter.code, shape.rows.index(1)
    (further,) = lower(code, op.form, *read_sources(emitter, op, base=True, lane=lane))
    return code.sub(code.sub(emitter.first_lane(further), first), code.const(first.type, shape.lane_offsets[lane]))


def notify_values(emitter: Emitter, op: Op) -> None:
    """Notify instruments of an instruction's source operands."""

    def arguments(handler: Handler) -> str:
        values = (
            [emitter.read(op.sources[0], "b32")]
            if op.form.row.kind == "barrier"
            else read_sources(emitter, op, base=False)
        )
        for index, value in enumerate(values[:VALUES_MAX]):
            store_values(emitter, index, _widened(emitter, value, op))
        return f"{emitter.mask}, ptr %values"

    item = op.instruction
    emitter.notify(Site(EventKind.VALUE, item.ptx_line, emitter.source_of(item), item.name), arguments)


def _widened(emitter: Emitter, value: Value, op: Op) -> Value:
    """An operand as 64 bits: signed integers sign-extended, floats as their bits."""
    code = emitter.code
    integer = value if value.type[0] == "i" else code.cast("bitcast", value, f"i{value.bits}")
    signed = value.type[0] == "i" and any(part[:2] in (".s",) for part in op.instruction.modifiers)
    return code.resize(integer, "i64", signed=signed)


def _unguarded_shape(emitter: Emitter, op: Op) -> Shape:
    """The result's shape as if there were no guard: lanes outside the guard keep their old value anyway."""
    sources = [emitter.shapes.operand(s) for s in op.sources]
    return transfer(op, sources, emitter.launch, emitter.layout.params)[0]


def read_sources(emitter: Emitter, op: Op, *, base: bool, lane: int = 0) -> list[Value]:
    """Source operands with the row's types; with `base`, the values of lane 0."""
    letters = [letter_of(o) for o in op.form.row.operands[1:]]
    values = []
    for index, operand in enumerate(op.sources):
        letter = letters[index] if index < len(letters) else "a"
        values.append(emitter.read(operand, op.form.type_of(letter), base=base, lane=lane))
    return values


def letter_of(operand: str) -> str:
    """`{!}c` and `p[|q]` as plain operand letters."""
    return operand.strip("!{}[]")


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
