"""Sums and products with a carry: the parts of multi-word arithmetic.

Source: PTX ISA, section 9.7.2, Extended-Precision Integer Arithmetic Instructions.

A meaning of kind `carry` gets the carry flag as its last source and returns (result, carry-out). The flag is written
only if the name has `.cc`. A difference is the sum a + ~b + 1, as in the vendor's machine code: its flag is a carry,
the opposite of the manual's borrow, which a program sees if `addc` follows `sub.cc`.
"""

from __future__ import annotations

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.integer import high_product, is_signed
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_WORDS = "u32 s32 u64 s64"


def _sum(code: Code, a: Value, b: Value, carry: Value | None) -> tuple[Value, Value]:
    """Sum and carry-out. At most one of the two additions can overflow."""
    total = code.add(a, b)
    out = code.icmp("ult", total, a)
    if carry is None:
        return total, out
    whole = code.add(total, code.cast("zext", carry, a.type))
    return whole, code.or_(out, code.icmp("ult", whole, total))


def _difference(code: Code, a: Value, b: Value, carry: Value | None) -> tuple[Value, Value]:
    """Difference, minus 1 if the carry is not set, and carry-out."""
    if carry is None:
        return code.sub(a, b), code.icmp("uge", a, b)
    return _sum(code, a, code.not_(b), carry)


def _product(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The half of the product that the name selects."""
    return high_product(code, a, b, signed=is_signed(form["type"])) if form.has("hi") else code.mul(a, b)


def _taken(form: Form, carry: Value) -> Value | None:
    """The carry if the instruction takes it, else None."""
    return carry if form.row.takes_carry else None


@rows.row("add.cc.type d, a, b;", section="9.7.2.1", kind="carry", type=_WORDS)
@rows.row("addc{.cc}.type d, a, b;", section="9.7.2.2", kind="carry", type=_WORDS)
def add(code: Code, form: Form, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    """Sum a + b; addc adds the carry."""
    return _sum(code, a, b, _taken(form, carry))


@rows.row("sub.cc.type d, a, b;", section="9.7.2.3", kind="carry", type=_WORDS)
@rows.row("subc{.cc}.type d, a, b;", section="9.7.2.4", kind="carry", type=_WORDS)
def sub(code: Code, form: Form, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    """Difference a - b, with the carry set if there is no borrow; subc subtracts 1 if the carry is not set."""
    return _difference(code, a, b, _taken(form, carry))


@rows.row("mad.half.cc.type d, a, b, c;", fixed=1, section="9.7.2.5", kind="carry", half="hi lo", type=_WORDS)
@rows.row("madc.half{.cc}.type d, a, b, c;", fixed=1, section="9.7.2.6", kind="carry", half="hi lo", type=_WORDS)
def mad(code: Code, form: Form, a: Value, b: Value, c: Value, carry: Value) -> tuple[Value, Value]:
    """Half of a * b, plus c; madc adds the carry."""
    return _sum(code, _product(code, form, a, b), c, _taken(form, carry))
