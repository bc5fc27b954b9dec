"""Files of NumPy's .npy format: a header, then the elements, contiguous."""

from __future__ import annotations

import math
import os
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy

from tilewright.errors import ArgumentTypeError, StorageError
from tilewright.multiply.blocks.stores import disk
from tilewright.multiply.blocks.stores.lines import Layout, LinesStore
from tilewright.multiply.blocks.stores.mapped import of_array
from tilewright.multiply.blocks.stores.places import Place
from tilewright.multiply.blocks.stores.store import Store, numbers

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
#: Bytes that are read for a header; headers of numeric arrays are shorter.
_HEADER_BYTES = 1 << 16


def of_path(place: Place, dtype: np.dtype[Any] | None, *, writable: bool) -> Store:
    """The array of a file.

    Raises StorageError: the file is not a .npy file; ArgumentTypeError: its elements are not numbers.
    """
    name = place.text
    file = disk.open_file(place.file, name)
    try:
        with disk.reading(name):
            start = os.pread(file, _HEADER_BYTES, 0)
    finally:
        os.close(file)
    shape, fortran, found, offset = _header(start, name)
    elements = numbers(found, name, dtype)
    if (
        fortran and 0 not in shape and math.prod(shape[:-2]) > 1
    ):  # neither the rows nor the columns of a matrix are contiguous
        whole = np.memmap(place.file, elements, "r+" if writable else "r", offset, shape, "F")
        return of_array(whole, name, writable)
    layout = Layout.whole(offset, shape, elements, fortran=fortran)
    return LinesStore(name, "npy", place.file, layout, writable=writable)


def load() -> None:
    """Do nothing, as NumPy is always installed."""


def beside(place: Place) -> list[str]:
    """The other things that a new file at this path would replace: the entries, if the path is a folder."""
    return disk.names(place.file, place.text)


def _header(start: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read the header in a file's first bytes: the shape, the order, the dtype, and the offset of the elements."""
    if start.startswith(b"PK"):
        raise ArgumentTypeError(f"{name}: must hold one array (got an .npz archive); save one array with numpy.save")
    text = BytesIO(start)
    try:
        version = npy.read_magic(text)
        if version not in _HEADERS:
            raise ValueError(f"version {version[0]}.{version[1]} of the format; numeric arrays have 1.0 or 2.0")
        shape, fortran, dtype = _HEADERS[version](text)
        if not all(type(extent) is int and extent >= 0 for extent in shape):
            raise ValueError(f"a shape of {shape}")
    except Exception as error:  # NumPy parses the header as Python, which can raise any error
        remedy = "save it again with numpy.save"
        if b"'<f1'" in start:  # numpy.save writes this for some float8 dtypes, and numpy.load refuses it
            offset = 10 + int.from_bytes(start[8:10], "little")
            remedy = f"if it is float8, pass a map of it, numpy.memmap(path, dtype, 'r', {offset}, shape)"
        raise StorageError(
            f"{name}: must be a file of NumPy's format (got: {' '.join(f'{error!r:.300}'.split())}); {remedy}"
        ) from None
    return shape, fortran, dtype, text.tell()


def create(place: Place, shape: tuple[int, ...], dtype: np.dtype[Any], chunks_hint: tuple[int, int]) -> LinesStore:
    """Make a file with space for all its elements; `chunks_hint` is not used, as the format has no chunks.

    Raises StorageError: it cannot be made, or the disk has too little room.
    """
    header = BytesIO()
    # As numpy.save writes it: for bfloat16 and float8 it states only the width.
    text = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(header, text)
    layout = Layout.whole(len(header.getvalue()), shape, dtype)
    file = disk.open_file(place.file, place.text, writable=True, new=True)
    try:
        disk.write_all(file, memoryview(header.getvalue()), 0, place.text)
        disk.reserve(place.file, layout.span[1], place.text)
    except BaseException:
        place.file.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    return LinesStore(place.text, "npy", place.file, layout, writable=True)
