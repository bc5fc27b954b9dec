"""Where an array is kept: a file or folder, and what in it, as people write it; the formats, by their suffixes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.errors import ArgumentValueError

#: Added to the names of results that are not finished.
UNFINISHED = ".part"


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files."""

    title: str
    suffixes: tuple[str, ...]
    module: str  #: With `of_path` and `create`.
    holds_many: bool = False  #: Whether a path goes on inside the file, behind a colon.
    one_writer: bool = False  #: Whether one process at a time may write it.
    is_folder: bool = False  #: Whether it is a folder, so that a path may go on by folders in it.
    #: Rows of a chunk of a new array, which is written whole: else it would be read, put together and written for each
    #: few of its rows. A strip of them is in memory, so they are not many.
    chunk_rows: int = 1


#: A folder that is one format may hold files of the others, which come first.
FORMATS = (
    Format("NumPy", (".npy",), "tilewright.blocks.stores.npy"),
    Format("HDF5", (".h5", ".hdf5"), "tilewright.blocks.stores.hdf5", holds_many=True, one_writer=True),
    Format("zarr", (".zarr",), "tilewright.blocks.stores.zarr_arrays", is_folder=True, chunk_rows=256),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A path that names an array.

    >>> Place.of("x.h5:/a", "a").unfinished().text
    'x.h5.part:/a'
    """

    file: Path
    inside: str  #: The dataset in a file of many; "" for the only one.
    format: Format

    @classmethod
    def of(cls, given: str | os.PathLike[str], name: str) -> Place:
        """What a path says; nothing is opened.

        Raises ArgumentValueError: no format has its suffix, or the system has no such paths.
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
                return cls(Path(path), inside and f"/{inside}", found)
        known = ", ".join(suffix for found in FORMATS for suffix in found.suffixes)
        remedy = "name another" if name.startswith("out") else "read another with NumPy, and pass the array"
        raise ArgumentValueError(
            f"`{name}` must name a file of a known format, by its suffix: {known} (got {text!r}); {remedy}; a dataset "
            "in HDF5 is written x.h5:/name"
        )

    @classmethod
    def has_other_format(cls, given: str | os.PathLike[str]) -> bool:
        """Whether a path's suffix is that of a known format other than NumPy's."""
        try:
            return not cls.of(given, "path").is_numpy
        except ArgumentValueError:
            return False

    @property
    def is_numpy(self) -> bool:
        """Whether it is NumPy's own format."""
        return self.format is FORMATS[0]

    @property
    def text(self) -> str:
        """The path as people write it."""
        return f"{self.file}:{self.inside}" if self.inside else str(self.file)

    def unfinished(self) -> Place:
        """Where a result is made that will be moved here."""
        return replace(self, file=self.file.with_name(self.file.name + UNFINISHED))
