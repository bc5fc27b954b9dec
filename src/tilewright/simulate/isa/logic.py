"""Bitwise logic, shifts, and the byte permutation.

Source: PTX ISA, section 9.7.8, Logic and Shift Instructions, and 9.7.9.7, prmt.
"""

from __future__ import annotations

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.shift import left, right
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_BITS = "pred b16 b32 b64"


@rows.row("and.type d, a, b;", section="9.7.8.1", type=_BITS, linear="and")
def and_(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Bitwise and."""
    return code.and_(a, b)


@rows.row("or.type d, a, b;", section="9.7.8.2", type=_BITS, linear="or")
def or_(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Bitwise or."""
    return code.or_(a, b)


@rows.row("xor.type d, a, b;", section="9.7.8.3", type=_BITS)
def xor(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Bitwise exclusive or."""
    return code.xor(a, b)


@rows.row("not.type d, a;", section="9.7.8.4", type=_BITS)
def not_(code: Code, form: Form, a: Value) -> Value:
    """Bitwise complement."""
    return code.not_(a)


@rows.row("cnot.type d, a;", section="9.7.8.5", type="b16 b32 b64")
def cnot(code: Code, form: Form, a: Value) -> Value:
    """Logical complement as in C: 1 for 0, else 0."""
    return code.cast("zext", code.icmp("eq", a, code.const(a.type, 0)), a.type)


def _any_function(code: Code, a: Value, b: Value, c: Value, table: Value) -> Value:
    """The function whose truth table has bit 4a + 2b + c: expanded on a, then b, then c (Shannon)."""
    if not table.text.lstrip("-").isdecimal():
        return _function_in_register(code, a, b, c, table)
    low, high = int(table.text) & 15, int(table.text) >> 4 & 15
    zeros, ones = _function_of_two(code, b, c, low), _function_of_two(code, b, c, high)
    return zeros if low == high else _choose(code, a, ones, zeros)


def _function_of_two(code: Code, b: Value, c: Value, bits: int) -> Value:
    low, high = bits & 3, bits >> 2
    zeros, ones = _function_of_one(code, c, low), _function_of_one(code, c, high)
    return zeros if low == high else _choose(code, b, ones, zeros)


def _function_of_one(code: Code, c: Value, bits: int) -> Value:
    if bits in {0, 3}:
        return code.const(c.type, -(bits & 1))
    return c if bits == 2 else code.not_(c)


def _choose(code: Code, control: Value, ones: Value, zeros: Value) -> Value:
    """Bitwise choice: `ones` where control is set, else `zeros`."""
    return code.xor(zeros, code.and_(control, code.xor(zeros, ones)))


def _function_in_register(code: Code, a: Value, b: Value, c: Value, table: Value) -> Value:
    """The general case: the table is known only at run time. Each of its eight bits is spread over the word."""
    result = code.const(a.type, 0)
    for minterm in range(8):
        bit = code.and_(code.binary("lshr", table, code.const("i32", minterm)), code.const("i32", 1))
        term = code.neg(bit)
        for value, position in ((a, 4), (b, 2), (c, 1)):
            term = code.and_(term, value if minterm & position else code.not_(value))
        result = code.or_(result, term)
    return result


@rows.row("lop3.type d, a, b, c, immLut;", section="9.7.8.6", type="b32", types={"immLut": "u32"})
def lop3(code: Code, form: Form, a: Value, b: Value, c: Value, table: Value) -> Value:
    """Any bitwise function of three inputs."""
    return _any_function(code, a, b, c, table)


@rows.row(
    "lop3.BoolOp.type d|p, a, b, c, immLut, q;",
    section="9.7.8.6",
    BoolOp="or and",
    type="b32",
    types={"immLut": "u32", "p": "pred", "q": "pred"},
)
def lop3_test(code: Code, form: Form, a: Value, b: Value, c: Value, table: Value, q: Value) -> tuple[Value, Value]:
    """Any bitwise function of three inputs, and whether it is not zero, combined with a predicate."""
    result = _any_function(code, a, b, c, table)
    return result, code.binary(form["BoolOp"], code.icmp("ne", result, code.const("i32", 0)), q)


@rows.row(
    "shf.dir.mode.type d, a, b, c;",
    fixed=1,
    section="9.7.8.7",
    dir="l r",
    mode="clamp wrap",
    type="b32",
    types={"c": "u32"},
)
def shf(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Upper (l) or lower (r) half of the 64 bits b:a shifted left or right."""
    function = "llvm.fshl" if form["dir"] == "l" else "llvm.fshr"
    shifted = code.call(function, "i32", b, a, c)  # the intrinsics use the amount modulo 32
    if form.has("wrap"):
        return shifted
    whole = a if form["dir"] == "l" else b
    return code.select(code.icmp("ult", c, code.const("i32", 32)), shifted, whole)


def _amount(code: Code, value: Value, b: Value) -> Value:
    """The u32 amount in the shifted value's type; an amount past the width stays past it."""
    if b.text.isdecimal():
        return Value(str(min(int(b.text), value.bits)), value.type)
    if value.bits >= b.bits:
        return code.resize(b, value.type, signed=False)
    return code.cast("trunc", code.call("llvm.umin", "i32", b, code.const("i32", value.bits)), value.type)


@rows.row("shl.type d, a, b;", section="9.7.8.8", type="b16 b32 b64", types={"b": "u32"}, linear="shl")
def shl(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Shift left; amounts past the width give 0."""
    return left(code, a, _amount(code, a, b))


@rows.row(
    "shr.type d, a, b;",
    section="9.7.8.9",
    type="b16 b32 b64 u16 u32 u64 s16 s32 s64",
    types={"b": "u32"},
    linear="shr",
)
def shr(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Shift right, filling with the sign bit of signed types; amounts past the width count as the width."""
    return right(code, a, _amount(code, a, b), signed=form["type"].startswith("s"))


# -- prmt ---------------------------------------------------------------------------------------------------------


def _byte_pair(code: Code, a: Value, b: Value) -> Value:
    """The eight bytes b:a as one 64-bit value."""
    upper = code.binary("shl", code.cast("zext", b, "i64"), code.const("i64", 32))
    return code.or_(upper, code.cast("zext", a, "i64"))


def _permuted(code: Code, pair: Value, selectors: list[tuple[Value, Value | None]]) -> Value:
    """Four selected bytes, the lowest first. A selector is (byte index 0..7, whether to spread the byte's sign)."""
    result = code.const("i32", 0)
    for i, (index, spread) in enumerate(selectors):
        amount = code.resize(code.binary("shl", index, code.const("i32", 3)), "i64", signed=False)
        byte = code.and_(code.cast("trunc", code.binary("lshr", pair, amount), "i32"), code.const("i32", 255))
        if spread is not None:
            sign = code.neg(code.binary("lshr", byte, code.const("i32", 7)))
            byte = code.select(spread, code.and_(sign, code.const("i32", 255)), byte)
        result = code.or_(result, code.binary("shl", byte, code.const("i32", 8 * i)))
    return result


@rows.row("prmt.type d, a, b, c;", section="9.7.9.7", type="b32")
def prmt(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Four of the eight bytes of b:a, each chosen by four bits of c; the fourth bit spreads the byte's sign."""
    selectors: list[tuple[Value, Value | None]] = []
    for i in range(4):
        nibble = code.binary("lshr", c, code.const("i32", 4 * i))
        spread = code.icmp("ne", code.and_(nibble, code.const("i32", 8)), code.const("i32", 0))
        selectors.append((code.and_(nibble, code.const("i32", 7)), spread))
    return _permuted(code, _byte_pair(code, a, b), selectors)


#: Byte indices for each value of the two-bit selector, the lowest result byte first. Source: the table of prmt's modes.
_MODES = {
    "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
    "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
    "rc8": [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
    "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
    "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
    "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
}


@rows.row("prmt.type.mode d, a, b, c;", section="9.7.9.7", type="b32", mode=" ".join(_MODES))
def prmt_mode(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Four of the eight bytes of b:a in one of the fixed patterns, chosen by the lowest two bits of c."""
    choice = code.and_(c, code.const("i32", 3))
    selectors: list[tuple[Value, Value | None]] = []
    for position in range(4):
        # The four indices as one constant, a nibble each, shifted to the chosen one.
        packed = sum(indices[position] << (4 * k) for k, indices in enumerate(_MODES[form["mode"]]))
        moved = code.binary("lshr", code.const("i32", packed), code.binary("shl", choice, code.const("i32", 2)))
        selectors.append((code.and_(moved, code.const("i32", 7)), None))
    return _permuted(code, _byte_pair(code, a, b), selectors)
