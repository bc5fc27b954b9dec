"""The canonical product in its plainest form: Python scalars, exact rationals, one rounding function.

Slow on purpose. Every other implementation is compared with this one, so nothing is shared with them.

Source: IEEE 754-2019, sections 4.3.1 (roundTiesToEven), 5.4.1 (fusedMultiplyAdd), 6.3 (the sign of zero) and
7.4 (overflow).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.problem.dtypes import Dtype, common
from tilewright.problem.problem import Problem


def round_to(value: Fraction, format_: Dtype) -> float:
    """The nearest value of a floating-point format, ties to even; infinity beyond the range.

    Examples
    --------
    >>> from tilewright.problem.dtypes import dtype
    >>> round_to(Fraction(1, 3), dtype("float16")) == float(np.float16(1 / 3))
    True
    >>> round_to(Fraction(65520), dtype("float16"))
    inf
    """
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    quantum = max(exponent, format_.emin) - (format_.precision - 1)
    steps = round(magnitude / Fraction(2) ** quantum)  # Python rounds halves of a Fraction to even
    rounded = math.inf if steps * Fraction(2) ** quantum > Fraction(format_.largest) else math.ldexp(steps, quantum)
    return -rounded if value < 0 else rounded


def fma(x: float, y: float, z: float, format_: Dtype) -> float:
    """`x * y + z` with one rounding to a format.

    Examples
    --------
    >>> from tilewright.problem.dtypes import dtype
    >>> fma(2.0**-30, 2.0**-30, 1.0, dtype("float32"))
    1.0
    >>> fma(-1.0, 0.0, -0.0, dtype("float32"))
    -0.0
    """
    if math.isnan(x) or math.isnan(y) or math.isnan(z):
        return math.nan
    negative = math.copysign(1.0, x) != math.copysign(1.0, y)
    if math.isinf(x) or math.isinf(y):
        product = -math.inf if negative else math.inf
        if 0.0 in (x, y) or (math.isinf(z) and z != product):
            return math.nan
        return product
    if math.isinf(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return -0.0 if negative and math.copysign(1.0, z) < 0 else 0.0
    rounded = round_to(exact, format_)
    return math.copysign(rounded, -1.0) if exact < 0 else rounded


def convert(value: float, format_: Dtype) -> float:
    """A value rounded to a format; zeros keep their sign, NaN and infinity stay.

    Examples
    --------
    >>> from tilewright.problem.dtypes import dtype
    >>> convert(-1e-30, dtype("float16"))
    -0.0
    """
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    return math.copysign(round_to(Fraction(value), format_), value)


def wrap(value: int, format_: Dtype) -> int:
    """An integer modulo 2^bits, in the type's own range.

    Examples
    --------
    >>> from tilewright.problem.dtypes import dtype
    >>> wrap(200, dtype("int8")), wrap(-1, dtype("uint8"))
    (-56, 255)
    """
    low = value & ((1 << format_.bits) - 1)
    return low - (1 << format_.bits) if format_.kind == "signed" and low >> (format_.bits - 1) else low


def canonical_scalar(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    *,
    acc_dtype: Dtype | npt.DTypeLike | None = None,
    out_dtype: Dtype | npt.DTypeLike | None = None,
    order: str = "fma",
) -> npt.NDArray[Any]:
    """Do what :func:`tilewright.problem.reference.canonical` does, one scalar at a time; same arguments and result.

    Examples
    --------
    >>> canonical_scalar(np.array([[1, 2]], np.int8), np.array([[3], [100]], np.int8))
    array([[-53]], dtype=int8)
    """
    problem = Problem.of(a, b, acc_dtype=acc_dtype, out_dtype=out_dtype)
    sum_ = _float_sum if problem.acc_dtype.is_float else _integer_sum
    kind = float if problem.acc_dtype.is_float else int
    rows = [[kind(x) for x in row] for row in a]
    columns = [[kind(x) for x in column] for column in b.T]
    out = np.zeros((problem.m, problem.n), problem.out_dtype.numpy)
    for i in range(problem.m):
        for j in range(problem.n):
            out[i, j] = sum_(rows[i], columns[j], problem, order)
    return out


def _float_sum(row: list[Any], column: list[Any], problem: Problem, order: str) -> float:
    operand, total = common(problem.a_dtype, problem.b_dtype), 0.0
    for x, y in zip(row, column, strict=True):
        if order == "fma":
            total = fma(x, y, total, problem.acc_dtype)
        else:
            # A product's zero keeps its sign only when nothing is added to it: -0 is the neutral element.
            total = fma(fma(x, y, -0.0, operand), 1.0, total, problem.acc_dtype)
    return convert(total, problem.out_dtype)


def _integer_sum(row: list[Any], column: list[Any], problem: Problem, order: str) -> int:
    total = 0
    for x, y in zip(row, column, strict=True):
        total = wrap(x * y + total, problem.acc_dtype)
    return wrap(total, problem.out_dtype)
