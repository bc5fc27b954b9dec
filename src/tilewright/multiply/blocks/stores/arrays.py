"""Arrays that are objects of this process: NumPy's in memory, and whatever has a shape, a dtype and slices."""

from __future__ import annotations

import hashlib
import math
import uuid
import zlib
from threading import Lock
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.blocks.stores.extents import of_map
from tilewright.multiply.blocks.stores.store import Array, Extent, bands, box, numbers, parts


class MemoryStore:
    """An array in memory, or in a mapped file, which is `resident` only as far as it was touched."""

    buffer_bytes = 0

    def __init__(self, array: Array, name: str) -> None:
        self.name, self.array, self.resident = name, array, not isinstance(array, np.memmap)
        self.shape, self.dtype = array.shape, numbers(array.dtype, name)
        self.chunks = self.write_chunks = (1,) * array.ndim

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """As :meth:`Store.read`."""
        np.copyto(into, self.array[box(self.array.ndim, at, rows, columns)], casting="same_kind")

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """As :meth:`Store.write`."""
        place = self.array[box(self.array.ndim, at, rows, columns)]
        np.copyto(place, values.reshape(place.shape), casting="same_kind")

    def flush(self) -> None:
        """As :meth:`Store.flush`: a mapped file's pages are written back."""
        if isinstance(self.array, np.memmap):
            self.array.flush()

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`; looks at every byte, as nothing else tells of a change."""
        digest = 0
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        for some in bands(self.shape[0], row_bytes):
            digest = zlib.crc32(self.array[some].tobytes(), digest)
        return {"kind": "memory", "shape": list(self.shape), "dtype": self.dtype.name, "crc32": digest}

    def extent(self) -> Extent | None:
        """As :meth:`Store.extent`: that of the file that it is a view of."""
        return of_map(self.array)

    def close(self) -> None:
        """As :meth:`Store.close`: nothing is held."""


class SlicedStore:
    """An array that only its slices tell of, taken one at a time; those of Dask and xarray are computed then."""

    resident, buffer_bytes = False, 0

    def __init__(self, array: Any, name: str) -> None:
        self.name, self.array = name, array
        try:
            kind = np.dtype(array.dtype)
        except TypeError:  # torch's
            raise ArgumentTypeError(
                f"{name}: must have a dtype of NumPy's beside an array outside memory (got {array.dtype}); pass a "
                "NumPy array"
            ) from None
        self.shape, self.dtype = tuple(map(int, array.shape)), numbers(kind, name)
        self.chunks = self.write_chunks = _chunks(array, len(self.shape))
        self._lock = Lock()
        self._token = _token(array)

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """As :meth:`Store.read`."""
        for place, part in parts(self, at, rows, columns, into):
            with self._lock:
                found = np.asarray(self.array[place])
            np.copyto(part, found, casting="same_kind")

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """As :meth:`Store.write`."""
        for place, part in parts(self, at, rows, columns, values):
            converted = part.astype(self.dtype, casting="same_kind", copy=False)
            with self._lock:
                self.array[place] = converted

    def flush(self) -> None:
        """As :meth:`Store.flush`, where the array has such a method."""
        getattr(self.array, "flush", lambda: None)()

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`; another one for each object that cannot be asked for its content."""
        kind = f"{type(self.array).__module__}.{type(self.array).__qualname__}"
        return {"kind": kind, "shape": list(self.shape), "dtype": self.dtype.name, "token": self._token}

    def extent(self) -> Extent | None:
        """As :meth:`Store.extent`, which slices do not tell."""
        return None

    def close(self) -> None:
        """As :meth:`Store.close`: the array is the caller's."""


def _chunks(array: Any, ndim: int) -> tuple[int, ...]:
    """The largest chunk of an array on each axis; ones where it states none that is understood."""
    said = getattr(array, "chunks", None)
    found = [max(x, default=1) if isinstance(x, tuple) else x for x in said] if isinstance(said, tuple) else []
    return tuple(found) if len(found) == ndim and all(isinstance(x, int) and x > 0 for x in found) else (1,) * ndim


def _token(array: Any) -> str:
    """The name of a Dask graph's result, made of all that goes in; else a name that is used once."""
    if getattr(array, "__dask_graph__", lambda: None)() is None:
        return uuid.uuid4().hex
    return hashlib.sha256(repr(array.__dask_tokenize__()).encode()).hexdigest()


def is_sliced(value: Any) -> bool:
    """Whether a value has what :class:`SlicedStore` needs."""
    return all(hasattr(value, need) for need in ("shape", "dtype", "__getitem__"))


def sliced(value: Any, name: str, writable: bool) -> SlicedStore:
    """The store of an array that is sliced.

    Raises ArgumentTypeError: it has no numbers, or takes none.
    """
    if writable and not hasattr(value, "__setitem__"):
        raise ArgumentTypeError(
            f"`{name}` must be an array that can be written (got {type(value).__name__}); name a path"
        )
    return SlicedStore(value, type(value).__name__)


def in_memory(value: Array, name: str, writable: bool) -> MemoryStore:
    """The store of an array of NumPy's, without its subclass.

    Raises ArgumentTypeError: it has a mask, which a product would lose; ArgumentValueError: it may not be written.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"`{name}` must be without a mask, which a product would lose (got a masked array); pass {name}.filled(0)"
        )
    if writable and not value.flags.writeable:
        raise ArgumentValueError(f"`{name}` must be writable (got a read-only array); pass a copy")
    return MemoryStore(value.view(np.ndarray), type(value).__name__)
