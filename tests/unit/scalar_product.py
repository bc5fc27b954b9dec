"""The canonical product in its plainest form: Python scalars, exact rationals, one rounding function.

Slow on purpose. Every other implementation is compared with this one, so nothing but the rounding is shared with them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem.dtypes import Dtype, common
from tilewright.multiply.problem.exact import fma, round_to
from tilewright.multiply.problem.problem import Problem


def convert(value: float, format_: Dtype) -> float:
    """A value rounded to a format; zeros keep their sign, NaN and infinity stay, where the format has one.

    Examples
    --------
    >>> from tilewright.multiply.problem.dtypes import dtype
    >>> convert(-1e-30, dtype("float16"))
    -0.0
    """
    if math.isinf(value) and not format_.infinite:
        return math.nan
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    return math.copysign(round_to(Fraction(value), format_), value)


def wrap(value: int, format_: Dtype) -> int:
    """An integer modulo 2^bits, in the type's own range.

    Examples
    --------
    >>> from tilewright.multiply.problem.dtypes import dtype
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
    """Do what :func:`tilewright.multiply.problem.reference.canonical` does, one scalar at a time, with its arguments.

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
