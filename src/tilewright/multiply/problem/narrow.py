"""Correct rounding where NumPy would round twice: sums in 16-bit formats, and float64 to bfloat16.

A value is first rounded to the wide format to odd: an exact value stays, any other becomes the neighbour with an odd
significand. A second rounding, to a format at least two bits narrower, then gives the same as a single rounding.

Source: Boldo, Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd,
IEEE Transactions on Computers 57(4), 2008. The exact error of a sum: Knuth, TAOCP volume 2, section 4.2.2, theorem B.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem.dtypes import Dtype, extends_numpy

Doubles = npt.NDArray[np.float64]
#: Values that are converted to a format of ml_dtypes at a time, and temporary bytes for each.
ROUNDED_AT_ONCE, ROUNDED_BYTES = 1 << 14, 32


def add_to_odd(x: Doubles, y: Doubles) -> Doubles:
    """`x + y` in float64, rounded to odd; non-finite sums stay."""
    with np.errstate(all="ignore"):
        total = x + y
        part = total - x
        error = (x - (total - part)) + (y - part)
    inexact = np.isfinite(total) & (error != 0)
    # Towards zero first, then the last bit set: of the two neighbours, the odd one.
    outside = inexact & ((error < 0) != (total < 0))
    bits = total.view(np.int64) - outside
    odd: Doubles = np.where(inexact, bits | 1, bits).view(np.float64)
    return odd


def to_float32_odd(values: Doubles) -> npt.NDArray[np.float32]:
    """float64 to float32, rounded to odd."""
    with np.errstate(all="ignore"):
        rounded = values.astype(np.float32)
        inexact = np.isfinite(values) & (rounded.astype(np.float64) != values)
        outside = inexact & (np.abs(rounded.astype(np.float64)) > np.abs(values))
    bits = rounded.view(np.int32) - outside.astype(np.int32)
    odd: npt.NDArray[np.float32] = np.where(inexact, bits | 1, bits).view(np.float32)
    return odd


def rounded(values: npt.NDArray[Any], wanted: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array as another dtype, each value rounded once, without warnings; the array itself if it has that dtype.

    NumPy's own casts from float64 to ml_dtypes' floats round twice, through float32.

    >>> import ml_dtypes
    >>> float(rounded(np.array(1 + 2**-8 + 2**-40), np.dtype(ml_dtypes.bfloat16)))
    1.0078125
    """
    with np.errstate(all="ignore"):
        if values.dtype == np.float64 and extends_numpy(wanted.name):
            return _of_doubles(values, wanted)
        return values.astype(wanted, copy=False)


def _of_doubles(values: Doubles, wanted: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert in parts, since rounding to odd makes several copies."""
    steps = np.nditer(
        [values, None],
        ["external_loop", "buffered", "zerosize_ok"],
        [["readonly"], ["writeonly", "allocate"]],
        [values.dtype, wanted],
        buffersize=ROUNDED_AT_ONCE,
    )
    with steps:
        for part, result in steps:
            result[...] = to_float32_odd(np.asarray(part)).astype(wanted)
        return steps.operands[1]


def convert(values: npt.NDArray[Any], out: Dtype) -> npt.NDArray[Any]:
    """An array rounded once to a dtype; integers wrap.

    >>> from tilewright.multiply.problem.dtypes import dtype
    >>> convert(np.array([300, -1]), dtype("uint8"))
    array([ 44, 255], dtype=uint8)
    """
    return rounded(values, out.numpy)


def sum_products(a: npt.NDArray[Any], b: npt.NDArray[Any], product: Dtype | None, total: Dtype) -> npt.NDArray[Any]:
    """Sum products in ascending k, each step rounded to `total`, for operands of at most 24 significand bits.

    `a` and `b` are float16, bfloat16 or float32, as float64, of shapes (m, k) and (k, n). Each product is rounded to
    `product` first; None fuses. `total`, the accumulator, is float16, bfloat16 or float32 (any, when products are
    rounded).
    """
    sums = np.zeros((a.shape[0], b.shape[1]))
    for step in range(a.shape[1]):
        with np.errstate(all="ignore"):
            products = a[:, step, None] * b[None, step, :]  # exact: twice 24 bits fit in 53
        if product is not None:
            products = convert(products, product).astype(np.float64)
        if total.name == "float64":
            with np.errstate(all="ignore"):
                sums = sums + products
        else:
            sums = convert(add_to_odd(sums, products), total).astype(np.float64)
    return convert(sums, total)
