"""Products that are made of others: complex ones of mixed precision, booleans, and dtypes that the kernels do not read.

Complex, canonical: for k ascending, ``re = fma(x.re, y.re, re); re = fma(x.im, -y.im, re)`` and
``im = fma(x.re, y.im, im); im = fma(x.im, y.re, im)``, from +0. That is the real canonical product of A's numbers taken
as pairs, (m, 2k), by B's numbers taken as 2 x 2 matrices [[re, im], [-im, re]], (2k, 2n), which B is packed as: so its
bits depend on threads, tiles and batches as little as a real product's.

Booleans: or over k of (a and b), which is whether the count of pairs that are both set is not 0. Large products, and
those by other algebras, work on words of 32 booleans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.backends.protocol import Backend, require
from tilewright.engine.fusing import Fused
from tilewright.engine.promotion import Types, byte_kind, real_kind
from tilewright.problem.algebra import WORD, Semiring, semiring
from tilewright.problem.kind import Kind
from tilewright.problem.narrow import rounded

Array = npt.NDArray[Any]
#: Rows and columns, and multiply-adds, from which packing booleans in words takes less time than it saves.
_WORDS_SIDE, _WORDS_WORK = 64, 1 << 25


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
) -> None:
    """Compute a b; 1-D operands are a row and a column.

    `out` has 2 dimensions or more, the result's dtype and no bytes of the operands; `more` are those of `fused`, of its
    shape.

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
    if algebra is not None and types.lowering == "words":
        _words(a, b, out, algebra, threads, device)
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
    _multiply(device, left, right, out, kind, threads, more)


def _multiply(
    device: Backend, a: Array, b: Array, out: Array, kind: Kind, threads: int, more: Sequence[Array] = ()
) -> None:
    require(device, kind)
    device.multiply_into(a, b, out, kind, threads, more)


def _plain(x: Array) -> Array:
    """Booleans as bytes of 0 and 1, which they are unless somebody made them of other bytes."""
    if x.dtype.kind != "b":
        return x
    found: Array = x.view(np.uint8)
    return found if found.max(initial=0) <= 1 else (found != 0).view(np.uint8)


def _booleans(a: Array, b: Array, out: Array, threads: int, device: Backend) -> None:
    words = semiring("or-and", "bool").in_words()
    large = min(out.shape[-2:]) >= _WORDS_SIDE and out.size * a.shape[-1] >= _WORDS_WORK
    if large and not device.can(_word_kind(words)):
        _words(a, b, out, words, threads, device)
        return
    kind = byte_kind(a.shape[-1])
    counts: Array = np.empty(out.shape, kind.out)
    _multiply(device, _plain(a), _plain(b), counts, kind, threads)
    np.not_equal(counts, 0, out=out)


def _word_kind(algebra: Semiring) -> Kind:
    return Kind("bool", WORD, WORD, WORD, algebra)


def _words(a: Array, b: Array, out: Array, algebra: Semiring, threads: int, device: Backend) -> None:
    """An algebra of truth values: rows of B and C in words of 32, A's elements as words of one bit again and again.

    Packing along columns takes longer than a product of few columns does, so that A is packed in B's place only where
    its columns are contiguous.
    """
    if a.strides[-2] == 1 != a.strides[-1] and (out.shape[-1] < out.shape[-2] or b.strides[-1] != 1):
        b, a, out = (x.swapaxes(-1, -2) for x in (a, b, out))
        _words(a, b, out, algebra.flipped(), threads, device)
        return
    n = out.shape[-1]
    words = -(-n // 32)
    packed: Array = np.zeros((*b.shape[:-1], 4 * words), np.uint8)
    packed[..., : -(-n // 8)] = np.packbits(b, axis=-1, bitorder="little")
    found: Array = np.empty((*out.shape[:-1], words), WORD)
    _multiply(device, _plain(a), packed.view(WORD), found, _word_kind(algebra), threads)
    out[...] = np.unpackbits(found.view(np.uint8), axis=-1, count=n, bitorder="little")
