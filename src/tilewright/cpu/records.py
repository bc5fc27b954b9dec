"""Argument records: what a kernel is told beside the arrays' addresses, made once for a product and never changed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

Steps = tuple[int, int, int]
#: The batch's axes: extent, and bytes from one matrix to the next in A, B and C.
Batch = tuple[tuple[int, int, int, int], ...]
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


def shares(batch: Batch, threads: int) -> Iterator[tuple[int, Steps, Steps]]:
    """A batch in shares: matrices in a row, the steps between them in A, B and C, and the offsets of the first.

    Examples
    --------
    >>> list(shares(((6, 8, 0, 16),), 1))
    [(6, (8, 0, 16), (0, 0, 0))]
    """
    if not batch:
        yield 1, (0, 0, 0), (0, 0, 0)
        return
    extent, *steps = batch[-1]
    outer = math.prod(axis[0] for axis in batch[:-1])
    wanted = 1 if threads == 1 else -(-threads * _SHARES // outer)
    share = max(1, -(-extent // wanted))
    for x, y, z in _offsets(batch[:-1]):
        for i in range(0, extent, share):
            start = (x + i * steps[0], y + i * steps[1], z + i * steps[2])
            yield min(share, extent - i), (steps[0], steps[1], steps[2]), start


def _offsets(batch: Batch) -> Iterator[Steps]:
    """Where every matrix of a batch starts in A, B and C, in bytes."""
    for index in itertools.product(*(range(extent) for extent, *_ in batch)):
        x = y = z = 0
        for i, (_, step_a, step_b, step_out) in zip(index, batch, strict=True):
            x, y, z = x + i * step_a, y + i * step_b, z + i * step_out
        yield x, y, z
