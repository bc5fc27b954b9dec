"""The size of the cache on disk: what is in it, and removal of the least recently used entries.

Only files that `store` and tuners write count, in the folders that they write to: other files in the cache's folder are
never touched. Any number of processes may do this at once: an entry that another process removed counts as absent, and
is made again when it is next needed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.ground.native import secure_files

#: The part of the cache that removal keeps, so that not every write removes an entry.
_KEPT_FRACTION = 0.9
#: A use is recorded on disk only if the last record is older, so most reads write nothing.
_NOTE_SECONDS = 3600
#: A temporary file older than this belongs to a process that ended; no write takes that long.
_ABANDONED_SECONDS = 3600
_ENTRY = re.compile(r"[0-9a-f]{64}\.(bin|json)")
_UNFINISHED = ".new-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the cache: where it is, how long, and when it was last used, in seconds since the epoch."""

    path: str
    bytes: int
    used: float
    finished: bool = True


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a cache."""

    folder: str
    #: `entries`, `bytes`: files, and their length together.
    entries: int
    bytes: int
    removed_bytes: int = 0  #: What was removed just now.
    unusable: str = ""  #: Why the cache cannot be used; "" if it can.


def contents(root: Path | None, removed_bytes: int = 0) -> Contents:
    """The content of the cache in a root folder, half-written files included."""
    if root is None:
        return Contents("", 0, 0, unusable="this user has no home folder")
    found, unusable = entries(root), ""
    try:
        secure_files.folder(root, secure_files.TRANSLATIONS, make=False)
    except secure_files.ExposedError as error:
        unusable = str(error)
    except OSError:
        pass  # nothing is cached yet
    return Contents(str(root), len(found), sum(entry.bytes for entry in found), removed_bytes, unusable)


def entries(root: Path) -> list[Entry]:
    """Everything that the cache of a root folder holds; nothing if there is none that only the user can write."""
    return [entry for name in secure_files.ROOMS if name != secure_files.POCL for entry in _scan(root, name)]


def note_use(path: Path) -> None:
    """Remember that an entry was used."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _NOTE_SECONDS:
            os.utime(path)


def tidy(root: Path, most_bytes: int) -> int:
    """Remove the least recently used entries until the rest fits, with some space left; returns the bytes removed."""
    now = time.time()
    found = entries(root)
    abandoned = [e for e in found if not e.finished and now - e.used > _ABANDONED_SECONDS]
    removed = sum(_remove(entry) for entry in abandoned)
    kept = sorted((e for e in found if e.finished), key=lambda entry: entry.used)
    total = sum(entry.bytes for entry in kept)
    if total <= most_bytes:
        return removed
    for entry in kept:
        if total <= most_bytes * _KEPT_FRACTION:
            break
        total -= entry.bytes
        removed += _remove(entry)
    return removed


def clear(root: Path | None) -> int:
    """Remove every entry; returns the bytes removed."""
    return 0 if root is None else sum(_remove(entry) for entry in entries(root))


def _scan(root: Path, room: str) -> Iterator[Entry]:
    try:
        files = list(os.scandir(secure_files.folder(root, room, make=False)))
    except OSError:
        return
    for file in files:
        finished = _ENTRY.fullmatch(file.name) is not None
        if not finished and not file.name.startswith(_UNFINISHED):
            continue
        with contextlib.suppress(OSError):  # removed meanwhile
            status = file.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield Entry(file.path, status.st_size, status.st_mtime, finished)


def _remove(entry: Entry) -> int:
    try:
        Path(entry.path).unlink()
    except OSError:  # another process removed it, or has it open where that forbids it
        return 0
    return entry.bytes
