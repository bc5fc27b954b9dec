"""Arrays that are in a file as they would in memory: rectangles are lines of it, read and written where they are.

Nothing is mapped, so that limits of memory hold, and threads read at once. Bytes go straight to where they are wanted
where dtype and strides permit, and through a small buffer elsewhere.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.multiply.blocks.stores import disk
from tilewright.multiply.blocks.stores.store import BAND_BYTES, Array, Extent, bands

#: Lines this near each other are read with what is between them: one call costs as much as these bytes.
_GAP_BYTES = 4096
#: Of lines apart, so many are asked of the disk before they are read, and no more bytes: one after the other, 16 KiB
#: each, came at 0.15 GB/s and cost the processor 2 s a gigabyte; these come at 0.85, for 0.55 s.
_AHEAD_LINES, _AHEAD_BYTES = 64, 8 << 20
#: One call fills so many pieces of memory. Source: Linux manual, readv(2), IOV_MAX.
_MOST_PIECES = 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of an array's elements in a file; elements of one of the last two axes are neighbours."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]  #: In bytes, of any sign.

    @classmethod
    def whole(cls, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, fortran: bool = False) -> Layout:
        """That of an array without gaps."""
        order = shape if fortran else shape[::-1]
        strides = [dtype.itemsize * math.prod(order[:axis]) for axis in range(len(order))]
        return cls(offset, shape, dtype, tuple(strides if fortran else strides[::-1]))

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        if 0 in self.shape:
            return self.offset, self.offset
        ways = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        first, last = sum(min(way, 0) for way in ways), sum(max(way, 0) for way in ways)
        return self.offset + first, self.offset + last + self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class _Run:
    """Lines of a rectangle in the file, and the array with a row for each."""

    first: int
    distance: int
    values: Array

    @property
    def width(self) -> int:
        """Elements of a line."""
        return int(self.values.shape[1])

    def parts(self, itemsize: int) -> Iterator[_Run]:
        """Pieces whose lines fit a band together."""
        step = max(BAND_BYTES // itemsize, 1)
        for left in range(0, self.width, step):
            piece = self.values[:, left : left + step]
            for some in bands(len(piece), max(piece.shape[1] * itemsize, _GAP_BYTES)):
                yield _Run(self.first + left * itemsize + some.start * self.distance, self.distance, piece[some])


class LinesStore:
    """An array in a file, by its layout."""

    resident, buffer_bytes = False, 0

    def __init__(self, name: str, kind: str, path: Path, layout: Layout, *, writable: bool = False) -> None:
        self.name, self.kind, self.path, self.layout, self._writable = name, kind, path, layout, writable
        self.shape, self.dtype = layout.shape, layout.dtype
        self.chunks = self.write_chunks = (1,) * len(layout.shape)
        self._file = disk.open_file(path, name, writable=writable)
        try:
            size = os.fstat(self._file).st_size
            if size < layout.span[1]:
                raise disk.cut_short(name, layout.span[1], size)
        except BaseException:
            self.close()
            raise

    def __reduce__(self) -> Any:
        """Other processes open the file themselves."""
        return functools.partial(LinesStore, writable=self._writable), (self.name, self.kind, self.path, self.layout)

    def again(self) -> LinesStore:
        """The array with an open file of its own."""
        return LinesStore(self.name, self.kind, self.path, self.layout, writable=self._writable)

    def _run(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> _Run:
        """The lines of a rectangle: its rows, or its columns where these are the neighbours."""
        *outer, row, column = (0, *self.layout.strides) if len(self.shape) == 1 else self.layout.strides
        first = self.layout.offset + sum(i * stride for i, stride in zip(at, outer, strict=True))
        first += rows.start * row + columns.start * column
        if column != self.dtype.itemsize and row == self.dtype.itemsize:
            return _Run(first, column, values.T)
        return _Run(first, row, values)

    def _pieces(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> Iterator[tuple[_Run, bool]]:
        """A rectangle's lines, and whether their bytes go straight to the array; where they do not, bands of them."""
        run = self._run(at, rows, columns, values)
        if self._is_direct(run):
            yield run, True
        else:
            yield from ((part, False) for part in run.parts(self.dtype.itemsize))

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """As :meth:`Store.read`."""
        for run, direct in self._pieces(at, rows, columns, into):
            if direct:
                self._read_lines(run.first, run.distance, run.values.view(np.uint8))
            else:
                np.copyto(run.values, self._band(run), casting="same_kind")

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """As :meth:`Store.write`."""
        for run, direct in self._pieces(at, rows, columns, values):
            lines = run.values
            if not direct:
                lines = np.empty(run.values.shape, self.dtype)
                np.copyto(lines, run.values, casting="same_kind")
            self._write_lines(run.first, run.distance, lines.view(np.uint8))

    def _is_direct(self, run: _Run) -> bool:
        """Whether bytes may go from the file to the array as they are: line by line, or in one piece."""
        values, itemsize = run.values, self.dtype.itemsize
        if values.dtype != self.dtype or (values.strides[1] != itemsize and run.width > 1):
            return False
        width = run.width * itemsize
        return width >= _GAP_BYTES or len(values) <= 1 or (run.distance == width and values.flags.c_contiguous)

    def _read_lines(self, first: int, distance: int, lines: Array) -> None:
        """Fill rows of bytes: in one piece where they follow each other, else with many asked of the disk at once."""
        count, width = lines.shape
        if distance == width and lines.flags.c_contiguous:
            disk.read_all(self._file, lines.reshape(-1).data, first, self.name)
            return
        ahead = min(_AHEAD_LINES, _AHEAD_BYTES // max(width, 1)) if distance != width else 0
        with disk.reading(self.name):
            for i in range(min(ahead, count)):
                os.posix_fadvise(self._file, first + i * distance, width, os.POSIX_FADV_WILLNEED)
            step = 1 if distance != width else _MOST_PIECES
            for i in range(0, count, step):
                some, place = lines[i : i + step], first + i * distance
                if ahead and i + ahead < count:
                    os.posix_fadvise(self._file, place + ahead * distance, width, os.POSIX_FADV_WILLNEED)
                if os.preadv(self._file, list(some), place) != some.size:
                    for j, line in enumerate(some):
                        disk.read_all(self._file, line.data, place + j * width, self.name)

    def _write_lines(self, first: int, distance: int, lines: Array) -> None:
        width = lines.shape[1]
        if distance == width and lines.flags.c_contiguous:
            disk.write_all(self._file, lines.reshape(-1).data, first, self.name)
            return
        with disk.writing(self.name, lines.size, self._file):
            for i, line in enumerate(lines):
                place = first + i * distance
                if os.pwrite(self._file, line.data, place) != width:
                    disk.write_all(self._file, line.data, place, self.name)

    def _band(self, run: _Run) -> Array:
        """Read lines into a buffer: with what is between them where that is little."""
        count, width = len(run.values), run.width * self.dtype.itemsize
        near = width <= run.distance <= max(_GAP_BYTES, width)
        pitch = run.distance if near else width
        band = np.empty((count, pitch), np.uint8)
        if near:
            disk.read_all(self._file, band.reshape(-1).data[: (count - 1) * pitch + width], run.first, self.name)
        else:
            self._read_lines(run.first, run.distance, band)
        return np.ndarray((count, run.width), self.dtype, band, strides=(pitch, self.dtype.itemsize))

    def flush(self) -> None:
        """As :meth:`Store.flush`."""
        disk.sync(self._file, self.name)

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`."""
        return identity(self.kind, self.path, self.layout, self.name)

    def extent(self) -> Extent:
        """As :meth:`Store.extent`."""
        return Extent(self.path, self.layout.span)

    def close(self) -> None:
        """As :meth:`Store.close`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def identity(kind: str, path: Path, layout: Layout, name: str) -> dict[str, Any]:
    """As :meth:`Store.identity`, of an array in a file.

    Raises StorageError: the file is gone.
    """
    return {
        "kind": kind,
        "path": str(path.absolute()),
        "shape": list(layout.shape),
        "dtype": layout.dtype.name if layout.dtype.kind == "V" else layout.dtype.str,
        "offset": layout.offset,
        "strides": list(layout.strides),
        **disk.times(path, name),
    }
