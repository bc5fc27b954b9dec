"""Measures the machine's rates briefly: a step's arithmetic, reads of operands, writes."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tilewright.multiply.blocks.planning import Rates
from tilewright.multiply.blocks.stores import Store
from tilewright.multiply.blocks.work import Work

#: Extents of the timed step, bytes read at some places of each operand, and bytes written. They are small, since a
#: process may keep memory that it frees.
_SIDE, _READ_BYTES, _PLACES, _WRITE_BYTES = 512, 4 << 20, 5, 16 << 20


def rates(work: Work, a: Store, b: Store, folder: Path | None) -> Rates:
    """The measured rates; without a folder writes count as fast as reads.

    Data in the page cache are read at memory's speed, here and in the product.
    """
    read = min((_read_rate(store) for store in (a, b) if _is_read(store)), default=Rates().read_bytes)
    return Rates(_flops(work, a, b), read, read if folder is None else _write_rate(folder))


def _is_read(store: Store) -> bool:
    """Whether the array has elements to read."""
    return not store.resident and 0 not in store.shape


def _flops(work: Work, a: Store, b: Store) -> float:
    """The rate of a step, after a first step that compiles; operands are ones, so that no value is subnormal."""
    m, n, k = (min(extent, _SIDE) for extent in (*(a.shape[-2:-1] or (1,)), *(b.shape[-1:] or (1,)), a.shape[-1]))
    left, right = np.ones((m, k), a.dtype), np.ones((k, n), b.dtype)
    sums = np.empty((m, n), work.sums)
    for first in (True, False)[: 1 + work.splits_k]:  # compile before free memory is measured
        work.add(left, right, sums, first=first)
    seconds = min(_seconds(lambda: work.add(left, right, sums, first=True)) for _ in range(3))
    return max(2 * m * n * k, 1) / seconds


def _read_rate(store: Store) -> float:
    """The median rate of squares all over an operand, read like panels: a single read depends too much on chance.

    Chunks count whole, as in the plan.
    """
    extents, chunks = (1, *store.shape)[-2:], (1, *store.chunks)[-2:]
    size, at = store.dtype.itemsize, (0,) * (len(store.shape) - 2)
    down, across = (x // y * y or x for x, y in zip(_square(extents, _READ_BYTES // size), chunks, strict=True))
    high, wide = (min(-(-x // y) * y, z) for x, y, z in zip((down, across), chunks, extents, strict=True))
    places = max(1, min(_PLACES, _PLACES * _READ_BYTES // (high * wide * size)))
    into = np.empty((down, across), store.dtype)

    def seconds(place: int) -> float:
        row, column = (
            (extent - side) * place // places // chunk * chunk
            for extent, side, chunk in zip(extents, (high, wide), chunks, strict=True)
        )
        return _seconds(lambda: store.read(at, slice(row, row + down), slice(column, column + across), into))

    return high * wide * size / sorted(map(seconds, range(places)))[places // 2]


def _square(extents: tuple[int, ...], elements: int) -> tuple[int, int]:
    """Rows and columns of a part of so many elements, as even as the extents permit.

    >>> _square((100, 100), 400), _square((10, 100), 400), _square((100, 10), 400), _square((1, 1), 400)
    ((20, 20), (10, 40), (40, 10), (1, 1))
    """
    rows, columns = extents
    across = min(columns, max(math.isqrt(elements), elements // rows))
    return min(rows, elements // across), across


def _write_rate(folder: Path) -> float:
    values = os.urandom(1 << 20)

    def write() -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(_WRITE_BYTES // len(values)):
                file.write(values)
            file.flush()
            os.fsync(file.fileno())

    return _WRITE_BYTES / _seconds(write)


def _seconds(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return max(time.perf_counter() - began, 1e-6)
