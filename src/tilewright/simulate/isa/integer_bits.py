"""Integer forms that work on single bits: counts, searches, fields and masks.

Source: PTX ISA, section 9.7.1, Integer Arithmetic Instructions.
"""

from __future__ import annotations

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.integer import is_signed
from tilewright.simulate.isa.shift import left, right
from tilewright.simulate.isa.table import Form, Table

rows = Table()


def _count(code: Code, value: Value) -> Value:
    """A count as u32, whatever the operand's width, as in the manual."""
    return code.resize(value, "i32", signed=False)


@rows.row("popc.type d, a;", section="9.7.1.14", type="b32 b64", types={"d": "u32"})
def popc(code: Code, form: Form, a: Value) -> Value:
    """How many bits are set."""
    return _count(code, code.call("llvm.ctpop", a.type, a))


@rows.row("clz.type d, a;", section="9.7.1.15", type="b32 b64", types={"d": "u32"})
def clz(code: Code, form: Form, a: Value) -> Value:
    """How many bits above the highest set one; the width for 0."""
    return _count(code, code.call("llvm.ctlz", a.type, a, flags="i1 false"))


@rows.row("bfind{.shiftamt}.type d, a;", section="9.7.1.16", type="u32 u64 s32 s64", types={"d": "u32"})
def bfind(code: Code, form: Form, a: Value) -> Value:
    """Position of the highest bit that is not a sign bit, from below or (.shiftamt) from above; all ones if none."""
    if is_signed(form["type"]):
        a = code.xor(a, code.binary("ashr", a, code.const(a.type, a.bits - 1)))
    above = _count(code, code.call("llvm.ctlz", a.type, a, flags="i1 false"))
    found = above if form.has("shiftamt") else code.sub(code.const("i32", a.bits - 1), above)
    return code.select(code.icmp("eq", a, code.const(a.type, 0)), code.const("i32", -1), found)


def _nth_set_bit(code: Code, bits: Value, n: Value) -> Value:
    """Position of the n-th set bit (n from 1) counted from below, by halving; undefined when there are fewer."""
    position, left_over = code.const("i32", 0), code.sub(n, code.const("i32", 1))
    for width in (16, 8, 4, 2, 1):
        low = code.and_(bits, code.const("i32", (1 << width) - 1))
        below = code.call("llvm.ctpop", "i32", low)
        skip = code.icmp("uge", left_over, below)
        left_over = code.select(skip, code.sub(left_over, below), left_over)
        bits = code.select(skip, code.binary("lshr", bits, code.const("i32", width)), low)
        position = code.add(position, code.select(skip, code.const("i32", width), code.const("i32", 0)))
    return position


@rows.row(
    "fns.type d, mask, base, offset;",
    section="9.7.1.17",
    type="b32",
    types={"base": "u32", "offset": "s32"},
    note="a base of 32 or more, which is undefined, finds nothing",
)
def fns(code: Code, form: Form, mask: Value, base: Value, offset: Value) -> Value:
    """Find the n-th set bit from a base, upwards or downwards; offset 0 tests the base bit itself."""
    zero, last = code.const("i32", 0), code.const("i32", 31)
    down = code.icmp("slt", offset, zero)
    # Downwards is upwards in the reversed mask.
    mask = code.select(down, code.call("llvm.bitreverse", "i32", mask), mask)
    start = code.select(down, code.sub(last, base), base)
    candidates = code.and_(mask, left(code, code.const("i32", -1), start))
    alone = code.and_(candidates, left(code, code.const("i32", 1), start))
    itself = code.icmp("eq", offset, zero)
    candidates = code.select(itself, alone, candidates)
    distance = code.call("llvm.abs", "i32", offset, flags="i1 false")
    n = code.select(itself, code.const("i32", 1), distance)
    found = _nth_set_bit(code, candidates, n)
    found = code.select(down, code.sub(last, found), found)
    enough = code.icmp("sge", code.call("llvm.ctpop", "i32", candidates), n)
    return code.select(enough, found, code.const("i32", -1))


@rows.row("brev.type d, a;", section="9.7.1.18", type="b32 b64")
def brev(code: Code, form: Form, a: Value) -> Value:
    """The bits in reverse."""
    return code.call("llvm.bitreverse", a.type, a)


def _extent(code: Code, value: Value, type_: str) -> Value:
    """A bit position or length, in the width of the value it applies to.

    The manual restricts it to 0 ... 255. Above that, the vendor's machine code uses the low byte for 32-bit fields and
    the whole value for 64-bit ones.
    """
    return code.and_(value, code.const("i32", 255)) if type_ == "i32" else code.resize(value, type_, signed=False)


_MODULO = "a position or length above 255 counts modulo 256, in the 32-bit types only"
_FIELD = {"b": "u32", "c": "u32"}


@rows.row("bfe.type d, a, b, c;", section="9.7.1.19", type="u32 u64 s32 s64", types=_FIELD, note=_MODULO)
def bfe(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Field of c bits from bit b, extended by zeros or by its highest bit; 0 when c is 0."""
    signed = is_signed(form["type"])
    field = right(code, a, _extent(code, b, a.type), signed=signed)
    length = _extent(code, c, a.type)
    width = code.const(a.type, a.bits)
    spare = code.sub(width, code.call("llvm.umin", a.type, length, width))
    # A length of 0 shifts everything out to the left; the shift right then gives zeros, signed or not.
    raised = left(code, field, spare)
    return right(code, raised, spare, signed=signed)


@rows.row(
    "bfi.type d, a, b, position, length;",
    section="9.7.1.20",
    type="b32 b64",
    types={"position": "u32", "length": "u32"},
    note=f"the manual calls the operands f, a, b, c, d; {_MODULO}",
)
def bfi(code: Code, form: Form, a: Value, b: Value, position: Value, length: Value) -> Value:
    """Insert the lowest bits of a into b; bits past the top are dropped."""
    position, length = _extent(code, position, a.type), _extent(code, length, a.type)
    ones = code.const(a.type, -1)
    field = code.not_(left(code, ones, length))
    mask = left(code, field, position)
    return code.or_(code.and_(left(code, a, position), mask), code.and_(b, code.not_(mask)))


@rows.row("bmsk.mode.type d, a, b;", section="9.7.1.21", mode="clamp wrap", type="b32")
def bmsk(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Mask of b bits from bit a upwards, both clamped to 32 or modulo 32."""
    if form.has("wrap"):
        a, b = (code.and_(v, code.const("i32", 31)) for v in (a, b))
    field = code.not_(left(code, code.const("i32", -1), b))
    return left(code, field, a)


@rows.row("szext.mode.type d, a, b;", section="9.7.1.22", mode="clamp wrap", type="u32 s32", types={"b": "u32"})
def szext(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Extend the lowest b bits of a by zeros or by the highest of them; 0 when b is 0."""
    width = code.const("i32", 32)
    length = code.and_(b, code.const("i32", 31)) if form.has("wrap") else code.call("llvm.umin", "i32", b, width)
    spare = code.sub(width, length)
    return right(code, left(code, a, spare), spare, signed=is_signed(form["type"]))
