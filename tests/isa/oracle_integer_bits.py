"""Counts, searches and bit fields, one bit at a time as the manual describes them; independent of the emitter."""

from __future__ import annotations

from oracle_integer import number, pattern, width_of


def bits_of(value: int, width: int) -> list[int]:
    """The bits, lowest first."""
    return [value >> i & 1 for i in range(width)]


def value_of(bits: list[int]) -> int:
    return sum(bit << i for i, bit in enumerate(bits))


def oracle_popc(name, a):
    return bin(a).count("1")


def oracle_clz(name, a):
    width = width_of(name.split(".")[-1])
    return width - a.bit_length()


def oracle_bfind(name, a):
    t = name.split(".")[-1]
    width = width_of(t)
    bits = bits_of(a, width)
    if t[0] == "s" and bits[-1]:
        bits = [1 - bit for bit in bits]
    for i in reversed(range(width)):
        if bits[i]:
            return width - 1 - i if "shiftamt" in name else i
    return 0xFFFFFFFF


def oracle_fns(name, mask, base, offset):
    offset = number(offset, "s32")
    if offset == -(1 << 31):  # negating it gives itself
        return 0
    if base > 31:
        return 0xFFFFFFFF
    bits = bits_of(mask, 32)
    if offset == 0:
        return base if bits[base] else 0xFFFFFFFF
    step, left = (1, offset) if offset > 0 else (-1, -offset)
    at = base
    while 0 <= at < 32:
        left -= bits[at]
        if bits[at] and left == 0:
            return at
        at += step
    return 0xFFFFFFFF


def oracle_brev(name, a):
    return value_of(bits_of(a, width_of(name.split(".")[-1]))[::-1])


def oracle_bfe(name, a, b, c):
    t = name.split(".")[-1]
    width = width_of(t)
    start, length = (b % 256, c % 256) if width == 32 else (b, c)
    bits = bits_of(a, width)
    sign = 0 if t[0] == "u" or length == 0 else bits[min(start + length - 1, width - 1)]
    return value_of([bits[start + i] if i < length and start + i < width else sign for i in range(width)])


def oracle_bfi(name, a, b, c, d):
    width = width_of(name.split(".")[-1])
    field, bits = bits_of(a, width), bits_of(b, width)
    start, length = (c % 256, d % 256) if width == 32 else (c, d)
    for i in range(min(length, width)):
        if start + i < width:
            bits[start + i] = field[i]
    return value_of(bits)


def oracle_bmsk(name, a, b):
    if "wrap" in name:
        a, b = a % 32, b % 32
    return value_of([int(a <= i < a + b) for i in range(32)])


def oracle_szext(name, a, b):
    length = b % 32 if "wrap" in name else min(b, 32)
    if length == 0:
        return 0
    return pattern(number(a, f"{name[-3]}{length}"), 32)
