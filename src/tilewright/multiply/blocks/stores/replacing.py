"""A whole result put in its place, and unfinished ones taken away."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def move(part: Path, place: Path) -> None:
    """Put a whole result in its place; what was there goes when the new one stands.

    A file takes the place of a file in one step. A folder cannot: what was there is in a new folder
    beside it meanwhile, whose name nobody else has. A kill in between leaves both there.
    """
    aside = None
    if place.is_dir() or (part.is_dir() and place.exists()):
        aside = Path(tempfile.mkdtemp(prefix=f"{place.name}.replaced-", dir=place.parent))
        place.rename(aside / place.name)
    part.replace(place)
    if aside is not None:
        remove(aside / place.name)
        aside.rmdir()
    with suppress(OSError):  # a folder that cannot be opened keeps its entries in its own time
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove(path: Path) -> None:
    """Take away a file or a folder, if it is there; of a link, the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
