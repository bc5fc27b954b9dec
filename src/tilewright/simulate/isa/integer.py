"""Integer arithmetic: sums, products, quotients, extremes.

Source: PTX ISA, section 9.7.1, Integer Arithmetic Instructions. That section's bit instructions are in `integer_bits`,
those with a carry in `integer_carry`.
"""

from __future__ import annotations

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.packed import by_half
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_PLAIN = "u16 s16 u32 s32 u64 s64"


def is_signed(ptx_type: str) -> bool:
    """Whether an integer type (or the elements of a packed one) has a sign."""
    return ptx_type.startswith("s")


def wide_product(code: Code, a: Value, b: Value, *, signed: bool) -> Value:
    """The whole product, twice as wide as its factors."""
    double = f"i{a.bits * 2}"
    return code.mul(code.resize(a, double, signed=signed), code.resize(b, double, signed=signed))


def high_product(code: Code, a: Value, b: Value, *, signed: bool) -> Value:
    """The upper half of the whole product."""
    product = wide_product(code, a, b, signed=signed)
    return code.cast("trunc", code.binary("lshr", product, code.const(product.type, a.bits)), a.type)


def _on_elements(code: Code, form: Form, function: str, *values: Value) -> Value:
    """Call an intrinsic on plain integers, or on both halves of packed ones."""
    if form["type"].endswith("x2"):
        return by_half(code, lambda *parts: code.call(function, "i16", *parts), *values)
    return code.call(function, values[0].type, *values)


# -- sums ---------------------------------------------------------------------------------------------------------


@rows.row("add.type d, a, b;", section="9.7.1.1", type=_PLAIN, linear="add")
def add(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Sum a + b, modulo the width."""
    return code.add(a, b)


@rows.row("add.type d, a, b;", section="9.7.1.1", type="u16x2 s16x2")
def add_packed(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Both halves at once: the top bit of each half is added without its carry."""
    low = code.const("i32", 0x7FFF7FFF)
    total = code.add(code.and_(a, low), code.and_(b, low))
    return code.xor(total, code.and_(code.xor(a, b), code.const("i32", 0x80008000)))


@rows.row("add.sat.type d, a, b;", section="9.7.1.1", type="s32")
def add_saturating(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Sum a + b, clamped to the type's range."""
    return code.call("llvm.sadd.sat", a.type, a, b)


@rows.row("sub.type d, a, b;", section="9.7.1.2", type=_PLAIN, linear="sub")
def sub(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Difference a - b, modulo the width."""
    return code.sub(a, b)


@rows.row("sub.sat.type d, a, b;", section="9.7.1.2", type="s32")
def sub_saturating(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Difference a - b, clamped to the type's range."""
    return code.call("llvm.ssub.sat", a.type, a, b)


@rows.row("sad.type d, a, b, c;", section="9.7.1.7", type=_PLAIN)
def sad(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Sum c + |a - b|, where the difference does not overflow, the sum modulo the width."""
    less = code.icmp("slt" if is_signed(form["type"]) else "ult", a, b)
    return code.add(c, code.select(less, code.sub(b, a), code.sub(a, b)))


@rows.row("abs.type d, a;", section="9.7.1.10", type="s16 s32 s64")
def absolute(code: Code, form: Form, a: Value) -> Value:
    """|a|; the least integer stays as it is."""
    return code.call("llvm.abs", a.type, a, flags="i1 false")


@rows.row("neg.type d, a;", section="9.7.1.11", type="s16 s32 s64", linear="neg")
def neg(code: Code, form: Form, a: Value) -> Value:
    """-a, modulo the width."""
    return code.neg(a)


# -- products -----------------------------------------------------------------------------------------------------


@rows.row("mul.lo.type d, a, b;", fixed=1, section="9.7.1.3", type=_PLAIN, linear="mul")
def mul_low(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The lower half of the product."""
    return code.mul(a, b)


@rows.row("mul.hi.type d, a, b;", fixed=1, section="9.7.1.3", type=_PLAIN)
def mul_high(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The upper half of the product."""
    return high_product(code, a, b, signed=is_signed(form["type"]))


@rows.row(
    "mul.wide.type d, a, b;",
    fixed=1,
    section="9.7.1.3",
    type="u16 s16 u32 s32",
    types={"d": "2*type"},
    linear="mul.wide",
)
def mul_wide(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The whole product."""
    return wide_product(code, a, b, signed=is_signed(form["type"]))


@rows.row("mad.lo.type d, a, b, c;", fixed=1, section="9.7.1.4", type=_PLAIN, linear="mad")
def mad_low(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Lower half of a * b, plus c."""
    return code.add(code.mul(a, b), c)


@rows.row("mad.hi.type d, a, b, c;", fixed=1, section="9.7.1.4", type=_PLAIN)
def mad_high(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Upper half of a * b, plus c modulo the width."""
    return code.add(high_product(code, a, b, signed=is_signed(form["type"])), c)


@rows.row("mad.hi.sat.type d, a, b, c;", fixed=1, section="9.7.1.4", type="s32")
def mad_high_saturating(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Upper half of a * b, plus c clamped to the type's range."""
    return code.call("llvm.sadd.sat", a.type, high_product(code, a, b, signed=True), c)


@rows.row(
    "mad.wide.type d, a, b, c;",
    fixed=1,
    section="9.7.1.4",
    type="u16 s16 u32 s32",
    types={"d": "2*type", "c": "2*type"},
    linear="mad.wide",
)
def mad_wide(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Whole product plus a c of the product's width."""
    return code.add(wide_product(code, a, b, signed=is_signed(form["type"])), c)


def _product_24(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Bits 47..16 (hi) or 31..0 (lo) of the 48-bit product of the factors' lowest 24 bits."""
    signed = is_signed(form["type"])
    eight = code.const("i32", 8)
    factors = []
    for factor in (a, b):
        moved = code.binary("shl", factor, eight)
        narrow = code.binary("ashr" if signed else "lshr", moved, eight)
        factors.append(code.resize(narrow, "i64", signed=signed))
    product = code.mul(*factors)
    if form.has("hi"):
        product = code.binary("lshr", product, code.const("i64", 16))
    return code.cast("trunc", product, "i32")


@rows.row("mul24.mode.type d, a, b;", fixed=1, section="9.7.1.5", mode="hi lo", type="u32 s32")
def mul24(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Product of 24-bit integers."""
    return _product_24(code, form, a, b)


@rows.row("mad24.mode.type d, a, b, c;", fixed=1, section="9.7.1.6", mode="hi lo", type="u32 s32")
def mad24(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Product of 24-bit integers, plus c modulo 2**32."""
    return code.add(_product_24(code, form, a, b), c)


@rows.row("mad24.hi.sat.type d, a, b, c;", fixed=1, section="9.7.1.6", type="s32")
def mad24_saturating(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Product of 24-bit integers, plus c clamped to the type's range."""
    return code.call("llvm.sadd.sat", "i32", _product_24(code, form, a, b), c)


def _dot(code: Code, c: Value, pairs: list[tuple[Value, Value]]) -> Value:
    """Sum of c and the products, modulo 2**32."""
    for left, right in pairs:
        c = code.add(c, code.mul(left, right))
    return c


def _field(code: Code, value: Value, low_bit: int, bits: int, ptx_type: str) -> Value:
    """A field of a 32-bit value, extended to 32 bits as its type says."""
    up = code.binary("shl", value, code.const("i32", 32 - bits - low_bit))
    return code.binary("ashr" if is_signed(ptx_type) else "lshr", up, code.const("i32", 32 - bits))


_DOT_TYPES = {"a": "atype", "b": "btype", "c": "b32", "d": "b32"}


@rows.row("dp4a.atype.btype d, a, b, c;", section="9.7.1.23", types=_DOT_TYPES, atype="u32 s32", btype="u32 s32")
def dp4a(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Sum of c and the dot product of two vectors of four bytes."""
    at, bt = form["atype"], form["btype"]
    return _dot(code, c, [(_field(code, a, i, 8, at), _field(code, b, i, 8, bt)) for i in (0, 8, 16, 24)])


@rows.row(
    "dp2a.mode.atype.btype d, a, b, c;",
    fixed=1,
    section="9.7.1.24",
    types=_DOT_TYPES,
    mode="lo hi",
    atype="u32 s32",
    btype="u32 s32",
)
def dp2a(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Sum of c and the dot product of two 16-bit integers with two bytes of b, its lower or its upper ones."""
    at, bt = form["atype"], form["btype"]
    start = 16 if form.has("hi") else 0
    return _dot(code, c, [(_field(code, a, 16 * i, 16, at), _field(code, b, start + 8 * i, 8, bt)) for i in (0, 1)])


# -- quotients ----------------------------------------------------------------------------------------------------


def _divide(code: Code, form: Form, a: Value, b: Value, operation: str) -> Value:
    """Quotient or remainder, with the two undefined cases of the host replaced.

    The manual does not specify division by zero; the vendor's machine code gives all ones for the quotient and for the
    remainder, in every width. The least integer divided by -1 wraps around.
    """
    signed = is_signed(form["type"])
    one = code.const(a.type, 1)
    zero_divisor = code.icmp("eq", b, code.const(a.type, 0))
    unsafe = zero_divisor
    if signed:
        least = code.icmp("eq", a, code.const(a.type, 1 << (a.bits - 1)))
        overflow = code.and_(least, code.icmp("eq", b, code.const(a.type, -1)))
        unsafe = code.or_(zero_divisor, overflow)
    result = code.binary(("s" if signed else "u") + operation, a, code.select(unsafe, one, b))
    return code.select(zero_divisor, code.const(a.type, -1), result)


@rows.row("div.type d, a, b;", section="9.7.1.8", type=_PLAIN, note="division by zero gives all ones")
def div(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Quotient a / b, rounded towards zero."""
    return _divide(code, form, a, b, "div")


@rows.row("rem.type d, a, b;", section="9.7.1.9", type=_PLAIN, note="the remainder by zero is all ones")
def rem(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Remainder a - b * (a / b), with the sign of a."""
    return _divide(code, form, a, b, "rem")


# -- extremes -----------------------------------------------------------------------------------------------------


def _extreme(code: Code, form: Form, name: str, a: Value, b: Value) -> Value:
    function = f"llvm.{'s' if is_signed(form['type']) else 'u'}{name}"
    result = _on_elements(code, form, function, a, b)
    if form.has("relu"):
        result = _on_elements(code, form, "llvm.smax", result, code.const("i32", 0))
    return result


@rows.row("min.type d, a, b;", section="9.7.1.12", type=_PLAIN + " u16x2")
@rows.row("min{.relu}.type d, a, b;", section="9.7.1.12", type="s16x2")
@rows.row("min.relu.type d, a, b;", section="9.7.1.12", type="s32")
def minimum(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The lesser; .relu clamps a negative result to 0."""
    return _extreme(code, form, "min", a, b)


@rows.row("max.type d, a, b;", section="9.7.1.13", type=_PLAIN + " u16x2")
@rows.row("max{.relu}.type d, a, b;", section="9.7.1.13", type="s16x2")
@rows.row("max.relu.type d, a, b;", section="9.7.1.13", type="s32")
def maximum(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The greater; .relu clamps a negative result to 0."""
    return _extreme(code, form, "max", a, b)
