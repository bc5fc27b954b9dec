"""Translations on disk: machine code and what launching it needs, one file each.

A file is `tilewright-translation 1`, a SHA-256 of what follows, the length of a JSON header, the header and the object
code. It is written to a temporary file and renamed, so a reader sees all of it or nothing. A file that does not check
is ignored with one warning, and replaced.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tilewright.simt.events import EventKind, Site
from tilewright.simt.translate.layout import Layout
from tilewright.simt.translate.translation import Translation

_MAGIC = b"tilewright-translation 1\n"
_SITE_FIELDS = tuple(field.name for field in dataclasses.fields(Site))[1:]
_T = TypeVar("_T")


def load(folder: Path, key: str) -> tuple[Translation, bytes] | None:
    """The translation and machine code kept under a key, or None."""
    return _read(folder, key, _translation)


def store(folder: Path, key: str, translation: Translation, code: bytes) -> None:
    """Keep a translation; a folder that cannot be written is no error."""
    _write(folder, key, _header(translation), code)


def load_code(folder: Path, key: str) -> bytes | None:
    """Machine code that belongs to no kernel, kept under a key, or None."""
    found = _read(folder, key, lambda header: None)
    return None if found is None else found[1]


def store_code(folder: Path, key: str, code: bytes) -> None:
    """Keep machine code that belongs to no kernel."""
    _write(folder, key, {}, code)


def digest(*parts: str) -> str:
    """A key for a sequence of texts."""
    hasher = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        hasher.update(len(raw).to_bytes(8, "little") + raw)
    return hasher.hexdigest()


@functools.cache
def fingerprint() -> str:
    """Changes when any file of the machine does: a checkout that is worked on keeps no stale entries.

    The files' text, because installers give files of every version one time stamp, and asking for the package's
    version costs a fresh process more than reading them does.
    """
    paths, folders = [], [os.fspath(Path(__file__).parents[1])]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    paths.append(entry.path)
    return digest(*(Path(path).read_text("utf-8") for path in sorted(paths)))


def _read(folder: Path, key: str, decode: Callable[[dict[str, Any]], _T]) -> tuple[_T, bytes] | None:
    """An entry's header, decoded, and its code."""
    path = folder / f"{key}.bin"
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC)
    try:
        if blob[:start] != _MAGIC or hashlib.sha256(blob[start + 32 :]).digest() != blob[start : start + 32]:
            raise ValueError("not a whole entry")
        body = blob[start + 32 :]
        length = int.from_bytes(body[:8], "little")
        return decode(json.loads(body[8 : 8 + length])), body[8 + length :]
    except (ValueError, KeyError, TypeError, IndexError):
        warnings.warn(f"cache entry {path.name} is damaged or foreign; it is ignored and made anew", stacklevel=3)
        return None


def _write(folder: Path, key: str, header: dict[str, Any], code: bytes) -> None:
    """Write an entry, whole or not at all."""
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
            file.write(_MAGIC + hashlib.sha256(body).digest() + body)
        temporary.replace(folder / f"{key}.bin")
    except OSError:
        temporary.unlink(missing_ok=True)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _header(translation: Translation) -> dict[str, Any]:
    return {
        "symbol": translation.symbol,
        "warp_bytes": translation.warp_bytes,
        "points": translation.points,
        "spins": translation.spins,
        "prints": translation.prints,
        "sites": [[s.kind.value, *(getattr(s, name) for name in _SITE_FIELDS)] for s in translation.sites],
        "counter_rows": translation.counter_rows,
        "layout": dataclasses.asdict(translation.layout),
    }


def _translation(header: dict[str, Any]) -> Translation:
    layout = header["layout"]
    layout["places"] = {name: (space, offset) for name, (space, offset) in layout["places"].items()}
    return Translation(
        ir="",
        symbol=header["symbol"],
        warp_bytes=header["warp_bytes"],
        points=header["points"],
        spins=header["spins"],
        prints=header["prints"],
        sites=[Site(EventKind(s[0]), *s[1:]) for s in header["sites"]],
        counter_rows=header["counter_rows"],
        layout=Layout(**layout),
    )
