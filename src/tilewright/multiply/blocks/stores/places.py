"""The place of an array: a file or folder, and the name in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Place:
    """A path that names an array."""

    file: Path
    inside: str  #: The dataset in a file of many; "" for the only one.
    format: Format

    @property
    def is_numpy(self) -> bool:
        """Whether it is NumPy's own format."""
        return self.format.title == "NumPy"

    @property
    def text(self) -> str:
        """The path as people write it."""
        return f"{self.file}:{self.inside}" if self.inside else str(self.file)

    def unfinished(self) -> Place:
        """The place of an unfinished result that will be moved here."""
        return replace(self, file=self.file.with_name(self.file.name + UNFINISHED))
