"""Datasets in HDF5 files.

A dataset without chunks is contiguous in its file, like the array of a .npy file. It is read without the HDF5 library,
because threads would wait for the library's global lock. The library reads datasets with chunks. New datasets have no
chunks. So any tile can be written in place, and a process that is killed leaves no damaged HDF5 file behind.
"""

from __future__ import annotations

import contextlib
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.installation import require
from tilewright.multiply.blocks.stores import disk
from tilewright.multiply.blocks.stores.lines import Layout, LinesStore
from tilewright.multiply.blocks.stores.places import Place
from tilewright.multiply.blocks.stores.store import Array, Extent, Store, check_cast, numbers, parts
from tilewright.multiply.problem.dtypes import extends_numpy

_require = functools.partial(require, needing="HDF5 datasets need the package", name="blocks")

#: The name of a new file's dataset, if the path does not name one.
_DATASET = "/array"


class Hdf5Store:
    """A dataset that the library reads and writes."""

    resident = False

    def __init__(self, dataset: Any, name: str, *, owned: bool) -> None:
        self.name, self.dataset, self._owned = name, dataset, owned
        self.shape, self.dtype = tuple(dataset.shape), numbers(dataset.dtype, name)
        self.chunks = self.write_chunks = tuple(dataset.chunks or (1,) * len(self.shape))
        cache = dataset.id.get_access_plist().get_chunk_cache()[1] if dataset.chunks else 0
        # Besides its cache, the library holds one chunk at a time, both compressed and uncompressed.
        self.buffer_bytes = cache + 2 * math.prod(self.chunks) * self.dtype.itemsize
        self._path = Path(dataset.file.filename).absolute()

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """As :meth:`Store.read`."""
        check_cast(self.dtype, into.dtype)
        for place, part in parts(self, at, rows, columns, into):
            direct = part.flags.c_contiguous and part.dtype == self.dtype
            band = part if direct else np.empty(part.shape, self.dtype)
            with disk.reading(self.name, "HDF5"):
                self.dataset.read_direct(band, source_sel=place)
            if not direct:
                np.copyto(part, band)

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """As :meth:`Store.write`."""
        check_cast(values.dtype, self.dtype)
        for place, part in parts(self, at, rows, columns, values):
            with disk.writing(self.name, part.size * self.dtype.itemsize, self._path):
                self.dataset.write_direct(np.ascontiguousarray(part, self.dtype), dest_sel=place)

    def flush(self) -> None:
        """As :meth:`Store.flush`."""
        with disk.writing(self.name, 0, self._path):
            self.dataset.file.flush()
        disk.sync_path(self._path, self.name)

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`."""
        return {
            "kind": "hdf5",
            "path": str(self._path),
            "dataset": self.dataset.name,
            "shape": list(self.shape),
            "dtype": self.dtype.str,
            **disk.times(self._path, self.name),
        }

    def extent(self) -> Extent:
        """As :meth:`Store.extent`: a contiguous dataset's range of bytes, or the address of the dataset's object."""
        h5py, dataset = _require("h5py"), self.dataset
        if dataset.external or dataset.is_virtual:
            return Extent(self._path)
        offset = dataset.id.get_offset()
        part = None if offset is None else (offset, offset + dataset.id.get_storage_size())
        return Extent(self._path, part or f"object {h5py.h5o.get_info(dataset.id).addr}")

    def close(self) -> None:
        """As :meth:`Store.close`; a file that the caller opened stays open."""
        if self._owned and self.dataset:
            self.dataset.file.close()


def of_array(dataset: Any, name: str, *, writable: bool) -> Store:
    """The store of a dataset that the caller has open.

    Raises ArgumentTypeError: its elements are not numbers; ArgumentValueError: its file is read-only.
    """
    path = Path(dataset.file.filename).absolute()
    text = f"{path}:{dataset.name}"
    if writable and dataset.file.mode == "r":
        raise ArgumentValueError(f"`{name}` must be writable (got {text}, read-only); open its file with mode r+")
    layout = _layout(dataset, text, None) if dataset.file.mode == "r" else None
    return LinesStore(text, "hdf5", path, layout) if layout else Hdf5Store(dataset, text, owned=False)


def of_path(place: Place, dtype: np.dtype[Any] | None, *, writable: bool) -> Store:
    """The dataset that a path names, or the only dataset of the file.

    Raises StorageError: the file cannot be read; ArgumentValueError: it has no such dataset, or an empty one;
    ArgumentTypeError: the elements are not numbers.
    """
    h5py = _require("h5py")
    with contextlib.ExitStack() as opened:
        with disk.reading(place.text):
            file = opened.enter_context(h5py.File(place.file, "r+" if writable else "r", rdcc_nbytes=0))
            dataset = file.get(place.inside) if place.inside else _only(file)
        if not isinstance(dataset, h5py.Dataset):
            raise ArgumentValueError(
                f"{place.text}: must name one dataset (got a file with {', '.join(_names(file)[:8]) or 'none'}); write "
                f"{place.file}:/name"
            )
        if dataset.shape is None:
            raise ArgumentValueError(f"{place.text}: must hold elements (got an empty dataset); name another")
        layout = _layout(dataset, place.text, dtype)
        if layout is None:
            numbers(dataset.dtype, place.text, dtype)
            opened.pop_all()
            return Hdf5Store(dataset, place.text, owned=True)
    return LinesStore(place.text, "hdf5", place.file, layout, writable=writable)


def _names(file: Any) -> list[str]:
    """The datasets of a file."""
    found: list[str] = []
    file.visititems(lambda name, item: found.append(f"/{name}") if hasattr(item, "dtype") else None)
    return found


def _only(file: Any) -> Any:
    names = _names(file)
    return file[names[0]] if len(names) == 1 else None


def load() -> None:
    """Import the library.

    Raises MissingExtraError: it is not installed.
    """
    _require("h5py")


def beside(place: Place) -> list[str]:
    """The other things that a new file at this path would replace: other datasets, groups and attributes.

    Raises StorageError: the file cannot be read.
    """
    h5py = _require("h5py")
    if not place.file.is_file():
        return disk.names(place.file, place.text)
    with disk.reading(place.text, "HDF5"), h5py.File(place.file, "r") as file:
        links: list[str] = []
        file.visit_links(links.append)
        named = place.inside or getattr(_only(file), "name", "")
        others = [f"/{link}" for link in links if not f"{named}/".startswith(f"/{link}/")]
        return others + [f"the attribute {key}" for key in file.attrs]


def _layout(dataset: Any, name: str, dtype: np.dtype[Any] | None) -> Layout | None:
    """The layout of a dataset's bytes in its file; None if only the library can read them.

    The library is needed for chunks, external or virtual data, and for types that NumPy stores differently.
    """
    h5py = _require("h5py")
    offset, file = dataset.id.get_offset(), dataset.file
    if offset is None or dataset.external or dataset.is_virtual or file.driver != "sec2" or file.userblock_size:
        return None
    if not dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype, logical=True)):
        return None
    return Layout.whole(offset, tuple(dataset.shape), numbers(dataset.dtype, name, dtype))


def create(place: Place, shape: tuple[int, ...], dtype: np.dtype[Any], chunks_hint: tuple[int, int]) -> Store:
    """Make a file with one dataset and space for all its elements; `chunks_hint` is not used.

    Raises ArgumentTypeError: HDF5 has no such dtype; StorageError: the file cannot be made, or the disk is full.
    """
    h5py = _require("h5py")
    if extends_numpy(dtype.name):
        raise ArgumentTypeError(
            f"{place.text}: must have a dtype that HDF5 supports (got {dtype}); choose another, or name a .npy file"
        )
    folder, size = place.file.absolute().parent, math.prod(shape) * dtype.itemsize
    try:
        with disk.writing(place.text, size, folder), h5py.File(place.file, "x") as file:
            dataset = place.inside or _DATASET
            file.require_group(dataset.rpartition("/")[0] or "/")
            kept = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            kept.set_layout(h5py.h5d.CONTIGUOUS)
            kept.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            kept.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # bytes that nobody wrote are zero
            element, extents = h5py.h5t.py_create(dtype, logical=True), h5py.h5s.create_simple(shape)
            h5py.h5d.create(file.id, dataset.encode(), element, extents, kept)
        disk.reserve(place.file, place.file.stat().st_size, place.text)
        return of_path(place, None, writable=True)
    except BaseException:
        place.file.unlink(missing_ok=True)
        raise
