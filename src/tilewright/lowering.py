"""Products that are made of others: complex ones of mixed precision, booleans, and dtypes that the kernels do not read.

Complex, canonical: for k ascending, ``re = fma(x.re, y.re, re); re = fma(x.im, -y.im, re)`` and
``im = fma(x.re, y.im, im); im = fma(x.im, y.re, im)``, from +0. That is the real canonical product of A's numbers taken
as pairs, (m, 2k), by B's numbers taken as 2 x 2 matrices [[re, im], [-im, re]], (2k, 2n), which B is packed as: so its
bits depend on threads, tiles and batches as little as a real product's.

Booleans: or over k of (a and b), which is whether the count of pairs that are both set is not 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cpu.product import multiply_into
from tilewright.planning import Types, byte_kind

Array = npt.NDArray[Any]


def compute(a: Array, b: Array, out: Array, types: Types, threads: int) -> None:
    """Compute a b for arrays of 2 dimensions or more; `out` has the result's dtype and no bytes of the operands."""
    if out.size == 0:
        return
    if types.lowering == "bool":
        _booleans(a, b, out, threads)
        return
    if types.lowering == "complex" and types.accumulator != types.result:
        sums: Array = np.empty(out.shape, types.accumulator)
        compute(a, b, sums, Types(*(types.accumulator,) * 4, "complex"), threads)
        out[...] = sums
        return
    left, right = (x if x.dtype == y else x.astype(y) for x, y in ((_plain(a), types.a), (_plain(b), types.b)))
    multiply_into(left, right, out, types.kind, threads)


def _plain(x: Array) -> Array:
    """Booleans as the bytes they are."""
    return x.view(np.uint8) if x.dtype.kind == "b" else x


def _booleans(a: Array, b: Array, out: Array, threads: int) -> None:
    kind = byte_kind(a.shape[-1])
    counts: Array = np.empty(out.shape, kind.out)
    multiply_into(_plain(a), _plain(b), counts, kind, threads)
    np.not_equal(counts, 0, out=out)
