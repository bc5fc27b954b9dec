"""The interface of every array outside memory, whatever keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError
from tilewright.multiply.problem.dtypes import extends_numpy

Array = npt.NDArray[Any]
#: What is converted or turned on its way is held in a buffer of this size.
BAND_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Extent:
    """A file or a folder, and what of it an array takes.

    >>> Extent(Path("x"), (0, 10)).meets(Extent(Path("x"), (10, 20)))
    False
    """

    path: Path
    #: The first byte and the one behind the last; a name for what is in pieces; None where nothing is known.
    part: tuple[int, int] | str | None = None

    def meets(self, other: Extent) -> bool:
        """Whether two arrays may share bytes."""
        one, two = self.part, other.part
        if not same_file(self.path, other.path):
            return False
        if one is None or two is None:
            return True
        if isinstance(one, str) or isinstance(two, str):
            return one == two  # what is in pieces shares none with what is in one
        return one[0] < two[1] and two[0] < one[1]

    def is_in(self, place: Path) -> bool:
        """Whether the file is this one, or is in this folder, by whatever names."""
        file = self.path.resolve()
        return place.exists() and any(same_file(x, place) for x in (file, *file.parents))


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file; by their text where there is none, as for arrays in memory of zarr and HDF5."""
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()


class Store(Protocol):
    """An array of which rectangles are read and written. Several threads may do so at once.

    A rectangle is in the last two axes, `at` says where in those before. An array of one axis is a row: its `rows`
    are `slice(0, 1)`.
    """

    name: str  #: For people: the path as given, with the dataset in a file of HDF5; else the type.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: Extents that are read as a whole, and written; ones where any rectangle costs its bytes.
    chunks: tuple[int, ...]
    write_chunks: tuple[int, ...]
    buffer_bytes: int  #: What its library holds while it is read or written, as far as that is known.
    resident: bool  #: Whether the data are in this process's memory already.

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """Copy a rectangle; `into` has any strides, and a dtype that this one becomes by a cast of the same kind.

        Raises StorageError: it cannot be read.
        """

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """Write a rectangle, converted as by :meth:`read`.

        Raises StorageError: it cannot be written.
        """

    def flush(self) -> None:
        """Return when all that was written is on disk.

        Raises StorageError: it is not.
        """

    def identity(self) -> dict[str, Any]:
        """A value for JSON that differs where the content may; no file is read for it."""

    def extent(self) -> Extent | None:
        """Its place on disk; None where that is not known, or it is in memory."""

    def close(self) -> None:
        """Give back files; what was written and not flushed may be lost with the machine."""


def numbers(found: np.dtype[Any], name: str, wanted: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """The dtype of elements: as found, or what the caller says that bytes without a meaning are.

    Raises ArgumentTypeError: they are no numbers, or not what the caller says.
    """
    if wanted is not None and found != wanted:
        if found.kind == "V" and found.names is None and found.itemsize == wanted.itemsize:
            return wanted
        raise ArgumentTypeError(f"{name}: must hold {wanted} (got {found}); name the dtype that it has, or none")
    if found.kind in "biufc" or extends_numpy(found.name):
        return found
    hint = (
        "if they are bfloat16 or float8, pass a map of them, numpy.load(..., mmap_mode='r').view(dtype)"
        if found.kind == "V" and found.names is None and found.itemsize <= 2
        else "convert them"
    )
    raise ArgumentTypeError(f"{name}: must hold numbers (got elements of {found}); {hint}")


def check_cast(given: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    """Refuse conversions that NumPy does not do unasked.

    Raises TypeError: the cast is of another kind.
    """
    if not np.can_cast(given, wanted, "same_kind"):
        raise TypeError(f"{given} does not become {wanted} by a cast of the same kind (same_kind)")


def box(ndim: int, at: tuple[int, ...], rows: slice, columns: slice) -> tuple[int | slice, ...]:
    """The index of a rectangle, for arrays that are sliced; one of one axis gives its row without an axis of one."""
    return (*at, rows, columns) if ndim > 1 else (columns,)


def parts(
    store: Store, at: tuple[int, ...], rows: slice, columns: slice, values: Array
) -> Iterator[tuple[tuple[int | slice, ...], Array]]:
    """A rectangle in pieces of whole chunks that fit a band: the index of each, and its part of the array.

    So what is converted, or made by a library, needs no second room for the whole.
    """
    if not values.size:
        return
    if len(store.shape) == 1:
        yield (columns,), values[0]
        return
    chunk = store.chunks[-2]
    base = rows.start - rows.start % chunk
    for some in bands(rows.stop - base, values.shape[1] * store.dtype.itemsize, chunk):
        first, last = max(base + some.start, rows.start), base + some.stop
        yield (*at, slice(first, last), columns), values[first - rows.start : last - rows.start]


def bands(rows: int, row_bytes: int, least: int = 1) -> Iterator[slice]:
    """Slices of rows that fit a band, in multiples of `least`.

    >>> list(bands(5, BAND_BYTES // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(BAND_BYTES // max(row_bytes * least, 1), 1) * least
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))
