"""Arrays of zarr, of formats 2 and 3: a file for each chunk, or for each shard of chunks.

The package reads and writes them, but for chunks that are nothing but elements, which are read from their files; while
it reads, it holds ten chunks (its setting `async.concurrency`).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import math
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError, StorageError
from tilewright.ground.installation import require
from tilewright.multiply.blocks.stores import disk
from tilewright.multiply.blocks.stores.lines import Layout, LinesStore
from tilewright.multiply.blocks.stores.places import Place
from tilewright.multiply.blocks.stores.store import Array, Extent, box, check_cast, numbers
from tilewright.multiply.problem.dtypes import extends_numpy

_require = functools.partial(require, needing="zarr arrays need the package", name="blocks")

#: Chunks of new arrays, at most: large enough that a file's own cost vanishes, small enough for who reads a part.
_CHUNK_BYTES, _CHUNK_COLUMNS = 16 << 20, 4096
#: Most that is counted for chunks that are decoded at once, unless two are more.
_DECODED_BYTES = 64 << 20


class ZarrStore:
    """An array of zarr."""

    resident = False

    def __init__(self, array: Any, name: str) -> None:
        zarr = _require("zarr")
        self.name, self.array = name, array
        self.shape, self.dtype = tuple(array.shape), numbers(np.dtype(array.dtype), name)
        self.chunks = tuple(array.chunks)
        self.write_chunks = tuple(array.shards or array.chunks)
        local = isinstance(array.store, zarr.storage.LocalStore)
        self._folder = Path(array.store.root).absolute() / array.path if local else None
        self._buffer = _require("zarr.buffer.cpu").NDBuffer
        self._token = uuid.uuid4().hex
        self._lock = Lock()
        self._unflushed: set[Path] = set()
        self._plain = _plain(array) if local else None
        self.buffer_bytes = 0 if self._plain is not None else _decoded_bytes(zarr, self.chunks, self.dtype)

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """As :meth:`Store.read`."""
        check_cast(self.dtype, into.dtype)
        if self._plain is not None:
            self._read_files(self._plain, at, rows, columns, into)
        elif into.size:
            place = into if len(self.shape) > 1 else into[0]
            with disk.reading(self.name, "zarr"):
                self.array.get_basic_selection(box(len(self.shape), at, rows, columns), out=self._buffer(place))

    def _read_files(self, dtype: np.dtype[Any], at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """Read chunks that are nothing but their elements from their files: for a third of the processor's time."""
        height, width = (1, *self.chunks)[-2:]
        inner = tuple(i % n for i, n in zip(at, self.chunks, strict=False))
        for row, column in itertools.product(_touched(rows, height), _touched(columns, width)):
            top, bottom = max(rows.start, row * height), min(rows.stop, (row + 1) * height)
            left, right = max(columns.start, column * width), min(columns.stop, (column + 1) * width)
            part = into[top - rows.start : bottom - rows.start, left - columns.start : right - columns.start]
            place = tuple(i // n for i, n in zip(at, self.chunks, strict=False)) + (row, column)[-len(self.shape) :]
            try:
                chunk = LinesStore(self.name, "zarr", self._path(place), Layout.whole(0, self.chunks, dtype))
            except StorageError as error:
                if error.errno != errno.ENOENT:
                    raise
                part[...] = self.array.fill_value
                continue
            with contextlib.closing(chunk):
                down, along = slice(top - row * height, bottom - row * height), left - column * width
                chunk.read(inner, down, slice(along, along + right - left), part)

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """As :meth:`Store.write`; one at a time, as two may write parts of one chunk."""
        check_cast(values.dtype, self.dtype)
        if not values.size:
            return
        place = box(len(self.shape), at, rows, columns)
        with self._lock, disk.writing(self.name, values.size * self.dtype.itemsize, self._folder or "."):
            self._unflushed.update(self._files(place))
            self.array.set_basic_selection(place, values if len(self.shape) > 1 else values[0])

    def _files(self, place: tuple[int | slice, ...]) -> Iterator[Path]:
        """The files of the chunks, or shards, that a rectangle is in."""
        if self._folder is None:
            return
        spans = (
            _touched(slice(i, i + 1) if isinstance(i, int) else i, n)
            for i, n in zip(place, self.write_chunks, strict=True)
        )
        for chunk in itertools.product(*spans):
            yield self._path(chunk)

    def _path(self, chunk: tuple[int, ...]) -> Path:
        """The file of a chunk, or shard, by its place among them."""
        return Path(self._folder or "", self.array.metadata.encode_chunk_key(chunk))

    def flush(self) -> None:
        """As :meth:`Store.flush`, for arrays in folders."""
        with self._lock:
            files, self._unflushed = self._unflushed, set()
        folders = {parent for path in files for parent in path.parents if parent.is_relative_to(self._folder or path)}
        for path in (*sorted(files), *sorted(folders)):
            if path.exists():  # zarr may leave out chunks of zeros
                disk.sync_path(path, self.name)

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`; another one for each object whose chunks are not files."""
        said = {"kind": "zarr", "shape": list(self.shape), "dtype": self.dtype.str, "chunks": list(self.write_chunks)}
        if self._folder is None:
            return {**said, "token": self._token}
        digest = hashlib.sha256()
        with disk.reading(self.name):
            for folder, folders, names in os.walk(self._folder, onerror=_raise):
                folders.sort()
                for name in sorted(names):
                    found = Path(folder, name).stat()
                    digest.update(f"{folder}/{name} {found.st_size} {found.st_mtime_ns}\n".encode())
        return {**said, "path": str(self._folder), "files": digest.hexdigest()}

    def extent(self) -> Extent:
        """As :meth:`Store.extent`: its folder, or what zarr calls a place that is none."""
        return Extent(self._folder or Path(str(self.array.store_path)))

    def close(self) -> None:
        """As :meth:`Store.close`: no file stays open."""


def _touched(span: slice, edge: int) -> range:
    """The chunks of one axis that a span of elements is in."""
    return range(span.start // edge, -(-span.stop // edge))


def _decoded_bytes(zarr: Any, chunks: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of the chunks that the package decodes at a time, packed and unpacked: as many chunks as panels are wide.

    Panels hold few chunks where these are large, so no more are counted there than two.
    """
    chunk = 2 * math.prod(chunks) * dtype.itemsize
    return int(max(2 * chunk, min(zarr.config.get("async.concurrency") * chunk, _DECODED_BYTES)))


def _plain(array: Any) -> np.dtype[Any] | None:
    """The dtype in files of chunks that hold elements by rows and nothing else; None for others."""
    if array.shards or array.filters or array.compressors or (array.metadata.zarr_format == 2 and array.order != "C"):
        return None
    found: np.dtype[Any] = np.dtype(array.dtype)
    codec = array.serializer
    if codec is None:
        return found
    if not isinstance(codec, _require("zarr.codecs").BytesCodec):
        return None
    return found.newbyteorder(codec.endian.value) if codec.endian else found


def _raise(error: OSError) -> None:
    raise error


def of_array(array: Any, name: str, *, writable: bool) -> ZarrStore:
    """The store of an array of zarr.

    Raises ArgumentTypeError, ArgumentValueError: it holds no numbers, or may not be written.
    """
    if writable and array.read_only:
        raise ArgumentValueError(
            f"`{name}` must be writable (got a zarr array that is only read); open it with mode r+"
        )
    return ZarrStore(array, str(array.store_path))


def of_path(place: Place, dtype: np.dtype[Any] | None, *, writable: bool) -> ZarrStore:
    """The array of a folder, or the only one of a group.

    Raises StorageError: there is none; ArgumentValueError: there are several; ArgumentTypeError: it holds no numbers.
    """
    zarr = _require("zarr")
    with disk.reading(place.text):
        place.file.stat()  # zarr's own errors do not say why it cannot be seen
    with disk.reading(place.text, "zarr"):
        found = zarr.open(store=str(place.file), mode="r+" if writable else "r")
    if isinstance(found, zarr.Group):
        arrays = dict(found.arrays())
        if len(arrays) != 1:
            some = ", ".join(f"{place.text}/{key}" for key in sorted(arrays)[:8]) or "none"
            raise ArgumentValueError(f"{place.text}: must name one array (got a group with {len(arrays)}: {some})")
        found = next(iter(arrays.values()))
    numbers(np.dtype(found.dtype), place.text, dtype)
    return ZarrStore(found, place.text)


def load() -> None:
    """Import the package, and what it imports itself when it first makes an array and writes to it.

    Raises MissingExtraError: it is not installed.
    """
    zarr = _require("zarr")
    zarr.create_array({}, data=np.zeros(1), compressors=None, filters=None)


def beside(place: Place) -> list[str]:
    """The things lost if another folder took the array's place: all that is in one that is no array."""
    zarr = _require("zarr")
    with contextlib.suppress(Exception):  # not of zarr
        if isinstance(zarr.open(store=str(place.file), mode="r"), zarr.Array):
            return []
    return disk.names(place.file, place.text)


def create(place: Place, shape: tuple[int, ...], dtype: np.dtype[Any], chunks_hint: tuple[int, int]) -> ZarrStore:
    """A new array of format 3, with chunks that divide what is written at once.

    Chunks are not compressed: products of measured numbers have random low bits, which cost time and save nothing.

    Raises ArgumentTypeError: zarr has no such dtype; StorageError: it cannot be made, or has too little room.
    """
    zarr = _require("zarr")
    if extends_numpy(dtype.name):
        raise ArgumentTypeError(
            f"{place.text}: must have a dtype of zarr's (got {dtype}); ask for another dtype, or name a .npy file"
        )
    parent = place.file.absolute().parent
    chunks = chunk_shape(shape, dtype.itemsize, place.format.chunk_rows, chunks_hint)
    with disk.writing(place.text, 0, parent):
        array = zarr.create_array(
            store=str(place.file),
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            compressors=None,
            filters=None,
            fill_value=0,
            config={"write_empty_chunks": True},
        )
    made = ZarrStore(array, place.text)
    disk.sync_path(place.file / "zarr.json", place.text)
    disk.sync_path(parent, place.text)
    return made


def chunk_shape(shape: tuple[int, ...], itemsize: int, rows: int, tile: tuple[int, int]) -> tuple[int, ...]:
    """Chunks of at most so many rows of an array of which tiles are written: parts of one, so none is written twice.

    An edge that has no part of fitting size stays whole.

    >>> chunk_shape((10**5, 10**5), 4, 256, (8192, 6000)), chunk_shape((3, 100, 5000), 8, 256, (40, 4099))
    ((256, 3000), (1, 40, 4099))
    """
    if len(shape) == 1:
        return (max(min(shape[0], _CHUNK_BYTES // itemsize), 1),)
    height, width = (max(min(extent, edge), 1) for extent, edge in zip(shape[-2:], tile, strict=True))
    if height > rows and (height % rows == 0 or height == shape[-2]):
        height = rows
    least = -(-width // _CHUNK_COLUMNS)
    parts = next((n for n in range(least, 4 * least + 1) if width % n == 0), 1)
    return (*(1,) * (len(shape) - 2), height, width // parts)
