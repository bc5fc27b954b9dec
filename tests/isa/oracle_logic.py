"""Bitwise forms, shifts and byte permutations, bit by bit or byte by byte; independent of the emitter."""

from __future__ import annotations

from oracle_integer import number, pattern, width_of
from oracle_integer_bits import bits_of, value_of


def width(name: str) -> int:
    t = name.rsplit(".", maxsplit=1)[-1]
    return 1 if t == "pred" else width_of(t)


def oracle_and(name, a, b):
    return value_of([min(x, y) for x, y in zip(bits_of(a, 64), bits_of(b, 64), strict=True)])


def oracle_or(name, a, b):
    return value_of([max(x, y) for x, y in zip(bits_of(a, 64), bits_of(b, 64), strict=True)])


def oracle_xor(name, a, b):
    return value_of([int(x != y) for x, y in zip(bits_of(a, 64), bits_of(b, 64), strict=True)])


def oracle_not(name, a):
    return value_of([1 - bit for bit in bits_of(a, width(name))])


def oracle_cnot(name, a):
    return 0 if a else 1


def oracle_lop3(name, a, b, c, table, q=None):
    rows = zip(bits_of(a, 32), bits_of(b, 32), bits_of(c, 32), strict=True)
    result = value_of([table >> (4 * x + 2 * y + z) & 1 for x, y, z in rows])
    if q is None:
        return result
    return result, (result != 0 or q) if ".or." in name else (result != 0 and q)


def oracle_shf(name, a, b, c):
    amount = c % 32 if "wrap" in name else min(c, 32)
    whole = b << 32 | a
    return (whole << amount) >> 32 & 0xFFFFFFFF if ".l." in name else (whole >> amount) & 0xFFFFFFFF


def oracle_shl(name, a, b):
    return pattern(a << min(b, 64), width(name))


def oracle_shr(name, a, b):
    t = name.split(".")[-1]
    return pattern(number(a, t) >> min(b, 64), width(name))


#: The manual's table, as it prints it: for each selector the source bytes of result bytes 3, 2, 1, 0.
PRINTED = {
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


def oracle_prmt(name, a, b, c):
    source = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    mode = name.split(".")[-1]
    if mode in PRINTED:
        return int.from_bytes(bytes(source[int(digit)] for digit in PRINTED[mode][c % 4]), "big")
    result = []
    for i in range(4):
        selector = c >> 4 * i & 15
        byte = source[selector & 7]
        result.append((0xFF if byte >= 0x80 else 0) if selector & 8 else byte)
    return int.from_bytes(bytes(result), "little")
