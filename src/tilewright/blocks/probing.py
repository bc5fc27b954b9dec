"""What this machine does in a second, measured in a moment: a step's arithmetic, reads of operands, writes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tilewright.blocks.planning import Rates
from tilewright.blocks.stores import Store
from tilewright.blocks.work import Work

#: Extents of the step that is timed, bytes that are read of each operand, and written.
_SIDE, _READ_BYTES, _WRITE_BYTES = 768, 16 << 20, 16 << 20


def rates(work: Work, a: Store, b: Store, folder: Path | None) -> Rates:
    """What is measured now; writes are taken for as quick as reads where no folder is named.

    What lies in the system's cache of files is read at memory's speed, and so is what the product reads of it.
    """
    read = min((_read_rate(store) for store in (a, b) if _is_read(store)), default=Rates().read_bytes)
    return Rates(_flops(work, a, b), read, read if folder is None else _write_rate(folder))


def _is_read(store: Store) -> bool:
    """Whether there is anything to read: one without elements has no row in its middle."""
    return not store.resident and 0 not in store.shape


def _flops(work: Work, a: Store, b: Store) -> float:
    """Of a step, after one that compiles what it needs; operands are ones, so that nothing is subnormal."""
    m, n, k = (min(extent, _SIDE) for extent in (*(a.shape[-2:-1] or (1,)), *(b.shape[-1:] or (1,)), a.shape[-1]))
    left, right = np.ones((m, k), a.dtype), np.ones((k, n), b.dtype)
    sums = np.empty((m, n), work.sums)
    work.add(left, right, sums, first=True)
    seconds = min(_seconds(lambda: work.add(left, right, sums, first=True)) for _ in range(3))
    return max(2 * m * n * k, 1) / seconds


def _read_rate(store: Store) -> float:
    """Of rows from the middle of an operand, which what was written last pushes out of the cache first."""
    rows, columns = (1, *store.shape)[-2:]
    width = columns * store.dtype.itemsize
    count = max(1, min(rows, _READ_BYTES // max(width, 1)))
    columns = min(columns, max(1, _READ_BYTES // store.dtype.itemsize))
    first = (rows - count) // 2
    into = np.empty((count, columns), store.dtype)
    at = (0,) * (len(store.shape) - 2)
    return max(into.nbytes, 1) / _seconds(lambda: store.read(at, slice(first, first + count), slice(0, columns), into))


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
