"""The products that kernels must give, by NumPy alone: a borrowed machine may have no LLVM that reads our bitcode."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tilewright.ladder import operands
from tilewright.multiply.problem import narrow
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.reference import mismatches

#: Veltkamp's factor for float64. Source: Dekker, A floating-point technique for extending the available precision,
#: Numerische Mathematik 18, 1971.
_SPLIT = 2.0**27 + 1


def wrong_elements(record: Any, c: np.ndarray, dtype: str, shape: tuple[int, int, int]) -> int:
    """The number of elements of a product of the ladder's operands that are not what a kernel's record promises."""
    if record.bound is not None:
        return int(record.bound.outside(c, *operands(*shape, dtype)))
    return mismatches(c, expected(dtype, shape, record.order))


@functools.lru_cache(maxsize=64)
def expected(dtype: str, shape: tuple[int, int, int], order: str = "fma") -> np.ndarray:
    """The product of the ladder's operands, bit for bit; of finite values far from the formats' ends."""
    a, b = operands(*shape, dtype)
    kind = element(dtype)
    if kind.kind == "bool":
        return np.asarray(a.astype(np.int64) @ b.astype(np.int64) != 0)
    if not kind.is_float:
        return np.asarray((a.astype(np.int64) @ b.astype(np.int64)).astype(element(kind.product).numpy))
    if dtype == "float64":
        return _fused_doubles(a, b)
    rounded = element(dtype) if order == "rounded-product" else None
    total = element("float64" if rounded else kind.accumulator)
    sums = narrow.sum_products(a.astype(np.float64), b.astype(np.float64), rounded, total)
    return narrow.convert(sums, element(dtype if rounded else kind.product))


def _fused_doubles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums of float64 products, rounded once a step: the exact product in two parts, then both added to odd.

    Source: Boldo, Melquiond, Emulation of FMA and correctly rounded sums, IEEE Transactions on Computers 57(4), 2008.
    """
    sums = np.zeros((len(a), b.shape[1]))
    for step in range(a.shape[1]):
        x, y = a[:, step, None], b[None, step, :]
        high = x * y
        (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
        low = x_low * y_low - (((high - x_high * y_high) - x_low * y_high) - x_high * y_low)
        part, rest = _exact_sum(sums, low)
        total, more = _exact_sum(high, part)
        sums = total + narrow.add_to_odd(more, rest)
    return sums


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number as two of half its digits."""
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def _exact_sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and its error. Source: Knuth, TAOCP volume 2, section 4.2.2, theorem B."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)
