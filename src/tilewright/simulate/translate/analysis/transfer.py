"""The shape of an instruction's result from its operands' shapes, by the `linear` tag of its row."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.simulate.isa import Linear, Role
from tilewright.simulate.isa.kinds import KINDS
from tilewright.simulate.ptx.tree import Address, Symbol
from tilewright.simulate.translate.analysis import shape as s
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.analysis.shape import ANY_UNIFORM, ANY_VECTOR, UNIFORM, VECTOR, Shape
from tilewright.simulate.translate.analysis.special import SMALL, SMALL_WIDE, LaunchClass


def transfer(op: Op, sources: list[Shape], launch: LaunchClass, params: Mapping[str, int]) -> list[Shape]:
    """Shapes of the destinations of an instruction that has some (one shape means all of several)."""
    row = op.form.row
    if row.kind in ("lane", "cvta"):
        if row.linear and sources:
            return [_linear(op, sources)]
        if row.role is Role.COMPARE and op.form.type_of("p") == "pred" and len(sources) == 2:
            return _setp(op, sources)
        if row.role is Role.CHOOSE and op.form.type_of("c") == "pred":
            return [_selp(sources)]
        return [ANY_UNIFORM if all(x.kind == UNIFORM for x in sources) else ANY_VECTOR]
    if row.kind == "memory":
        return [_load(op, sources, launch, params)]
    if row.kind == "warp":
        one_group = ".sync" not in op.instruction.modifiers or sources[-1].kind == UNIFORM
        return [ANY_UNIFORM if one_group and row.role is Role.AGREE else ANY_VECTOR]
    uniform = KINDS[row.kind].uniform
    assert uniform is not None, row.kind  # a wrong guess would make lanes share different values
    return [ANY_UNIFORM if uniform and all(x.kind == UNIFORM for x in sources) else ANY_VECTOR]


def _type_bits(type_: str) -> int:
    return int("".join(c for c in type_ if c.isdigit()) or 1)


def _linear(op: Op, sources: list[Shape]) -> Shape:
    form = op.form
    type_ = form["type"] or form.type_of("a")
    bits = _type_bits(type_)
    signed = type_.startswith("s")
    wide = form.row.linear is Linear.MAD_WIDE  # its third operand has twice the width
    sources = [_signed(x, 2 * bits if wide and i == 2 else bits) for i, x in enumerate(sources)]
    a = sources[0]
    b = sources[1] if len(sources) > 1 else ANY_UNIFORM
    match form.row.linear:
        case Linear.MOVE if len(op.destinations) == 1:  # parts of a register do not have the shape of the whole
            return a
        case Linear.ADD:
            return s.add(a, b).within(bits)
        case Linear.SUB:
            return s.add(a, b, -1).within(bits)
        case Linear.NEG:
            return s.add(s.constant(0), a, -1).within(bits)
        case Linear.MUL:
            return s.multiply(a, b).within(bits)
        case Linear.MUL_WIDE:
            return s.multiply(_extended(a, bits, signed), _extended(b, bits, signed)).within(2 * bits)
        case Linear.MAD:
            return s.add(s.multiply(a, b), sources[2]).within(bits)
        case Linear.MAD_WIDE:
            product = s.multiply(_extended(a, bits, signed), _extended(b, bits, signed))
            return s.add(product, sources[2]).within(2 * bits)
        case Linear.SHL:
            count = b.constant
            if count is not None and 0 <= count < bits:
                return s.multiply(a, s.constant(1 << count)).within(bits)
        case Linear.SHR:
            return s.shift_right(a, b, bits, signed=signed)
        case Linear.AND if bits > 1:
            return s.and_(a, b, bits)
        case Linear.OR if bits > 1:
            return s.or_(a, b)
        case Linear.CVT:
            return _convert(op, a)
    return ANY_UNIFORM if all(x.kind == UNIFORM for x in sources) else ANY_VECTOR


def _signed(a: Shape, bits: int) -> Shape:
    """A literal such as 0xFFFFFFFF read as the signed number of its width."""
    if a.constant is not None and bits > 1 and a.constant >> (bits - 1) == 1:
        return s.constant(a.constant - (1 << bits))
    return a


def _extended(a: Shape, bits: int, signed: bool) -> Shape:
    return s.widen(a, bits, signed=signed)


def _convert(op: Op, a: Shape) -> Shape:
    target, source = op.form.type_of("d"), op.form.type_of("a")
    if op.form.has("sat") or target[0] not in "us" or source[0] not in "us":
        return ANY_UNIFORM if a.kind == UNIFORM else ANY_VECTOR
    wide, narrow = _type_bits(target), _type_bits(source)
    a = a.within(narrow) if a.lo is not None else a
    if wide > narrow:
        return s.widen(a, narrow, signed=source[0] == "s")
    if wide < narrow:
        low = s.narrow(a, wide)
        if low.lo is None and wide < 32:  # a register wider than the type is extended on the way in
            return low if low.kind == UNIFORM else low.free()
        return low
    return a


def _setp(op: Op, sources: list[Shape]) -> list[Shape]:
    type_ = op.form["type"]
    if type_[:1] not in ("s", "u", "b") or len(op.destinations) > 1:
        kind = UNIFORM if all(x.kind == UNIFORM for x in sources) else VECTOR
        return [Shape(kind, (), 0, 1)]
    if type_[0] == "s":
        sources = [_signed(x, _type_bits(type_)) for x in sources]
    return [s.compare(op.form["CmpOp"], sources[0], sources[1], signed=type_[0] == "s")]


def _selp(sources: list[Shape]) -> Shape:
    a, b, p = sources
    if p.constant is not None:
        return a if p.constant else b
    joined = s.join(a, b)
    return joined if p.kind == UNIFORM else joined.free()


def _load(op: Op, sources: list[Shape], launch: LaunchClass, params: Mapping[str, int]) -> Shape:
    modifiers = op.instruction.modifiers
    if op.form.row.access != "load":
        return ANY_VECTOR
    address = op.sources[0]
    spaces = {m.split("::")[0] for m in modifiers} & {".global", ".shared", ".const", ".param"}
    if not spaces or sources[0].kind != UNIFORM:
        return ANY_VECTOR
    if ".param" in spaces and isinstance(address, Address) and isinstance(address.base, Symbol):
        offset = params.get(address.base.name, -1) + address.offset + address.base.offset
        type_ = op.form["type"]
        if type_[0] in "usb" and not op.form["vec"]:
            stride = dict(launch.unit_strides).get(offset) if _type_bits(type_) == 64 else None
            if stride is not None:
                return s.constant(stride)
            if (offset, _type_bits(type_)) in launch.small_params:
                return Shape(UNIFORM, (), 0, SMALL if _type_bits(type_) == 32 else SMALL_WIDE)
    bits = {"u8": 8, "u16": 16}.get(op.form["type"])
    return Shape(UNIFORM, (), 0, (1 << bits) - 1) if bits else ANY_UNIFORM
