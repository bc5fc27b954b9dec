"""Shifts that are defined for every amount, as in PTX; LLVM's are poison for amounts of the width or more."""

from __future__ import annotations

from tilewright.simulate.code import Code, Value


def _literal(amount: Value, bits: int) -> bool:
    """Whether an amount is a literal within the width, so that no guard is needed."""
    return amount.text.isdecimal() and int(amount.text) < bits


def left(code: Code, value: Value, amount: Value) -> Value:
    """Shift left; 0 for amounts of the width or more. The amount is unsigned and of the value's type."""
    if _literal(amount, value.bits):
        return code.binary("shl", value, amount)
    inside = code.icmp("ult", amount, code.const(amount.type, value.bits))
    # The amount is clamped before it is used: a poisoned arm of a select would be harmless, but this is simpler.
    safe = code.and_(amount, code.const(amount.type, value.bits - 1))
    return code.select(inside, code.binary("shl", value, safe), code.const(value.type, 0))


def right(code: Code, value: Value, amount: Value, *, signed: bool) -> Value:
    """Shift right; beyond the width, copies of the sign bit or 0. The amount is unsigned and of the value's type."""
    if _literal(amount, value.bits):
        return code.binary("ashr" if signed else "lshr", value, amount)
    last = code.const(amount.type, value.bits - 1)
    if signed:
        return code.binary("ashr", value, code.call("llvm.umin", amount.type, amount, last))
    inside = code.icmp("ult", amount, code.const(amount.type, value.bits))
    safe = code.and_(amount, last)
    return code.select(inside, code.binary("lshr", value, safe), code.const(value.type, 0))
