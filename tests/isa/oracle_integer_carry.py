"""Sums with a carry on unbounded integers; independent of the emitter. Every oracle returns (result, carry-out)."""

from __future__ import annotations

from oracle_integer import number, width_of


def split(total: int, bits: int) -> tuple[int, int]:
    return total % (1 << bits), total >> bits & 1


def oracle_add(name, a, b, carry):
    return split(a + b, width_of(name.split(".")[-1]))


def oracle_addc(name, a, b, carry):
    return split(a + b + carry, width_of(name.split(".")[-1]))


def oracle_sub(name, a, b, carry):
    bits = width_of(name.split(".")[-1])
    return (a - b) % (1 << bits), int(a >= b)


def oracle_subc(name, a, b, carry):
    bits = width_of(name.split(".")[-1])
    return (a - b - (1 - carry)) % (1 << bits), int(a >= b + (1 - carry))


def half_product(name: str, a: int, b: int) -> int:
    t = name.rsplit(".", maxsplit=1)[-1]
    product = number(a, t) * number(b, t)
    return (product >> width_of(t) if ".hi" in name else product) % (1 << width_of(t))


def oracle_mad(name, a, b, c, carry):
    return split(half_product(name, a, b) + c, width_of(name.split(".")[-1]))


def oracle_madc(name, a, b, c, carry):
    return split(half_product(name, a, b) + c + carry, width_of(name.split(".")[-1]))
