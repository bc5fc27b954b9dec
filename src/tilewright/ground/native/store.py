"""Machine code on disk: one file an entry, with a JSON header that has what loading it needs.

A file is a magic line, a SHA-256 of its key and of what follows, the length of the header, the header and the object
code. It is written to a temporary file and renamed, so a reader sees all of it or nothing. A file that fails its
checksum is ignored with one warning, and replaced. There are no pickles. The total size is bounded by a setting.

Only files that nobody but the user can have written are read (`private`). If the cache's folder cannot be used, a
temporary one replaces it until the process ends, with one warning. If that fails too, nothing is kept.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tilewright.errors import warn
from tilewright.ground.native import eviction, secure_files
from tilewright.ground.native.memo import memo
from tilewright.ground.settings import Settings

_MAGIC = b"tilewright-code 1\n"
#: The cache's size is checked, which reads all its folders, about each time that so small a part of it was written.
_CHECKED_PART = 1 / 64
#: Files that generated code and predicted times depend on.
_SOURCES = (".py", ".ptx", ".h", ".bc", ".cl", ".cu", ".cuh", ".hpp", ".toml")
_T = TypeVar("_T")


def digest(*parts: str) -> str:
    """A key for a sequence of texts."""
    hasher = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        hasher.update(len(raw).to_bytes(8, "little") + raw)
    return hasher.hexdigest()


#: The package's own folder.
_PACKAGE = Path(__file__).parents[2]


@functools.cache
def fingerprint(*rooms: str) -> str:
    """A digest of the sources in these rooms, so that a checkout under development keeps no stale entries.

    A room is a folder of the package, such as `ground/native` or `multiply/backends/cpu`. The digest covers bytes, not
    times, because installers give the files of every version one time stamp. Reading the files takes a fresh process
    less time than asking for the package's version.
    """
    paths, folders = [], [os.fspath(_PACKAGE / room) for room in rooms]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(_SOURCES):
                    paths.append(entry.path)
    hasher = hashlib.sha256()
    for path in sorted(paths):
        hasher.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return hasher.hexdigest()


def _checksum(key: str, body: bytes) -> bytes:
    """Covers the key too: an entry that was renamed to another's name must not be used."""
    return hashlib.sha256(key.encode() + body).digest()


def room(name: str) -> Path | None:
    """A folder of the cache, by its name in `upkeep`: the user's or a temporary one; None if there is neither."""
    settings = Settings.from_environ()
    try:
        if settings.cache_dir is None:
            raise FileNotFoundError("this user has no home folder")
        return secure_files.folder(settings.cache_dir, name)
    except OSError as error:
        return _stand_in().room(name, error) if settings.cache_bytes else None


class _StandIn:
    """The temporary cache of a process that cannot use the user's."""

    def __init__(self) -> None:
        self._warned = False
        try:
            self._root: Path | None = secure_files.temporary_folder()
        except OSError:
            self._root = None
        else:
            atexit.register(_remove, self._root, os.getpid())

    def room(self, name: str, reason: OSError) -> Path | None:
        """One of its folders; the first call warns, with the reason."""
        try:
            found = None if self._root is None else secure_files.folder(self._root, name)
        except OSError:
            found = None
        if not self._warned:
            self._warned = True
            what = f"{reason.strerror}: {reason.filename}" if reason.filename else str(reason)
            instead = "in a temporary folder until this process ends" if found else "in memory alone"
            warn(
                f"compiled kernels cannot be kept in the user's cache ({what}); they are kept {instead}; "
                "set TILEWRIGHT_CACHE_DIR to a folder of your own that no one else may write"
            )
        return found


@memo
def _stand_in() -> _StandIn:
    """The process's only instance."""
    return _StandIn()


def _remove(root: Path, process: int) -> None:
    """Remove the temporary cache, but only in the process that made it and not in its children."""
    if os.getpid() == process:
        shutil.rmtree(root, ignore_errors=True)


def has(folder: Path | None, key: str) -> bool:
    """Whether there is an entry, valid or not."""
    return folder is not None and (folder / f"{key}.bin").exists()


def read(folder: Path | None, key: str, decode: Callable[[dict[str, Any]], _T]) -> tuple[_T, bytes] | None:
    """An entry's header, decoded, and its code; None if there is no valid one that only the user can have written."""
    if folder is None:
        return None
    path = folder / f"{key}.bin"
    try:
        blob = secure_files.read(path)
    except secure_files.ExposedError as error:
        warn(f"cache entry ignored and made again: {error}")
        return None
    except OSError:
        return None
    start = len(_MAGIC)
    try:
        body = blob[start + 32 :]
        if blob[:start] != _MAGIC or _checksum(key, body) != blob[start : start + 32]:
            raise ValueError("incomplete, or the entry of another key")
        length = int.from_bytes(body[:8], "little")
        entry = decode(json.loads(body[8 : 8 + length])), body[8 + length :]
    except (ValueError, KeyError, TypeError, IndexError):
        warn(f"cache entry {path.name} is damaged or belongs to another key; it is ignored and made again")
        return None
    eviction.note_use(path)
    return entry


def write(folder: Path | None, key: str, header: dict[str, Any], code: bytes) -> None:
    """Write an entry, whole or not at all, and sometimes remove old ones.

    A folder that cannot be written is not an error. If the setting allows no bytes, nothing is written.
    """
    settings = Settings.from_environ()
    if folder is None or not settings.cache_bytes:
        return
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + code
    checksum = _checksum(key, body)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        secure_files.write(folder / f"{key}.bin", _MAGIC + checksum + body)
    except OSError:
        return
    chance = len(body) / (settings.cache_bytes * _CHECKED_PART)
    if int.from_bytes(checksum[:4], "little") < chance * 2**32:  # as good as random
        eviction.tidy(folder.parent, settings.cache_bytes)
