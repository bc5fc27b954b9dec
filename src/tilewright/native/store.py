"""Machine code on disk: one file an entry, with a JSON header of what using it needs.

A file is a magic line, a SHA-256 of its key and of what follows, the length of the header, the header and the object
code. It is written to a temporary file and renamed, so a reader sees all of it or nothing. A file that does not check
is ignored with one warning, and replaced. There are no pickles. All entries together stay within a setting's bytes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tilewright.native import upkeep
from tilewright.settings import Settings

_MAGIC = b"tilewright-code 1\n"
#: The cache's size is looked at after every sixteenth write: digests that begin so are as many.
_LOOKS = "0"
_T = TypeVar("_T")


def digest(*parts: str) -> str:
    """A key for a sequence of texts."""
    hasher = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        hasher.update(len(raw).to_bytes(8, "little") + raw)
    return hasher.hexdigest()


@functools.cache
def fingerprint(folder: str) -> str:
    """Changes when any Python file under a folder does: a checkout that is worked on keeps no stale entries.

    The files' text, because installers give files of every version one time stamp, and asking for the package's
    version costs a fresh process more than reading them does.
    """
    paths, folders = [], [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    paths.append(entry.path)
    return digest(*(Path(path).read_text("utf-8") for path in sorted(paths)))


def _checksum(key: str, body: bytes) -> bytes:
    """Of the key too: an entry under another's name must not be used as that one's."""
    return hashlib.sha256(key.encode() + body).digest()


def has(folder: Path, key: str) -> bool:
    """Whether there is an entry, sound or not."""
    return (folder / f"{key}.bin").exists()


def read(folder: Path, key: str, decode: Callable[[dict[str, Any]], _T]) -> tuple[_T, bytes] | None:
    """An entry's header, decoded, and its code; None when there is no sound one."""
    path = folder / f"{key}.bin"
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC)
    try:
        body = blob[start + 32 :]
        if blob[:start] != _MAGIC or _checksum(key, body) != blob[start : start + 32]:
            raise ValueError("not a whole entry, or another's")
        length = int.from_bytes(body[:8], "little")
        entry = decode(json.loads(body[8 : 8 + length])), body[8 + length :]
    except (ValueError, KeyError, TypeError, IndexError):
        warnings.warn(f"cache entry {path.name} is damaged or foreign; it is ignored and made anew", stacklevel=3)
        return None
    upkeep.note_use(path)
    return entry


def write(folder: Path, key: str, header: dict[str, Any], code: bytes) -> None:
    """Write an entry, whole or not at all, and now and then remove old ones.

    A folder that cannot be written is no error. Where the setting allows no bytes, nothing is written.
    """
    settings = Settings.from_environ()
    if not settings.cache_bytes:
        return
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + code
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
    except OSError:
        return
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _checksum(key, body) + body)
        temporary.replace(folder / f"{key}.bin")
    except OSError:
        temporary.unlink(missing_ok=True)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if key.startswith(_LOOKS):
        upkeep.tidy(settings.cache_dir, settings.cache_bytes)
