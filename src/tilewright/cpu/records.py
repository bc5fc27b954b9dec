"""Argument records: what a kernel is told beside the arrays' addresses, made once for a product and never changed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

Steps = tuple[int, ...]
#: The batch's axes: extent, and bytes from one matrix to the next in A, B, C and further operands.
Batch = tuple[tuple[int, ...], ...]
#: Shares of a batch for each thread, so that a late thread holds nobody up for long.
_SHARES = 4


class Records:
    """Records of one kernel, one after the other in memory.

    Attributes
    ----------
    count, words : int
        Records, and 64-bit words of each.
    address : int
        Of the first.
    buffers : tuple of int
        Bytes of each buffer that a thread needs; empty where the kernel needs none.
    """

    __slots__ = ("_held", "address", "buffers", "count", "words")

    def __init__(self, rows: Sequence[tuple[int, ...]], buffers: tuple[int, ...] = ()) -> None:
        self._held = np.array(rows, np.int64)
        self.count, self.words = self._held.shape
        self.address = int(self._held.ctypes.data)
        self.buffers = buffers


def shares(batch: Batch, threads: int, arrays: int = 3) -> Iterator[tuple[int, Steps, Steps]]:
    """A batch in shares: matrices in a row, the steps between them in each array, and the offsets of the first.

    Examples
    --------
    >>> list(shares(((6, 8, 0, 16),), 1))
    [(6, (8, 0, 16), (0, 0, 0))]
    """
    if not batch:
        yield 1, (0,) * arrays, (0,) * arrays
        return
    extent, *steps = batch[-1]
    outer = math.prod(axis[0] for axis in batch[:-1])
    wanted = 1 if threads == 1 else -(-threads * _SHARES // outer)
    share = max(1, -(-extent // wanted))
    for offsets in _offsets(batch[:-1], arrays):
        for i in range(0, extent, share):
            start = tuple(x + i * step for x, step in zip(offsets, steps, strict=True))
            yield min(share, extent - i), tuple(steps), start


def _offsets(batch: Batch, arrays: int) -> Iterator[Steps]:
    """Where every matrix of a batch starts in each array, in bytes."""
    for index in itertools.product(*(range(extent) for extent, *_ in batch)):
        yield tuple(sum(i * axis[1 + x] for i, axis in zip(index, batch, strict=True)) for x in range(arrays))
