"""The formats of files with arrays, by their suffixes, and the places that paths name."""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.errors import ArgumentValueError
from tilewright.multiply.blocks.stores.places import UNFINISHED, Format, Place

#: A folder that is one format may hold files of the others, which come first.
FORMATS = (
    Format("NumPy", (".npy",), "tilewright.multiply.blocks.stores.npy"),
    Format("HDF5", (".h5", ".hdf5"), "tilewright.multiply.blocks.stores.hdf5", holds_many=True, one_writer=True),
    Format("zarr", (".zarr",), "tilewright.multiply.blocks.stores.zarr_arrays", is_folder=True, chunk_rows=256),
)


def place_of(given: str | os.PathLike[str], name: str) -> Place:
    """The format and place that a path names; nothing is opened.

    Raises ArgumentValueError: no format has its suffix, or the system has no such paths.

    >>> place_of("x.h5:/a", "a").unfinished().text
    'x.h5.part:/a'
    """
    text = os.fsdecode(given)
    try:
        possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ArgumentValueError(
            f"`{name}` must be a path without NUL and lone surrogates (got {text!a:.200}); name another"
        )
    for found in FORMATS:
        path, _, inside = text.partition(":/") if found.holds_many else (text, "", "")
        parts = Path(path).parts if found.is_folder else (path,)
        if any(part.removesuffix(UNFINISHED).endswith(found.suffixes) for part in parts):
            return Place(Path(path), inside and f"/{inside}", found)
    known = ", ".join(suffix for found in FORMATS for suffix in found.suffixes)
    remedy = "name another" if name.startswith("out") else "read another with NumPy, and pass the array"
    raise ArgumentValueError(
        f"`{name}` must name a file of a known format, by its suffix: {known} (got {text!r}); {remedy}; a dataset "
        "in HDF5 is written x.h5:/name"
    )


def has_other_format(given: str | os.PathLike[str]) -> bool:
    """Whether a path's suffix is that of a known format other than NumPy's."""
    try:
        return not place_of(given, "path").is_numpy
    except ArgumentValueError:
        return False
