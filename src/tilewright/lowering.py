"""Products that are made of real ones: complex numbers, booleans, and dtypes that the kernels do not read.

Complex, canonical: for k ascending, ``re = fma(x.re, y.re, re); re = fma(x.im, -y.im, re)`` and
``im = fma(x.re, y.im, im); im = fma(x.im, y.re, im)``, from +0. That is the real canonical product of A's numbers taken
as pairs, (m, 2k), by B's numbers taken as 2 x 2 matrices [[re, im], [-im, re]], (2k, 2n): so it is computed, and so its
bits depend on threads, tiles and batches as little as a real product's.

Booleans: or over k of (a and b), which is whether the count of pairs that are both set is not 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cpu.product import Kind, multiply_into
from tilewright.planning import Types, byte_kind

Array = npt.NDArray[Any]
#: Bytes of B's 2 x 2 matrices made at a time.
_PAIRS_BYTES = 8 << 20


def compute(a: Array, b: Array, out: Array, types: Types, threads: int) -> None:
    """Compute a b for arrays of 2 dimensions or more; `out` has the result's dtype and no bytes of the operands."""
    if out.size == 0:
        return
    if types.lowering == "bool":
        _booleans(a, b, out, threads)
        return
    left, right = (x if x.dtype == y else x.astype(y) for x, y in ((_plain(a), types.a), (_plain(b), types.b)))
    if types.lowering == "complex":
        _complexes(left, right, out, types.kind, threads)
    else:
        multiply_into(left, right, out, types.kind, threads)


def _plain(x: Array) -> Array:
    """Booleans as the bytes they are."""
    return x.view(np.uint8) if x.dtype.kind == "b" else x


def _booleans(a: Array, b: Array, out: Array, threads: int) -> None:
    kind = byte_kind(a.shape[-1])
    counts: Array = np.empty(out.shape, kind.out)
    multiply_into(_plain(a), _plain(b), counts, kind, threads)
    np.not_equal(counts, 0, out=out)


def _complexes(a: Array, b: Array, out: Array, kind: Kind, threads: int) -> None:
    """Row-major parts of C at a time, as many columns of B as the buffer of 2 x 2 matrices holds."""
    if out.strides[-1] != out.itemsize and out.shape[-1] > 1:
        whole: Array = np.empty(out.shape, out.dtype)
        _complexes(a, b, whole, kind, threads)
        out[...] = whole
        return
    matrix_bytes = 4 * b.shape[-2] * b.shape[-1] * (b.itemsize // 2)
    if out.ndim > 2 and matrix_bytes * int(np.prod(b.shape[:-2])) > _PAIRS_BYTES:
        for i in range(out.shape[0]):
            _complexes(_at(a, i, out.ndim), _at(b, i, out.ndim), out[i], kind, threads)
        return
    pairs = _pairs(a)
    columns = max(1, min(b.shape[-1], _PAIRS_BYTES * b.shape[-1] // max(matrix_bytes, 1))) if out.ndim == 2 else None
    for j in range(0, b.shape[-1], columns or b.shape[-1]):
        end = j + (columns or b.shape[-1])
        multiply_into(pairs, _matrices(b[..., j:end]), _pairs(out[..., j:end]), kind, threads)


def _at(x: Array, i: int, depth: int) -> Array:
    """One entry of the outermost batch axis of an operand that may lack or repeat it."""
    if x.ndim < depth:
        return x
    entry: Array = x[i if x.shape[0] > 1 else 0]
    return entry


def _pairs(x: Array) -> Array:
    """Rows of complex numbers as rows of twice as many real ones, over the same memory where they follow each other."""
    x = x if x.strides[-1] == x.itemsize or x.shape[-1] == 1 else np.ascontiguousarray(x)
    real = x.real  # the same memory, in steps of a complex number
    shape, strides = (*x.shape[:-1], 2 * x.shape[-1]), (*x.strides[:-1], real.itemsize)
    return np.lib.stride_tricks.as_strided(real, shape, strides)


def _matrices(b: Array) -> Array:
    """Every number of B as a 2 x 2 matrix of real ones."""
    real = np.dtype(f"f{b.itemsize // 2}")
    made: Array = np.empty((*b.shape[:-2], b.shape[-2], 2, b.shape[-1], 2), real)
    made[..., 0, :, 0] = b.real
    made[..., 0, :, 1] = b.imag
    np.negative(b.imag, out=made[..., 1, :, 0])
    made[..., 1, :, 1] = b.real
    reshaped: Array = made.reshape(*b.shape[:-2], 2 * b.shape[-2], 2 * b.shape[-1])
    return reshaped
