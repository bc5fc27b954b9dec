"""Parts of a register for the packed forms, such as two 16-bit elements in 32 bits."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.simulate.code import Code, Value


def piece(code: Code, value: Value, low_bit: int, bits: int) -> Value:
    """Bits `low_bit` to `low_bit + bits - 1` of an integer, as an integer of that width."""
    shifted = code.binary("lshr", value, code.const(value.type, low_bit)) if low_bit else value
    return code.cast("trunc", shifted, f"i{bits}")


def join(code: Code, parts: list[Value], type_: str) -> Value:
    """Pieces of equal width, lowest first, put together into one integer."""
    width = parts[0].bits
    whole = code.cast("zext", parts[0], type_)
    for i, part in enumerate(parts[1:], 1):
        moved = code.binary("shl", code.cast("zext", part, type_), code.const(type_, i * width))
        whole = code.or_(whole, moved)
    return whole


def by_half(code: Code, operation: Callable[..., Value], *values: Value, type_: str = "i16") -> Value:
    """Apply an operation on 16-bit elements (of LLVM type `type_`) to both halves of 32-bit values."""
    results = []
    for low_bit in (0, 16):
        parts = [code.cast("bitcast", piece(code, v, low_bit, 16), type_) for v in values]
        results.append(code.cast("bitcast", operation(*parts), "i16"))
    return join(code, results, "i32")
