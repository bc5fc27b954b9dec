"""The primitive operations of elementwise expressions: THE table.

A row gives an operation's number and kinds of operands, its result's dtype, its meaning (a NumPy function) and its LLVM
and C text. All other functions, even the exponential, are expressions over these rows, so they have the same bits from
NumPy, at any vector width and on any host.

The dtypes of expressions are those of `letter`. float16 and bfloat16 are operands and results; arithmetic on them is in
float32.

LLVM texts are lines; the last one's value is the result. In them T is the operands' type, R the result's, M the type of
a truth value, S the type's name inside an intrinsic's; Z, O, A and Q are 0, 1, all bits set and NaN; $0 is the first
operand, #0 the first line's value.

C texts are OpenCL C's expressions. In them T is the operands' type, and U the unsigned type of at least 32 bits in
which integers wrap: signed ones may not overflow, and short ones are computed as `int`. DIVIDE and SQUARE_ROOT are
rounded correctly, which OpenCL's own need not be.

Source: LLVM Language Reference; OpenCL 1.2 Specification, sections 6.3 and 6.12; IEEE 754-2019 for each operation, and
section 9.6 of it for what NaN does to minima.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem import exact
from tilewright.multiply.problem.dtypes import dtype, element
from tilewright.multiply.problem.narrow import add_to_odd, convert

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Primitive:
    """One operation."""

    name: str
    arity: int
    #: Letters of the operands' dtypes: f, s, u, b for floats, signed and unsigned integers, booleans.
    kinds: str
    result: str  #: The result's dtype: "same" or "bool".
    meaning: Callable[..., Any]  #: A function of arrays of one dtype.
    llvm: dict[str, tuple[str, ...]]  #: LLVM lines by letters of dtypes.
    c: dict[str, str]  #: C expressions by letters of dtypes.

    def lines(self, kind: str) -> tuple[str, ...]:
        """The LLVM lines for a kind of operand."""
        return next(lines for letters, lines in self.llvm.items() if kind in letters)

    def c_text(self, kind: str) -> str:
        """The C expression for a kind of operand."""
        return next(text for letters, text in self.c.items() if kind in letters)


@functools.lru_cache(maxsize=64)
def letter(name: str) -> str:
    """The kind of a dtype, as a letter.

    >>> letter("float32"), letter("uint8"), letter("bool")
    ('f', 'u', 'b')
    """
    return element(name).kind[0]


def _minimum(x: Array, y: Array) -> Array:
    return np.where(np.isnan(y), y, np.where(y < x, y, x)) if x.dtype.kind == "f" else np.minimum(x, y)


def _maximum(x: Array, y: Array) -> Array:
    return np.where(np.isnan(y), y, np.where(y > x, y, x)) if x.dtype.kind == "f" else np.maximum(x, y)


def _quotient(x: Array, y: Array) -> Array:
    safe = np.where(y == 0, np.ones_like(y), y)
    down = np.floor_divide(x, safe)
    rest = x - down * safe
    inexact = (rest != 0) & ((x < 0) != (safe < 0))
    return np.where(y == 0, np.zeros_like(x), down + inexact.astype(x.dtype))


def _fma(x: Array, y: Array, z: Array) -> Array:
    """One rounding: through float64 rounded to odd for float32; exact rationals for float64."""
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype == np.float32:
        wide = [v.astype(np.float64) for v in (x, y, z)]
        return convert(add_to_odd(np.asarray(wide[0] * wide[1]), wide[2]), dtype("float32"))
    return _fma_double(x, y, z)


def _split(x: Array) -> tuple[Array, Array]:
    """Two halves of 26 bits. Source: Dekker, A floating-point technique for extending the available precision, 1971."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _fma_double(x: Array, y: Array, z: Array) -> Array:
    """Emulated with doubles if no step can overflow or lose bits, else by exact rationals.

    Source: Boldo, Melquiond, Emulation of FMA and correctly rounded sums, 2008, algorithm Fma.
    """
    product = x * y
    (xh, xl), (yh, yl) = _split(x), _split(y)
    low = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    upper = z + low
    part = upper - z
    lower = (z - (upper - part)) + (low - part)
    total = product + upper
    part = total - product
    rest = (product - (total - part)) + (upper - part)
    found = total + add_to_odd(np.asarray(rest), np.asarray(lower))
    sizes = [np.abs(v) for v in (x, y, z, product)]
    plain = np.logical_and.reduce([v < 1e100 for v in sizes] + [v > 1e-100 for v in sizes[:2] + sizes[3:]])
    plain &= (z == 0) | (sizes[2] > 1e-100)
    nothing = ((x == 0) | (y == 0)) & (sizes[3] == 0)
    found = np.where(nothing, product + z, np.where(plain, found, 0.0))
    plain |= nothing
    form = dtype("float64")
    for index in zip(*np.nonzero(~plain), strict=True):
        found[index] = exact.fma(float(x[index]), float(y[index]), float(z[index]), form)
    return found


def _float(text: str) -> dict[str, tuple[str, ...]]:
    return {"f": (f"call T @llvm.{text}.S(T $0)",)}


def _order(relation: str) -> dict[str, tuple[str, ...]]:
    return {
        "f": (f"fcmp o{relation} T $0, $1",),
        "s": (f"icmp s{relation} T $0, $1",),
        "u": (f"icmp u{relation} T $0, $1",),
    }


def _extreme(name: str, relation: str, logic: str) -> dict[str, tuple[str, ...]]:
    # With $1 in place of Q in the last select, LLVM would merge both selects into a slower one with two masks.
    floats = (f"fcmp o{relation} T $1, $0", "select M #0, T $1, T $0", "fcmp uno T $1, $1", "select M #2, T Q, T #1")
    return {
        "f": floats,
        "s": (f"call T @llvm.s{name}.S(T $0, T $1)",),
        "u": (f"call T @llvm.u{name}.S(T $0, T $1)",),
        "b": (f"{logic} T $0, $1",),
    }


_TRUNCATED = tuple(
    "icmp eq T $1, Z; icmp eq T $1, A; or M #0, #1; select M #2, T O, T $1; sdiv T $0, #3; sub T Z, $0; "
    "select M #1, T #5, T #4; select M #0, T Z, T #6".split("; ")
)


def _wrapped(operator: str) -> dict[str, str]:
    return {"f": f"$0 {operator} $1", "su": f"(T)((U)$0 {operator} (U)$1)"}


def _logic(operator: str) -> dict[str, str]:
    return {"sub": f"(T)($0 {operator} $1)"}


def _chosen(relation: str, logic: str) -> dict[str, str]:
    return {
        "f": f"(isnan($1) ? (T)NAN : $1 {relation} $0 ? $1 : $0)",
        "su": f"($1 {relation} $0 ? $1 : $0)",
        "b": f"(T)($0 {logic} $1)",
    }


#: Every operation. `constant` and `parameter` have no operands, `cast` and `bits` state their result; see `expression`.
PRIMITIVES: dict[str, Primitive] = {
    row.name: row
    for row in (
        Primitive("add", 2, "fsu", "same", np.add, {"f": ("fadd T $0, $1",), "su": ("add T $0, $1",)}, _wrapped("+")),
        Primitive(
            "subtract", 2, "fsu", "same", np.subtract, {"f": ("fsub T $0, $1",), "su": ("sub T $0, $1",)}, _wrapped("-")
        ),
        Primitive(
            "multiply", 2, "fsu", "same", np.multiply, {"f": ("fmul T $0, $1",), "su": ("mul T $0, $1",)}, _wrapped("*")
        ),
        Primitive("divide", 2, "f", "same", np.divide, {"f": ("fdiv T $0, $1",)}, {"f": "DIVIDE(T, $0, $1)"}),
        # Towards zero; a divisor of 0 gives 0, and the smallest integer by -1 gives itself.
        Primitive(
            "quotient",
            2,
            "su",
            "same",
            _quotient,
            {
                "s": _TRUNCATED,
                "u": ("icmp eq T $1, Z", "select M #0, T O, T $1", "udiv T $0, #1", "select M #0, T Z, T #2"),
            },
            {
                "s": "($1 == 0 ? (T)0 : $1 == -1 ? (T)(0 - (U)$0) : (T)($0 / $1))",
                "u": "($1 == 0 ? (T)0 : (T)($0 / $1))",
            },
        ),
        Primitive(
            "negative",
            1,
            "fsu",
            "same",
            np.negative,
            {"f": ("fneg T $0",), "su": ("sub T Z, $0",)},
            {"f": "-$0", "su": "(T)(0 - (U)$0)"},
        ),
        Primitive(
            "absolute",
            1,
            "fs",
            "same",
            np.absolute,
            {"f": ("call T @llvm.fabs.S(T $0)",), "s": ("call T @llvm.abs.S(T $0, i1 false)",)},
            {"f": "fabs($0)", "s": "($0 < 0 ? (T)(0 - (U)$0) : $0)"},
        ),
        # NaN if either is; else the second where it is strictly beyond the first, so of two zeros the first.
        Primitive("minimum", 2, "fsub", "same", _minimum, _extreme("min", "lt", "and"), _chosen("<", "&&")),
        Primitive("maximum", 2, "fsub", "same", _maximum, _extreme("max", "gt", "or"), _chosen(">", "||")),
        Primitive("less", 2, "fsu", "bool", np.less, _order("lt"), {"fsu": "$0 < $1"}),
        Primitive("less_equal", 2, "fsu", "bool", np.less_equal, _order("le"), {"fsu": "$0 <= $1"}),
        Primitive(
            "equal",
            2,
            "fsub",
            "bool",
            np.equal,
            {"f": ("fcmp oeq T $0, $1",), "sub": ("icmp eq T $0, $1",)},
            {"fsub": "$0 == $1"},
        ),
        Primitive(
            "not_equal",
            2,
            "fsub",
            "bool",
            np.not_equal,
            {"f": ("fcmp une T $0, $1",), "sub": ("icmp ne T $0, $1",)},
            {"fsub": "$0 != $1"},
        ),
        Primitive("bitwise_and", 2, "sub", "same", np.bitwise_and, {"sub": ("and T $0, $1",)}, _logic("&")),
        Primitive("bitwise_or", 2, "sub", "same", np.bitwise_or, {"sub": ("or T $0, $1",)}, _logic("|")),
        Primitive("bitwise_xor", 2, "sub", "same", np.bitwise_xor, {"sub": ("xor T $0, $1",)}, _logic("^")),
        Primitive("invert", 1, "sub", "same", np.invert, {"sub": ("xor T $0, A",)}, {"su": "(T)~$0", "b": "!$0"}),
        # The amount is a constant below the width.
        Primitive("left_shift", 2, "su", "same", np.left_shift, {"su": ("shl T $0, $1",)}, {"su": "(T)((U)$0 << $1)"}),
        Primitive(
            "right_shift",
            2,
            "su",
            "same",
            np.right_shift,
            {"s": ("ashr T $0, $1",), "u": ("lshr T $0, $1",)},
            {"su": "(T)($0 >> $1)"},
        ),
        # The first operand is a boolean, T the type of the others.
        Primitive(
            "where", 3, "fsub", "same", np.where, {"fsub": ("select M $0, T $1, T $2",)}, {"fsub": "$0 ? $1 : $2"}
        ),
        Primitive(
            "fma", 3, "f", "same", _fma, {"f": ("call T @llvm.fma.S(T $0, T $1, T $2)",)}, {"f": "fma($0, $1, $2)"}
        ),
        Primitive("sqrt", 1, "f", "same", np.sqrt, _float("sqrt"), {"f": "SQUARE_ROOT(T, $0)"}),
        Primitive("floor", 1, "f", "same", np.floor, _float("floor"), {"f": "floor($0)"}),
        Primitive("ceil", 1, "f", "same", np.ceil, _float("ceil"), {"f": "ceil($0)"}),
        Primitive("trunc", 1, "f", "same", np.trunc, _float("trunc"), {"f": "trunc($0)"}),
        Primitive("round", 1, "f", "same", np.rint, _float("roundeven"), {"f": "rint($0)"}),
    )
}


def cast(values: Array, to: str) -> Array:
    """Cast values: floats round once, and saturate to integers, NaN to 0; integers wrap; to bool any but 0 is true.

    An integer is converted to a float narrower than float32 through float64.

    >>> cast(np.array([300.7, -1.5, np.nan]), "uint8").tolist()
    [255, 0, 0]
    >>> cast(np.array([300, -1]), "int8").tolist()
    [44, -1]
    """
    if to == "bool":
        return np.asarray(values != 0)
    target = dtype(to)
    if target.carried is not None and values.dtype.kind in "iu":
        values = values.astype(np.float64)
    if values.dtype.kind == "b" or target.is_float:
        return convert(values, target) if values.dtype.kind != "b" else values.astype(target.numpy)
    if values.dtype.kind not in "fV":
        return values.astype(target.numpy)
    info, wide = np.iinfo(to), values.astype(np.float64)
    beyond = float(int(info.max) + 1)  # a power of two
    inside = np.where((wide > info.min) & (wide < beyond), wide, 0.0).astype(target.numpy)
    found = np.where(wide >= beyond, target.numpy.type(info.max), inside)
    return np.asarray(np.where(wide <= float(info.min), target.numpy.type(info.min), found))


def bits(values: Array, to: str) -> Array:
    """The value's bits as another dtype of the width."""
    return values.view(dtype(to).numpy)
