"""The canonical product, with which every kernel is compared, and error bounds for other orders of summation.

`c = fma(a[i, k], b[k, j], c)`, k ascending, from +0, in the accumulator dtype; then one rounding to the output dtype.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.native.compiler import Compiler
from tilewright.ground.native.functions import functions
from tilewright.ground.native.memo import memo
from tilewright.multiply.problem import narrow
from tilewright.multiply.problem.dtypes import Dtype, common, element, name_of
from tilewright.multiply.problem.problem import Problem

Array = npt.NDArray[Any]
Order = Literal["fma", "rounded-product"]

#: The values of `order`.
ORDERS = ("fma", "rounded-product")
#: Columns of C that the compiled loops (`ordered.c`) sum at once, each element with k ascending from 0. B and C are
#: padded to a multiple of it, and B is stored in panels of this width: rows a power of two apart would share few cache
#: sets.
_COLUMNS = 32
#: (dtype of operands and products, dtype of sums) that have compiled loops.
_COMPILED = (
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float64"),
    ("int32", "int32"),
    ("int64", "int64"),
)


def canonical(
    a: Array,
    b: Array,
    *,
    acc_dtype: Dtype | npt.DTypeLike | None = None,
    out_dtype: Dtype | npt.DTypeLike | None = None,
    order: Order = "fma",
) -> Array:
    """Multiply two matrices in the canonical order, bit for bit the same on every host.

    Parameters
    ----------
    a, b : ndarray, shapes (m, k) and (k, n)
        Both floating-point or both integer; any strides, any byte order.
    acc_dtype : dtype, optional
        Dtype of the running sums; by default the operands' accumulator (float32 for 16-bit floats, 32 bits for small
        integers). A floating-point one must hold the operands exactly.
    out_dtype : dtype, optional
        Dtype of the result; by default the operands'. Integers wrap modulo 2^bits, in the sums and in the result.
    order : {"fma", "rounded-product"}
        "fma" rounds once a step. "rounded-product" rounds each product to the operands' dtype, then adds it in the
        accumulator's: what `tmp += a * b` means to a compiler that does not contract it. Integer products are
        exact either way.

    Returns
    -------
    ndarray, shape (m, n), C order

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        Shapes or dtypes do not match.

    Examples
    --------
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> canonical(a, a.T)
    array([[ 5., 14.],
           [14., 50.]], dtype=float32)
    >>> canonical(np.array([[100]], np.int8), np.array([[3]], np.int8), out_dtype=np.int32)
    array([[300]], dtype=int32)
    """
    problem = _checked(a, b, acc_dtype, out_dtype, order)
    total = problem.acc_dtype
    if not total.is_float:
        machine = np.dtype(np.int64 if total.bytes == 8 else np.int32)
        sums = _sum(a.astype(machine), b.astype(machine), machine, fused=False)
        return sums.astype(total.numpy).astype(problem.out_dtype.numpy)
    product = total if order == "fma" else common(problem.a_dtype, problem.b_dtype)
    if (product.name, total.name) in _COMPILED:
        operands = a.astype(product.numpy), b.astype(product.numpy)
        return narrow.convert(_sum(*operands, total.numpy, fused=order == "fma"), problem.out_dtype)
    rounded = None if order == "fma" else product
    sums = narrow.sum_products(a.astype(np.float64), b.astype(np.float64), rounded, total)
    return narrow.convert(sums, problem.out_dtype)


def _checked(
    a: Array,
    b: Array,
    acc_dtype: Dtype | npt.DTypeLike | None,
    out_dtype: Dtype | npt.DTypeLike | None,
    order: str,
) -> Problem:
    problem = Problem.of(a, b, acc_dtype=acc_dtype, out_dtype=out_dtype)
    if order not in ORDERS:
        raise ArgumentValueError.of_name("`order`", order, ORDERS)
    for name, other in (("acc_dtype", problem.acc_dtype), ("out_dtype", problem.out_dtype)):
        if other.is_float != problem.a_dtype.is_float:
            raise ArgumentTypeError(
                f"`{name}` must be of the operands' kind, floating-point or integer (got {other.name} for "
                f"{problem.a_dtype.name} and {problem.b_dtype.name}); convert the operands or the result"
            )
    total, operand = problem.acc_dtype, common(problem.a_dtype, problem.b_dtype)
    if total.is_float and not total.holds(operand):
        raise ArgumentTypeError(
            f"`acc_dtype` must hold {operand.name} exactly (got {total.name}); give a wider one or convert the operands"
        )
    return problem


def _sum(a: Array, b: Array, total: np.dtype[Any], *, fused: bool, native: bool = True) -> Array:
    """Sums of products by the compiled loops; `a` and `b` of one dtype, in native byte order."""
    (m, k), n = a.shape, b.shape[1]
    padded = -(-n // _COLUMNS) * _COLUMNS
    rows = np.ascontiguousarray(a)
    wide = np.zeros((k, padded), b.dtype)
    wide[:, :n] = b
    panels = np.ascontiguousarray(wide.reshape(k, padded // _COLUMNS, _COLUMNS).swapaxes(0, 1))
    sums = np.empty((m, padded), total)
    loops = _kernel(b.dtype.name, total.name, fused=fused, native=native)
    loops(rows.ctypes.data, panels.ctypes.data, sums.ctypes.data, m, padded, k)
    return np.ascontiguousarray(sums[:, :n])


def same_bits(actual: Array, expected: Array) -> bool:
    """Whether two arrays have one shape, one dtype and the same bits; all NaNs count as one.

    Zeros of different sign differ. NaNs do not: processors differ in the NaN they make.

    >>> same_bits(np.array([np.nan, 0.0]), np.array([-np.nan, 0.0])), same_bits(np.array([0.0]), np.array([-0.0]))
    (True, False)
    """
    name = name_of(actual.dtype)
    if actual.shape != expected.shape or name != name_of(expected.dtype):
        return False
    record = element(name)
    actual, expected = (np.ascontiguousarray(x.astype(record.numpy, copy=False)) for x in (actual, expected))
    integer = np.dtype(f"uint{record.bits}")
    equal = actual.view(integer) == expected.view(integer)
    if record.is_float:
        equal |= np.isnan(actual) & np.isnan(expected)
    return bool(equal.all())


def mismatches(c: Array, expected: Array) -> int:
    """Count the elements whose bits differ; two NaNs are the same answer whatever their payloads."""
    if c.shape != expected.shape or c.dtype != expected.dtype:
        return expected.size
    differ = (c != expected) | (np.signbit(c) != np.signbit(expected) if c.dtype.kind == "f" else False)
    if c.dtype.kind == "f":
        differ &= ~(np.isnan(c) & np.isnan(expected))
    return int(np.count_nonzero(differ))


def gamma(k: int, roundoff: float) -> float:
    """Relative error of k roundings, `k u / (1 - k u)`; infinite where k u reaches 1.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1.
    """
    return k * roundoff / (1 - k * roundoff) if k * roundoff < 1 else np.inf


def error_bound(
    a: Array,
    b: Array,
    *,
    acc_dtype: Dtype | npt.DTypeLike | None = None,
    out_dtype: Dtype | npt.DTypeLike | None = None,
    flushes: bool = False,
) -> npt.NDArray[np.float64]:
    """The largest error of a product, in any order of summation, fused or not.

    Two results differ by at most twice this bound. Sums must be in the accumulator dtype, and products may not be
    rounded to a narrower one. If a sum could overflow, the bound is infinite.

    Parameters
    ----------
    a, b : ndarray, shapes (m, k) and (k, n)
        Finite values.
    acc_dtype, out_dtype : dtype, optional
        As for :func:`canonical`.
    flushes : bool
        Whether subnormal operands and sums count as 0, as in AMX's products of bfloat16. The error then includes the
        products of subnormal operands, and one smallest normal number for each of at most 2 k + 2 operations.

    Returns
    -------
    ndarray of float64, shape (m, n)
        Zeros for integers.

    Source: Higham, 2nd ed., section 3.1, equation (3.5): `|error| <= gamma_k |a| |b|`, with one smallest number for
    each product that underflows (section 2.8's model), and one rounding to the output dtype. Flushing: Intel 64 and
    IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS: two chains of 16 fused steps, an addition of
    both and one to the sum for every 32 products, rounded to nearest, subnormals taken for zeros.

    Examples
    --------
    >>> ones = np.ones((1, 4), np.float32)
    >>> bool(error_bound(ones, ones.T)[0, 0] < 1e-5)
    True
    """
    problem = _checked(a, b, acc_dtype, out_dtype, "fma")
    if not problem.acc_dtype.is_float:
        return np.zeros((problem.m, problem.n))
    total, out, k = problem.acc_dtype, problem.out_dtype, problem.k
    # The magnitudes are summed in float64; the bound includes its k + 1 roundings.
    slack = 1 + 2 * gamma(k + 1, 2.0**-53)
    magnitude = (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))) * slack
    summed = gamma(k, total.unit_roundoff)
    bound = summed * magnitude + k * total.smallest * (1 + summed)
    if flushes:
        bound = bound + (_lost(a, b, problem) + (2 * k + 2) * 2.0**total.emin) * (1 + summed)
    reached = magnitude + bound
    if out.precision < total.precision or not out.holds(total):
        bound = bound + out.unit_roundoff * reached + out.smallest
    reached = reached + bound
    bound[reached > min(total.largest, out.largest)] = np.inf
    return np.asarray(bound * slack)


def _lost(a: Array, b: Array, problem: Problem) -> npt.NDArray[np.float64]:
    """At least the sum of the magnitudes of all products with a subnormal factor."""
    left, right = np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))
    lost_left = np.where(left < 2.0**problem.a_dtype.emin, left, 0)
    lost_right = np.where(right < 2.0**problem.b_dtype.emin, right, 0)
    return np.asarray(lost_left @ right + left @ lost_right)


class _Kernel(Protocol):
    """`kernel(a, b, c, m, n, k)` on contiguous arrays given by address.

    a is (m, k), b is (n / _COLUMNS, k, _COLUMNS): panels of neighbouring columns; c is (m, n).
    """

    def __call__(self, a: int, b: int, c: int, m: int, n: int, k: int, /) -> None:
        """Fill c."""


@memo
def _baseline() -> Compiler:
    """A compiler that uses no instruction beyond the baseline."""
    return Compiler("")


def _kernel(product: str, total: str, *, fused: bool, native: bool = True) -> _Kernel:
    """The compiled function of one pair of dtypes.

    Products are rounded to the operands' dtype `product` unless `fused`: one rounding a step, of floats of one dtype.
    `native` allows instructions beyond the baseline.
    """
    loops = functions("tw_ordered_", Path(__file__).with_name("ordered.c"), target=None if native else _baseline())
    found: _Kernel = getattr(loops, f"{'fused' if fused else 'separate'}_{product}_{total}")
    return found


__all__ = ["ORDERS", "Order", "canonical", "error_bound", "gamma", "mismatches", "same_bits"]
