"""Shifts that are defined for every amount, as PTX's are; LLVM's are poison from the width on."""

from __future__ import annotations

from tilewright.simt.translate.code import Code, Value


def _literal(amount: Value, bits: int) -> bool:
    """Whether an amount is a literal within the width, so that nothing needs guarding."""
    return amount.text.isdecimal() and int(amount.text) < bits


def left(code: Code, value: Value, amount: Value) -> Value:
    """Shift left; 0 from the width on. The amount is unsigned and of the value's type."""
    if _literal(amount, value.bits):
        return code.binary("shl", value, amount)
    inside = code.icmp("ult", amount, code.const(amount.type, value.bits))
    # The amount is brought inside before it is used: a poisoned arm of a select would be harmless, this is plainer.
    safe = code.and_(amount, code.const(amount.type, value.bits - 1))
    return code.select(inside, code.binary("shl", value, safe), code.const(value.type, 0))


def right(code: Code, value: Value, amount: Value, *, signed: bool) -> Value:
    """Shift right; from the width on, copies of the sign bit or 0. The amount is unsigned and of the value's type."""
    if _literal(amount, value.bits):
        return code.binary("ashr" if signed else "lshr", value, amount)
    last = code.const(amount.type, value.bits - 1)
    if signed:
        return code.binary("ashr", value, code.call("llvm.umin", amount.type, amount, last))
    inside = code.icmp("ult", amount, code.const(amount.type, value.bits))
    safe = code.and_(amount, last)
    return code.select(inside, code.binary("lshr", value, safe), code.const(value.type, 0))
