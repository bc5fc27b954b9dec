"""Products computed by other products: mixed-precision complex, booleans, and dtypes that kernels do not read.

Complex, canonical: for k ascending, ``re = fma(x.re, y.re, re); re = fma(x.im, -y.im, re)`` and ``im = fma(x.re, y.im,
im); im = fma(x.im, y.re, im)``, from +0. That is a real canonical product. A's numbers are read as pairs, (m, 2k); B's
are packed as 2 x 2 matrices [[re, im], [-im, re]], (2k, 2n). So its bits, like those of a real product, do not depend
on threads, tiles or batches.

Booleans: or over k of (a and b), which is true if the count of k with both set is not 0. Devices with units for bits
multiply booleans directly. Other devices use words of 32 for large products and for other algebras.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.backends.protocol import Backend, require
from tilewright.multiply.engine.fusing import Fused
from tilewright.multiply.engine.promotion import Types, byte_kind, real_kind, truth_kind, word_kind
from tilewright.multiply.problem.algebra import WORD, Semiring, semiring
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.narrow import rounded

Array = npt.NDArray[Any]
#: Least rows and columns, and multiply-adds, at which packing booleans in words saves more time than it takes.
_WORDS_SIDE, _WORDS_WORK = 64, 1 << 25
#: Booleans of a matrix that are unpacked from words at a time, a byte each.
UNPACKED_BYTES = 1 << 20


def compute(
    a: Array,
    b: Array,
    out: Array,
    types: Types,
    threads: int,
    algebra: Semiring | None = None,
    fused: Fused | None = None,
    more: Sequence[Array] = (),
    *,
    device: Backend,
    continues: bool = False,
) -> None:
    """Compute a b; a 1-D `a` is a row, a 1-D `b` a column.

    `out` has 2 dimensions or more and the result's dtype, and shares no bytes with the operands. `more` are the
    operands of `fused`, of its shape. If it `continues`, the sums continue those in `out`. Then `out` has the dtype of
    the accumulator's register, or booleans as words, and rows in C order.

    Raises DeviceError: the device cannot make such a product.
    """
    if out.size == 0:
        return
    if a.ndim == 1:
        a = a[None, :]
    if b.ndim == 1:
        b = b[:, None]
    if types.lowering in ("bool", "words"):
        a, b = (x if x.dtype.kind == "b" else x != 0 for x in (a, b))
        if not continues and not device.refusal(kind := truth_kind(algebra)):
            _multiply(device, a, b, out, kind, threads)
            return
    if algebra is not None and types.lowering == "words":
        _words(a, b, out, word_kind(algebra)._replace(continues=continues), threads, device)
        return
    if types.lowering == "bool":
        _booleans(a, b, out, threads, device)
        return
    if types.lowering == "complex" and types.accumulator != types.result:
        sums: Array = np.empty(out.shape, types.accumulator)
        compute(a, b, sums, Types(*(types.accumulator,) * 4, "complex"), threads, device=device)
        out[...] = sums
        return
    left, right = (rounded(x, y) for x, y in ((_plain(a), types.a), (_plain(b), types.b)))
    kind = real_kind(types, algebra, None if fused is None else fused.signature)
    _multiply(device, left, right, out, kind._replace(continues=continues), threads, more)


def _multiply(
    device: Backend, a: Array, b: Array, out: Array, kind: Kind, threads: int, more: Sequence[Array] = ()
) -> None:
    require(device, kind)
    device.multiply_into(a, b, out, kind, threads, more)


def _plain(x: Array) -> Array:
    """Booleans as bytes of 0 and 1; a view of other bytes may hold other values."""
    if x.dtype.kind != "b":
        return x
    found: Array = x.view(np.uint8)
    return found if found.max(initial=0) <= 1 else (found != 0).view(np.uint8)


def _booleans(a: Array, b: Array, out: Array, threads: int, device: Backend) -> None:
    words = word_kind(semiring("or-and", "bool").in_words())
    large = min(out.shape[-2:]) >= _WORDS_SIDE and out.size * a.shape[-1] >= _WORDS_WORK
    if large and not device.refusal(words):
        _words(a, b, out, words, threads, device)
        return
    kind = byte_kind(a.shape[-1])
    counts: Array = np.empty(out.shape, kind.out)
    _multiply(device, _plain(a), _plain(b), counts, kind, threads)
    np.not_equal(counts, 0, out=out)


def _words(a: Array, b: Array, out: Array, kind: Kind, threads: int, device: Backend) -> None:
    """Multiply booleans by an algebra: rows of B and C in words of 32, each element of A as a word of equal bits.

    Packing along strided columns takes longer than a product of few columns, so A is packed in B's place only if its
    columns are contiguous.
    """
    if a.strides[-2] == 1 != a.strides[-1] and (out.shape[-1] < out.shape[-2] or b.strides[-1] != 1):
        b, a, out = (x.swapaxes(-1, -2) for x in (a, b, out))
        flipped = None if kind.algebra is None else kind.algebra.flipped()
        _words(a, b, out, kind._replace(algebra=flipped), threads, device)
        return
    n = out.shape[-1]
    found = _packed(out) if kind.continues else np.empty((*out.shape[:-1], -(-n // 32)), WORD)
    _multiply(device, _plain(a), _packed(b), found, kind, threads)
    step = max(1, UNPACKED_BYTES // n)
    for i in range(0, found.shape[-2], step):
        rows = (..., slice(i, i + step), slice(None))
        out[rows] = np.unpackbits(found[rows].view(np.uint8), axis=-1, count=n, bitorder="little")


def _packed(x: Array) -> Array:
    """Rows of booleans in words of 32, padded with zeros."""
    n = x.shape[-1]
    found: Array = np.zeros((*x.shape[:-1], 4 * -(-n // 32)), np.uint8)
    found[..., : -(-n // 8)] = np.packbits(x, axis=-1, bitorder="little")
    return found.view(WORD)
