"""Results of each instruction of the random kernels, by the PTX manual, in Python's integers and exact fractions.

A row names the types of results and sources and has a function from decoded sources to the result's number or bits.
Integers come signed or unsigned by their type, floats as Python floats, predicates as 0 or 1. All is independent of the
machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import floats

#: Class of the registers that hold a type.
CLASSES = {
    "pred": "p", "u8": "r", "s8": "r", "u16": "h", "s16": "h", "b16": "h", "f16": "g", "u32": "r", "s32": "r",
    "b32": "r", "u64": "d", "s64": "d", "b64": "d", "f32": "f", "f64": "e", "pos": "r", "lut": "r",
    "odd.u32": "r", "odd.s32": "r", "odd.u64": "d", "odd.s64": "d",
}  # fmt: skip
WIDTHS = {"p": 1, "h": 16, "g": 16, "r": 32, "f": 32, "d": 64, "e": 64}


@dataclass(frozen=True)
class Meaning:
    """Types of results and sources, and the function; one of a carry chain takes and gives the carry too."""

    results: tuple[str, ...]
    sources: tuple[str, ...]
    function: Callable[..., Any]
    carry: bool = False


def bits_of(type_: str) -> int:
    return 1 if type_ == "pred" else 32 if type_ in ("pos", "lut") else int("".join(c for c in type_ if c.isdigit()))


def decode(bits: int, type_: str) -> Any:
    if type_[0] == "f":
        return floats.decoded(bits, type_)
    kind = type_.removeprefix("odd.")
    width = bits_of(kind)
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def encode(value: int, type_: str) -> int:
    """A result as the bits of its register, which may be wider than an 8-bit type."""
    if type_ == "s8":
        value = decode(value & 255, "s8")
    elif type_ == "u8":
        value &= 255
    return int(value) & ((1 << WIDTHS[CLASSES[type_]]) - 1)


MEANINGS: dict[str, Meaning] = {}


def row(name: str, results: str, sources: str, function: Callable[..., Any], *, carry: bool = False) -> None:
    MEANINGS[name] = Meaning(tuple(results.split()), tuple(sources.split()), function, carry)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")

for t in INTEGERS:
    n = bits_of(t)
    row(f"add.{t}", t, f"{t} {t}", lambda a, b: a + b)
    row(f"sub.{t}", t, f"{t} {t}", lambda a, b: a - b)
    row(f"mul.lo.{t}", t, f"{t} {t}", lambda a, b: a * b)
    row(f"mul.hi.{t}", t, f"{t} {t}", lambda a, b, n=n: a * b >> n)
    row(f"mad.lo.{t}", t, f"{t} {t} {t}", lambda a, b, c: a * b + c)
    row(f"mad.hi.{t}", t, f"{t} {t} {t}", lambda a, b, c, n=n: (a * b >> n) + c)
    row(f"min.{t}", t, f"{t} {t}", min)
    row(f"max.{t}", t, f"{t} {t}", max)
    row(f"sad.{t}", t, f"{t} {t} {t}", lambda a, b, c: abs(a - b) + c)
    row(f"shr.{t}", t, f"{t} u32", lambda a, b, n=n: a >> min(b, n))
    if t[0] == "s":
        row(f"abs.{t}", t, t, abs)
        row(f"neg.{t}", t, t, lambda a: -a)
    if n < 64:
        wide = f"{t[0]}{2 * n}"
        row(f"mul.wide.{t}", wide, f"{t} {t}", lambda a, b: a * b)
        row(f"mad.wide.{t}", wide, f"{t} {t} {wide}", lambda a, b, c: a * b + c)
    if n > 16:
        # a register as divisor is first made odd and positive: the manual leaves zero and overflow open
        row(f"div.{t}", t, f"{t} odd.{t}", _quotient)
        row(f"rem.{t}", t, f"{t} odd.{t}", lambda a, b: a - b * _quotient(a, b))
        row(f"bfe.{t}", t, f"{t} pos pos", lambda a, b, c, t=t: _field(a, b, c, t))
        row(f"bfind.{t}", "u32", t, lambda a: (~a if a < 0 else a).bit_length() - 1)

for t in ("b16", "b32", "b64", "pred"):
    row(f"and.{t}", t, f"{t} {t}", lambda a, b: a & b)
    row(f"or.{t}", t, f"{t} {t}", lambda a, b: a | b)
    row(f"xor.{t}", t, f"{t} {t}", lambda a, b: a ^ b)
    row(f"not.{t}", t, t, lambda a: ~a)
    row(f"mov.{t}", t, t, lambda a: a)
for t in ("b16", "b32", "b64"):
    n = bits_of(t)
    row(f"shl.{t}", t, f"{t} u32", lambda a, b, n=n: a << min(b, n))
    row(f"cnot.{t}", t, t, lambda a: a == 0)
    row(f"selp.{t}", t, f"{t} {t} pred", lambda a, b, p: a if p else b)
for t in ("b32", "b64"):
    n = bits_of(t)
    row(f"popc.{t}", "u32", t, int.bit_count)
    row(f"clz.{t}", "u32", t, lambda a, n=n: n - a.bit_length())
    row(f"brev.{t}", t, t, lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2))
    row(f"bfi.{t}", t, f"{t} {t} pos pos", lambda a, b, at, length, n=n: _inserted(a, b, at, length, n))


def _field(a: int, at: int, length: int, t: str) -> int:
    """The manual's pseudocode, bit by bit: beyond the top, a signed field repeats its sign."""
    n = bits_of(t)
    a &= (1 << n) - 1
    sign = 0 if t[0] == "u" or length == 0 else a >> min(at + length - 1, n - 1) & 1
    return sum((a >> (at + i) & 1 if i < length and at + i < n else sign) << i for i in range(n))


def _inserted(a: int, b: int, at: int, length: int, n: int) -> int:
    for i in range(min(length, max(0, n - at))):
        b = b & ~(1 << (at + i)) | (a >> i & 1) << (at + i)
    return b


def _lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))


def _permuted(a: int, b: int, selector: int) -> int:
    both = [(a | b << 32) >> 8 * i & 255 for i in range(8)]
    found = 0
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = both[nibble & 7]
        found |= ((255 if byte >> 7 else 0) if nibble & 8 else byte) << 8 * i
    return found


_BYTES = {
    "f4e": ["3210", "4321", "5432", "6543"], "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"], "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"], "rc16": ["1010", "3232", "1010", "3232"],
}  # fmt: skip

row("lop3.b32", "b32", "b32 b32 b32 lut", _lop3)
row("prmt.b32", "b32", "b32 b32 b32", _permuted)
for _mode, _digits in _BYTES.items():
    row(f"prmt.b32.{_mode}", "b32", "b32 b32 b32", lambda a, b, c, w=_digits: _permuted(a, b, int(w[c & 3], 16)))
row("shf.l.wrap.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32)
row("shf.l.clamp.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32)
row("shf.r.wrap.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) >> (c & 31))
row("shf.r.clamp.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) >> min(c, 32))
row("mul24.lo.u32", "u32", "u32 u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))
row("mul24.hi.u32", "u32", "u32 u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16)
row("add.sat.s32", "s32", "s32 s32", lambda a, b: min(max(a + b, -(1 << 31)), (1 << 31) - 1))
row("sub.sat.s32", "s32", "s32 s32", lambda a, b: min(max(a - b, -(1 << 31)), (1 << 31) - 1))
row(
    "dp4a.u32.u32",
    "u32",
    "b32 b32 u32",
    lambda a, b, c: c + sum((a >> i & 255) * (b >> i & 255) for i in (0, 8, 16, 24)),
)
row("slct.u32.s32", "u32", "u32 u32 s32", lambda a, b, c: a if c >= 0 else b)

# Carry chains: the function's last argument is the carry (borrow), and it gives result and carry.
for t in ("u32", "u64"):
    n = bits_of(t)
    row(f"add.cc.{t}", t, f"{t} {t}", lambda a, b, k, n=n: (a + b, a + b >> n), carry=True)
    row(f"addc.cc.{t}", t, f"{t} {t}", lambda a, b, k, n=n: (a + b + k, a + b + k >> n), carry=True)
    row(f"addc.{t}", t, f"{t} {t}", lambda a, b, k: (a + b + k, k), carry=True)
    row(f"sub.cc.{t}", t, f"{t} {t}", lambda a, b, k: (a - b, int(a < b)), carry=True)
    row(f"subc.cc.{t}", t, f"{t} {t}", lambda a, b, k: (a - b - k, int(a < b + k)), carry=True)
    row(f"subc.{t}", t, f"{t} {t}", lambda a, b, k: (a - b - k, k), carry=True)
row("mad.lo.cc.u32", "u32", "u32 u32 u32", lambda a, b, c, k: ((s := (a * b & 0xFFFFFFFF) + c), s >> 32), carry=True)
row("madc.hi.u32", "u32", "u32 u32 u32", lambda a, b, c, k: ((a * b >> 32) + c + k, k), carry=True)

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
_COMBINED = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}


def _compared(relation: str, a: float, b: float) -> bool:
    """Of floats: ordered relations fail for NaN, those with `u` hold."""
    if math.isnan(a) or math.isnan(b):
        return relation[-1] == "u" or relation == "nan"
    if relation in ("num", "nan"):
        return relation == "num"
    return RELATIONS[relation[:2]](a, b)


for t in INTEGERS:
    for name, holds in RELATIONS.items():
        row(f"setp.{name}.{t}", "pred", f"{t} {t}", holds)
        if t == "s32":
            row(f"set.{name}.u32.{t}", "u32", f"{t} {t}", lambda a, b, h=holds: -h(a, b))
    for join, both in _COMBINED.items():
        row(f"setp.lt.{join}.{t}", "pred", f"{t} {t} pred", lambda a, b, p, f=both: f(int(a < b), p))
row("setp.ge.and.s32|", "pred pred", "s32 s32 pred", lambda a, b, p: (int(a >= b) & p, int(a < b) & p))
for t in ("f16", "f32", "f64"):
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        row(f"setp.{name}.{t}", "pred", f"{t} {t}", lambda a, b, r=name: _compared(r, a, b))


def _float(
    name: str, t: str, count: int, function: Callable[..., int], *, ftz: bool = False, sat: bool = False
) -> None:
    """A float row whose function gives bits; `.ftz` flushes sources and result, `.sat` clamps the result."""

    def whole(*values: float) -> int:
        if ftz:
            values = tuple(0.0 * v if abs(v) < 2.0 ** floats.FORMATS[t].least else v for v in values)
        found = function(*values)
        found = floats.flushed(found, t) if ftz else found
        return floats.saturated(found, t) if sat else found

    row(f"{name}{'.ftz' * ftz}{'.sat' * sat}.{t}", t, " ".join([t] * count), whole)


def _least(a: float, b: float, t: str, sign: int, *, nan: bool) -> int:
    """Minimum, or maximum by sign -1; of a number and a NaN it is the number, unless `nan`; -0 is less than +0."""
    if math.isnan(a) or math.isnan(b):
        return floats.of_float(math.nan if nan or (math.isnan(a) and math.isnan(b)) else b if math.isnan(a) else a, t)
    return floats.of_float(min((a, b), key=lambda x: (sign * x, -sign * floats.negative(x))), t)


for t in ("f16", "f32", "f64"):
    for mode in ("rn",) if t == "f16" else ("rn", "rz", "rm", "rp"):
        for ftz, sat in itertools.product((False, True), repeat=2) if t != "f64" else [(False, False)]:
            flags = {"ftz": ftz, "sat": sat}
            _float(f"add.{mode}", t, 2, lambda a, b, t=t, m=mode: floats.multiply_add(a, 1.0, b, t, m), **flags)
            _float(f"sub.{mode}", t, 2, lambda a, b, t=t, m=mode: floats.multiply_add(a, 1.0, -b, t, m), **flags)
            _float(f"mul.{mode}", t, 2, lambda a, b, t=t, m=mode: floats.multiplied(a, b, t, m), **flags)
            _float(f"fma.{mode}", t, 3, lambda a, b, c, t=t, m=mode: floats.multiply_add(a, b, c, t, m), **flags)
        if t != "f16":
            _float(f"div.{mode}", t, 2, lambda a, b, t=t, m=mode: floats.divided(a, b, t, m))
            _float(f"rcp.{mode}", t, 1, lambda a, t=t, m=mode: floats.divided(1.0, a, t, m))
    for ftz in (False, True) if t != "f64" else (False,):
        _float("abs", t, 1, lambda a, t=t: floats.of_float(abs(a), t), ftz=ftz)
        _float("neg", t, 1, lambda a, t=t: floats.of_float(-a, t), ftz=ftz)
        for name, sign in (("min", 1), ("max", -1)):
            _float(name, t, 2, lambda a, b, t=t, s=sign: _least(a, b, t, s, nan=False), ftz=ftz)
    if t != "f64":
        for name, sign in (("min.NaN", 1), ("max.NaN", -1)):
            _float(name, t, 2, lambda a, b, t=t, s=sign: _least(a, b, t, s, nan=True))
    if t != "f16":
        _float("sqrt.rn", t, 1, lambda a, t=t: floats.of_float(math.sqrt(a) if a >= 0 else math.nan, t))
        row(f"selp.{t}", t, f"{t} {t} pred", lambda a, b, p, t=t: floats.of_float(a if p else b, t))
        row(f"testp.normal.{t}", "pred", t, lambda a, t=t: _normal(a, t))
        row(f"testp.finite.{t}", "pred", t, math.isfinite)
        row(f"testp.notanumber.{t}", "pred", t, math.isnan)


def _normal(a: float, t: str) -> bool:
    """The manual counts zeros as normal numbers."""
    return math.isfinite(a) and (a == 0 or abs(a) >= 2.0 ** floats.FORMATS[t].least)


def _clamped(a: int, t: str) -> int:
    n = bits_of(t)
    return min(max(a, -(1 << (n - 1))), (1 << (n - 1)) - 1) if t[0] == "s" else min(max(a, 0), (1 << n) - 1)


def _whole(a: float, t: str, source: str, mode: str) -> int:
    if math.isnan(a):  # the manual: zero, but the top bit where either type has 64 bits
        return 1 << (bits_of(t) - 1) if source == "f64" or t[1:] == "64" else 0
    return floats.to_integer(a, t, mode)


for d, s in itertools.permutations((*INTEGERS, "u8", "s8"), 2):
    if bits_of(d) == bits_of(s) == 8:
        continue
    row(f"cvt.{d}.{s}", d, s, lambda a: a)
    row(f"cvt.sat.{d}.{s}", d, s, lambda a, d=d: _clamped(a, d))
for t, s in itertools.product(("f32", "f64", "f16"), INTEGERS):
    for mode in ("rn", "rz", "rm", "rp") if t != "f16" else ("rn",):
        row(f"cvt.{mode}.{t}.{s}", t, s, lambda a, t=t, m=mode: floats.rounded(floats.Fraction(a), False, t, m))
    for mode in ("rni", "rzi", "rmi", "rpi"):
        row(f"cvt.{mode}.{s}.{t}", s, t, lambda a, d=s, t=t, m=mode: _whole(a, d, t, m))
for d, s in (("f64", "f32"), ("f32", "f16"), ("f64", "f16")):
    row(f"cvt.{d}.{s}", d, s, lambda a, d=d: floats.of_float(a, d))
    for mode in ("rn", "rz", "rm", "rp") if (d, s) == ("f64", "f32") else ("rn",):
        row(f"cvt.{mode}.{s}.{d}", s, d, lambda a, s=s, m=mode: floats.of_float(a, s, m))

# Floats become integers' bits by a sequence in which every NaN is one NaN: which one arithmetic makes is the host's.
for t in ("f16", "f32", "f64"):
    row(f"bits.{t}", f"b{bits_of(t)}", t, lambda a, t=t: floats.of_float(a, t))
    row(f"from_bits.{t}", t, f"b{bits_of(t)}", lambda a: a)
