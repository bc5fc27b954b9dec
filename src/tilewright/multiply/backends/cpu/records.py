"""Argument records: a kernel's arguments besides the arrays' addresses; immutable.

A batch is cut into shares, runs of matrices along one axis; the kernel loops over a share itself. A bounded number of
records is made at a time, since a batch may broadcast along many axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]
#: The batch's axes: extent, and bytes from one matrix to the next in A, B, C and further operands.
Batch = tuple[tuple[int, ...], ...]
#: Shares of a batch for each thread, so that a delayed thread does not delay the product much.
_SHARES = 4
#: Matrices outside of the last axis from which shares run along the longest axis instead.
_OUTER = 64


class Records:
    """Records of one kernel, contiguous in memory."""

    __slots__ = ("_held", "address", "buffers", "count", "words")

    def __init__(self, rows: Words, buffers: tuple[int, ...] = ()) -> None:
        self._held = np.ascontiguousarray(rows)
        self.count, self.words = self._held.shape  #: Records, and 64-bit words of each.
        self.address = int(self._held.ctypes.data)  #: Address of the first.
        self.buffers = buffers  #: Bytes of each buffer that a thread needs; empty if the kernel needs none.


def table(names: Sequence[str], words: Mapping[str, Any], count: int) -> Words:
    """Rows of words in the order of their names; each word one number, or one for every row.

    >>> table(("m", "a"), {"a": [5, 6], "m": 3}, 2)
    array([[3, 5],
           [3, 6]])
    """
    found = np.empty((count, len(names)), np.int64)
    for column, name in enumerate(names):
        found[:, column] = words[name]
    return found


class Shares:
    """A batch cut into shares: runs of matrices, each with the offsets of its first.

    >>> Shares(((6, 8, 0, 16),), 1).rows(0, 1)
    (array([6]), array([[0, 0, 0]]))
    >>> Shares(((100, 8, 0, 16), (2, 0, 4, 8)), 1).rows(0, 2)
    (array([100, 100]), array([[0, 0, 0],
           [0, 4, 8]]))
    """

    def __init__(self, batch: Batch, threads: int, arrays: int = 3) -> None:
        if not batch:
            batch = ((1, *[0] * arrays),)
        if math.prod(axis[0] for axis in batch[:-1]) > _OUTER:
            longest = max(range(len(batch)), key=lambda i: batch[i][0])
            batch = (*batch[:longest], *batch[longest + 1 :], batch[longest])
        self._outer = batch[:-1]
        self._extent, *steps = batch[-1]
        self.steps = tuple(steps)  #: Bytes from one matrix of a share to the next, in each array.
        outer = math.prod(axis[0] for axis in self._outer)
        wanted = 1 if threads == 1 else -(-threads * _SHARES // outer)
        self._share = max(1, -(-self._extent // wanted))
        self._along = -(-self._extent // self._share)
        self.count = outer * self._along  #: Shares.

    def rows(self, first: int, last: int) -> tuple[Words, Words]:
        """Numbers of matrices in some shares, and byte offsets of their first ones in each array."""
        numbers = np.arange(first, min(last, self.count))
        outer, along = np.divmod(numbers, self._along)
        start = along * self._share
        offsets = start[:, None] * np.array(self.steps, np.int64)
        if self._outer:
            index = np.unravel_index(outer, [axis[0] for axis in self._outer])
            for where, (_, *steps) in zip(index, self._outer, strict=True):
                offsets += where[:, None] * np.array(steps, np.int64)
        return np.minimum(self._share, self._extent - start), offsets
