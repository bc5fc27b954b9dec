"""Video instructions: sums, extremes and comparisons of chosen bytes and halves, with a second operation or a merge.

Source: PTX ISA, section 9.7.18 (scalar and SIMD video instructions). `form["asel"]` is the selector after operand `a`,
such as `.b0`, or "". Numbers are exact between an operation and its saturation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.integer import is_signed
from tilewright.simulate.isa.packed import join
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_INTEGERS = "u32 s32"
_PART = "b[0-3] h[01]"
_SECOND = "add min max"
_COMPARISONS = "eq ne lt le gt ge"
#: A function of exact values that returns an exact value.
_Operation = Callable[[Code, Value, Value], Value]

_scalar = functools.partial(
    rows.row,
    atype=_INTEGERS,
    btype=_INTEGERS,
    op2=_SECOND,
    dsel=_PART,
    asel=_PART,
    bsel=_PART,
    types={"d": "u32", "a": "atype", "b": "btype", "c": "u32"},
)


def _both(name: str) -> tuple[str, str]:
    """The syntaxes of a scalar instruction: alone or merged with c, and with a second operation."""
    return f"{name} d{{.dsel}}, a{{.asel}}, b{{.bsel}}{{, c}};", f"{name}.op2 d, a{{.asel}}, b{{.bsel}}, c;"


def _average(code: Code, a: Value, b: Value) -> Value:
    """Half the sum, rounded away from zero."""
    total = code.add(a, b)
    up = code.icmp("sge", total, code.const(a.type, 0))
    return code.binary("ashr", code.add(total, code.resize(up, a.type, signed=False)), code.const(a.type, 1))


def _comparison(name: str) -> _Operation:
    condition = name if name in ("eq", "ne") else f"s{name}"
    return lambda code, a, b: code.resize(code.icmp(condition, a, b), a.type, signed=False)


_OPERATIONS: dict[str, _Operation] = {
    "vadd": lambda code, a, b: code.add(a, b),
    "vsub": lambda code, a, b: code.sub(a, b),
    "vabsdiff": lambda code, a, b: code.call("llvm.abs", a.type, code.sub(a, b), flags="i1 false"),
    "vmin": lambda code, a, b: code.call("llvm.smin", a.type, a, b),
    "vmax": lambda code, a, b: code.call("llvm.smax", a.type, a, b),
    "vavrg": _average,
}


def _operation(form: Form) -> _Operation:
    return _comparison(form["cmp"]) if form["cmp"] else _OPERATIONS[form.row.opcode.rstrip("24")]


# -- scalar -------------------------------------------------------------------------------------------------------


def _place(selector: str) -> tuple[int, int]:
    """The lowest bit and the width of a selector's part."""
    bits = {"b": 8, "h": 16}.get(selector[:1], 32)
    return bits * int(selector[1:] or 0), bits


def _chosen(code: Code, value: Value, selector: str, type_: str, wide: str = "i64") -> Value:
    """A part of an operand, or all of it, extended as its type says."""
    low, bits = _place(selector)
    part = code.cast("trunc", code.binary("lshr", value, code.const("i32", low)), f"i{bits}")
    return code.resize(part, wide, signed=is_signed(type_))


def _clamped(code: Code, value: Value, bits: int, *, signed: bool) -> Value:
    """The nearest number that an integer of `bits` bits can hold."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    least = code.call("llvm.smin", value.type, value, code.const(value.type, high))
    return code.call("llvm.smax", value.type, least, code.const(value.type, low))


def _finished(code: Code, form: Form, value: Value, c: Value | None) -> Value:
    """The rest of a scalar instruction: saturation, then the second operation or the merge."""
    low, bits = _place(form["dsel"])
    if (c is None) != (not form["op2"] and not form["dsel"]):
        raise NotImplementedError("the operand c needs a second operation or a selected part of d")
    signed = is_signed(form["dtype"] or form["atype"])
    if form.has("sat"):
        value = _clamped(code, value, bits, signed=signed)
    if form["op2"] in ("min", "max"):  # of the value before truncation
        assert c is not None
        other = code.resize(c, "i64", signed=signed)
        extreme = code.call(f"llvm.{'s' if signed else 'u'}{form['op2']}", "i64", value, other)
        return code.cast("trunc", extreme, "i32")
    value = code.cast("trunc", value, "i32")
    if c is None:
        return value
    if form["op2"]:
        return code.add(value, c)
    mask = code.const("i32", ((1 << bits) - 1) << low)
    moved = code.binary("shl", value, code.const("i32", low))
    return code.or_(code.and_(moved, mask), code.and_(c, code.not_(mask)))


@_scalar(
    *_both("vadd.dtype.atype.btype{.sat}"),
    *_both("vsub.dtype.atype.btype{.sat}"),
    *_both("vabsdiff.dtype.atype.btype{.sat}"),
    *_both("vmin.dtype.atype.btype{.sat}"),
    *_both("vmax.dtype.atype.btype{.sat}"),
    section="9.7.18.1.1",
    dtype=_INTEGERS,
)
def scalar(code: Code, form: Form, a: Value, b: Value, c: Value | None = None) -> Value:
    """A sum, difference, distance or extreme of two parts."""
    left, right = _chosen(code, a, form["asel"], form["atype"]), _chosen(code, b, form["bsel"], form["btype"])
    return _finished(code, form, _operation(form)(code, left, right), c)


@_scalar(
    *_both("vshl.dtype.atype.u32{.sat}.mode"),
    *_both("vshr.dtype.atype.u32{.sat}.mode"),
    section="9.7.18.1.2",
    dtype=_INTEGERS,
    mode="clamp wrap",
    types={"d": "u32", "a": "atype", "b": "u32", "c": "u32"},
)
def shift(code: Code, form: Form, a: Value, b: Value, c: Value | None = None) -> Value:
    """A part shifted by another part, clamped to 32 or modulo 32."""
    number = _chosen(code, a, form["asel"], form["atype"], "i128")
    by = _chosen(code, b, form["bsel"], "u32")
    if form.has("wrap"):
        by = code.and_(by, code.const("i64", 31))
    by = code.resize(code.call("llvm.umin", "i64", by, code.const("i64", 32)), "i128", signed=False)
    moved = code.binary("shl" if form.row.opcode == "vshl" else "ashr", number, by)
    if form.has("sat"):  # intermediate results have 34 bits
        above = code.const("i128", 128 - 34)
        moved = code.binary("ashr", code.binary("shl", moved, above), above)
    return _finished(code, form, code.cast("trunc", moved, "i64"), c)


@_scalar(*_both("vset.atype.btype.cmp"), section="9.7.18.1.4", cmp=_COMPARISONS)
def compared(code: Code, form: Form, a: Value, b: Value, c: Value | None = None) -> Value:
    """1 if the comparison of two parts holds, else 0."""
    left, right = _chosen(code, a, form["asel"], form["atype"]), _chosen(code, b, form["bsel"], form["btype"])
    return _finished(code, form, _comparison(form["cmp"])(code, left, right), c)


@rows.row(
    "vmad.dtype.atype.btype{.po}{.sat}{.scale} d, {-}a{.asel}, {-}b{.bsel}, {-}c;",
    section="9.7.18.1.3",
    dtype=_INTEGERS,
    atype=_INTEGERS,
    btype=_INTEGERS,
    scale="shr7 shr15",
    asel=_PART,
    bsel=_PART,
    types={"d": "u32", "a": "atype", "b": "btype", "c": "u32"},
    note="`.po` adds one more and excludes a minus; only the product or c may have a minus",
)
def multiply_add(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """A product of two parts, plus or minus c, shifted right and saturated."""
    minus = [name in form["negated"] for name in "abc"]
    of_product = minus[0] != minus[1]
    if (form.has("po") and any(minus)) or (of_product and minus[2]):
        raise NotImplementedError("only the product or c may have a minus, and with .po neither")
    signed = is_signed(form["atype"]) or is_signed(form["btype"]) or of_product or minus[2]
    left = _chosen(code, a, form["asel"], form["atype"], "i128")
    right = _chosen(code, b, form["bsel"], form["btype"], "i128")
    product, added = code.mul(left, right), code.resize(c, "i128", signed=signed)
    product = code.neg(product) if of_product else product
    total = code.add(product, code.neg(added) if minus[2] else added)
    total = code.add(total, code.const("i128", int(form.has("po"))))
    total = code.binary("ashr", total, code.const("i128", int(form["scale"][3:] or 0)))
    if form.has("sat"):
        total = _clamped(code, total, 32, signed=signed)
    return code.cast("trunc", total, "i32")


# -- two halves or four bytes at once -----------------------------------------------------------------------------


def _elements(code: Code, values: Sequence[Value], selector: str, type_: str, bits: int) -> list[Value]:
    """The elements of two operands that a selector names, the lowest first; its digits are highest first."""
    chosen = []
    for digit in reversed(selector[1:]):
        source, number = divmod(int(digit), 32 // bits)
        part = code.cast("trunc", code.binary("lshr", values[source], code.const("i32", bits * number)), f"i{bits}")
        chosen.append(code.resize(part, "i32", signed=is_signed(type_)))
    return chosen


def _together(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """The same operation on all elements; elements outside the mask keep c's value, or add nothing to it."""
    bits = 32 // int(form.row.opcode[-1])
    count, letter = 32 // bits, "bh"[bits == 16]
    order = "".join(str(n) for n in reversed(range(2 * count)))
    left = _elements(code, (a, b), form["asel"] or letter + order[count:], form["atype"], bits)
    right = _elements(code, (a, b), form["bsel"] or letter + order[:count], form["btype"], bits)
    mask = form["dsel"][1:] or order[count:]
    results, signed = [], is_signed(form["dtype"])
    for number in range(count):
        result = _operation(form)(code, left[number], right[number])
        results.append(_clamped(code, result, bits, signed=signed) if form.has("sat") else result)
    if form.has("add"):
        return functools.reduce(code.add, (results[n] for n in range(count) if str(n) in mask), c)
    kept = [code.binary("lshr", c, code.const("i32", bits * n)) for n in range(count)]
    parts = [results[n] if str(n) in mask else kept[n] for n in range(count)]
    return join(code, [code.cast("trunc", part, f"i{bits}") for part in parts], "i32")


def _add_together(count: int, letter: str, mask: str, section: str) -> None:
    """The rows of the instructions on so many elements."""
    selector = f"{letter}[0-{2 * count - 1}]{{{count}}}"
    row = functools.partial(
        rows.row,
        section=section,
        atype=_INTEGERS,
        btype=_INTEGERS,
        dsel=mask,
        asel=selector,
        bsel=selector,
        types={"d": "u32", "a": "atype", "b": "btype", "c": "u32"},
        note="selectors name elements of a, then those of b",
    )
    for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
        operands = "d{.dsel}, a{.asel}, b{.bsel}, c;"
        row(f"{name}{count}.dtype.atype.btype{{.sat}} {operands}", dtype=_INTEGERS)(_together)
        row(f"{name}{count}.dtype.atype.btype.add {operands}", dtype=_INTEGERS)(_together)
    row(f"vset{count}.atype.btype.cmp{{.add}} d{{.dsel}}, a{{.asel}}, b{{.bsel}}, c;", cmp=_COMPARISONS)(_together)


_add_together(2, "h", "h0 h1 h10", "9.7.18.2.1")
_add_together(4, "b", "b0 b1 b10 b2 b20 b21 b210 b3 b30 b31 b310 b32 b320 b321 b3210", "9.7.18.2.2")
