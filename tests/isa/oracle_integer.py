"""Integer arithmetic on Python's unbounded integers, by the manual's words; independent of the emitter.

Every oracle takes a form's name and the bit patterns of its sources, and returns the pattern of the destination.
"""

from __future__ import annotations

import re


def width_of(ptx_type: str) -> int:
    return int(re.search(r"\d+", ptx_type)[0])


def number(pattern: int, ptx_type: str) -> int:
    """The integer a pattern stands for in a type."""
    bits = width_of(ptx_type)
    pattern %= 1 << bits
    return pattern - (1 << bits) if ptx_type[0] == "s" and pattern >> (bits - 1) else pattern


def clamp(value: int, ptx_type: str) -> int:
    bits = width_of(ptx_type)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if ptx_type[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def pattern(value: int, bits: int) -> int:
    return value % (1 << bits)


def fits(value: int, parts: list[str], ptx_type: str) -> int:
    """A result as a pattern: saturated when the name says so, else modulo the width."""
    if "sat" in parts:
        value = clamp(value, ptx_type)
    return pattern(value, width_of(ptx_type))


def elementwise(operation, ptx_type: str, *patterns: int) -> int:
    """An operation on integers, applied to plain patterns or to the halves of packed ones."""
    element, _, count = ptx_type.partition("x")
    bits = width_of(element)
    result = 0
    for i in range(int(count or 1)):
        operands = [number((p >> (bits * i)) % (1 << bits), element) for p in patterns]
        result |= pattern(operation(*operands), bits) << (bits * i)
    return result


def oracle_add(name, a, b):
    parts = name.split(".")
    if "sat" in parts:
        return fits(number(a, "s32") + number(b, "s32"), parts, "s32")
    return elementwise(lambda x, y: x + y, parts[-1], a, b)


def oracle_sub(name, a, b):
    parts = name.split(".")
    return fits(number(a, parts[-1]) - number(b, parts[-1]), parts, parts[-1])


def oracle_sad(name, a, b, c):
    t = name.split(".")[-1]
    return pattern(number(c, t) + abs(number(a, t) - number(b, t)), width_of(t))


def oracle_abs(name, a):
    t = name.split(".")[-1]
    return pattern(abs(number(a, t)), width_of(t))


def oracle_neg(name, a):
    t = name.split(".")[-1]
    return pattern(-number(a, t), width_of(t))


def product(parts: list[str], a: int, b: int) -> int:
    t = parts[-1]
    whole = number(a, t) * number(b, t)
    return whole >> width_of(t) if "hi" in parts else whole


def oracle_mul(name, a, b):
    parts = name.split(".")
    return pattern(product(parts, a, b), width_of(parts[-1]) * (2 if "wide" in parts else 1))


def oracle_mad(name, a, b, c):
    parts = name.split(".")
    bits = width_of(parts[-1]) * (2 if "wide" in parts else 1)
    addend = number(c, f"{parts[-1][0]}{bits}")
    if "lo" in parts:
        return pattern(product(parts, a, b) + addend, bits)
    return fits(product(parts, a, b) + addend, parts, f"{parts[-1][0]}{bits}")


def product_24(parts: list[str], a: int, b: int) -> int:
    t = parts[-1][0] + "24"
    whole = number(a, t) * number(b, t)
    return number((whole >> 16 if "hi" in parts else whole) % (1 << 32), parts[-1])


def oracle_mul24(name, a, b):
    return pattern(product_24(name.split("."), a, b), 32)


def oracle_mad24(name, a, b, c):
    parts = name.split(".")
    return fits(product_24(parts, a, b) + number(c, parts[-1]), parts, parts[-1])


def oracle_dp4a(name, a, b, c):
    _, at, bt = name.split(".")
    total = c
    for i in range(0, 32, 8):
        total += number((a >> i) & 255, at[0] + "8") * number((b >> i) & 255, bt[0] + "8")
    return pattern(total, 32)


def oracle_dp2a(name, a, b, c):
    _, mode, at, bt = name.split(".")
    if mode == "hi":
        b >>= 16
    low = number(a & 0xFFFF, at[0] + "16") * number(b & 255, bt[0] + "8")
    high = number(a >> 16, at[0] + "16") * number((b >> 8) & 255, bt[0] + "8")
    return pattern(c + low + high, 32)


def divided(t: str, a: int, b: int) -> tuple[int, int]:
    """Quotient towards zero and remainder with the dividend's sign."""
    x, y = number(a, t), number(b, t)
    if y == 0:
        return -1, -1  # unspecified in the manual; the vendor's machine code gives this
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient, x - quotient * y


def oracle_div(name, a, b):
    t = name.split(".")[-1]
    return pattern(divided(t, a, b)[0], width_of(t))


def oracle_rem(name, a, b):
    t = name.split(".")[-1]
    return pattern(divided(t, a, b)[1], width_of(t))


def oracle_min(name, a, b):
    floor = (lambda v: max(v, 0)) if "relu" in name else (lambda v: v)
    return elementwise(lambda x, y: floor(min(x, y)), name.split(".")[-1], a, b)


def oracle_max(name, a, b):
    floor = (lambda v: max(v, 0)) if "relu" in name else (lambda v: v)
    return elementwise(lambda x, y: floor(max(x, y)), name.split(".")[-1], a, b)
