"""A store and arithmetic that count their calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class CountingStore:
    """An array in memory that is read and written like a store."""

    resident, buffer_bytes = False, 0

    def __init__(self, array: Array, chunks: tuple[int, int] = (1, 1)) -> None:
        self.name, self.array = "counting", array
        self.shape, self.dtype = array.shape, array.dtype
        self.chunks = self.write_chunks = (*(1,) * (array.ndim - 2), *chunks)
        self.read_elements = self.written_elements = self.flushes = self.version = 0

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        found = self.array[(*at, rows, columns)]
        np.copyto(into, found)
        self.read_elements += self._whole(rows, -2) * self._whole(columns, -1)

    def _whole(self, part: slice, axis: int) -> int:
        """The extent of the chunks that a part touches."""
        chunk = self.chunks[axis]
        return min(-(-part.stop // chunk) * chunk, self.shape[axis]) - part.start // chunk * chunk

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        self.array[(*at, rows, columns)] = values
        self.written_elements += values.size

    def flush(self) -> None:
        self.flushes += 1

    def identity(self) -> dict[str, Any]:
        return {"version": self.version}

    def extent(self) -> None: ...

    def close(self) -> None: ...


class Sums:
    """The canonical product of integers, as :class:`tilewright.multiply.blocks.work.Work` has it."""

    sums = out = np.dtype(np.int64)
    splits_k = True

    def extra_bytes(self, rows: int, columns: int, depth: int) -> int:
        return 0

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        if first:
            sums[...] = 0
        sums += a @ b

    def finish(self, sums: Array, at: tuple[int, ...], rows: slice, columns: slice, old: Array | None = None) -> Array:
        return sums if old is None else sums + 10 * old
