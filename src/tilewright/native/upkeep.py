"""The size of the cache on disk: what is in it, and removing what was not used for longest.

Only files that `store` writes are looked at, in the two folders it writes to: a cache folder that holds something
else keeps it. Any number of processes may do this at once: an entry that another has removed is none, and whoever asks
for it next makes it anew.
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

#: Folders of the cache: the simulated GPU's kernels, and the CPU engine's.
TRANSLATIONS, CPU = "translations", "cpu"
#: How full the cache is left, so that not every entry removes another.
_LEAVE = 0.9
#: A use is noted on disk when the last note is older: reading an entry writes nothing as a rule.
_NOTE_SECONDS = 3600
#: A half-written file of a process that is no more; none is written for that long.
_ABANDONED_SECONDS = 3600
_ENTRY = re.compile(r"[0-9a-f]{64}\.bin")
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
    """What a cache holds.

    Attributes
    ----------
    folder : str
    entries, bytes : int
        Files, and their length together.
    removed_bytes : int
        What was removed just now.
    """

    folder: str
    entries: int
    bytes: int
    removed_bytes: int = 0


def contents(root: Path, removed_bytes: int = 0) -> Contents:
    """What the cache of a root folder holds, half-written files included."""
    found = entries(root)
    return Contents(str(root), len(found), sum(entry.bytes for entry in found), removed_bytes)


def entries(root: Path) -> list[Entry]:
    """Everything that the cache of a root folder holds; nothing where there is no such folder."""
    return [entry for name in (TRANSLATIONS, CPU) for entry in _scan(root / name)]


def note_use(path: Path) -> None:
    """Remember that an entry was used."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _NOTE_SECONDS:
            os.utime(path)


def tidy(root: Path, most_bytes: int) -> int:
    """Remove what was not used for longest until the rest fits, with some room; returns the bytes removed."""
    now = time.time()
    found = entries(root)
    abandoned = [e for e in found if not e.finished and now - e.used > _ABANDONED_SECONDS]
    removed = sum(_remove(entry) for entry in abandoned)
    kept = sorted((e for e in found if e.finished), key=lambda entry: entry.used)
    total = sum(entry.bytes for entry in kept)
    if total <= most_bytes:
        return removed
    for entry in kept:
        if total <= most_bytes * _LEAVE:
            break
        total -= entry.bytes
        removed += _remove(entry)
    return removed


def clear(root: Path) -> int:
    """Remove every entry; returns the bytes removed."""
    return sum(_remove(entry) for entry in entries(root))


def _scan(folder: Path) -> Iterator[Entry]:
    try:
        files = list(os.scandir(folder))
    except OSError:
        return
    for file in files:
        finished = _ENTRY.fullmatch(file.name) is not None
        if not finished and not file.name.startswith(_UNFINISHED):
            continue
        with contextlib.suppress(OSError):  # gone by now
            status = file.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield Entry(file.path, status.st_size, status.st_mtime, finished)


def _remove(entry: Entry) -> int:
    try:
        Path(entry.path).unlink()
    except OSError:  # another process was quicker, or has it open where that forbids it
        return 0
    return entry.bytes
