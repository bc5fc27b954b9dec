"""Translations on disk: machine code and what launching it needs, one file each.

A file is `tilewright-translation 1`, a SHA-256 of what follows, the length of a JSON header, the header and the object
code. It is written to a temporary file and renamed, so a reader sees all of it or nothing. A file that does not check
is ignored with one warning, and replaced.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tilewright.simt.events import EventKind, Site
from tilewright.simt.translate.layout import Layout
from tilewright.simt.translate.translation import Translation

_MAGIC = b"tilewright-translation 1\n"


def load(folder: Path, key: str) -> tuple[Translation, bytes] | None:
    """The translation and machine code kept under a key, or None."""
    path = folder / f"{key}.bin"
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    try:
        return _decode(blob)
    except (ValueError, KeyError, TypeError, IndexError):
        warnings.warn(f"cache entry {path.name} is damaged or foreign; it is ignored and made anew", stacklevel=2)
        return None


def store(folder: Path, key: str, translation: Translation, code: bytes) -> None:
    """Keep a translation; a folder that cannot be written is no error."""
    blob = _encode(translation, code)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
    except OSError:
        return
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(blob)
        temporary.replace(folder / f"{key}.bin")
    except OSError:
        temporary.unlink(missing_ok=True)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def digest(*parts: str) -> str:
    """A key for a sequence of texts."""
    hasher = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        hasher.update(len(raw).to_bytes(8, "little") + raw)
    return hasher.hexdigest()


def _encode(translation: Translation, code: bytes) -> bytes:
    header: dict[str, Any] = {
        "symbol": translation.symbol,
        "warp_bytes": translation.warp_bytes,
        "points": translation.points,
        "spins": translation.spins,
        "prints": translation.prints,
        "sites": [[s.kind.value, *dataclasses.astuple(s)[1:]] for s in translation.sites],
        "counter_rows": translation.counter_rows,
        "layout": dataclasses.asdict(translation.layout),
    }
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + code
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(blob: bytes) -> tuple[Translation, bytes]:
    start = len(_MAGIC)
    if blob[:start] != _MAGIC or hashlib.sha256(blob[start + 32 :]).digest() != blob[start : start + 32]:
        raise ValueError("not a whole entry")
    body = blob[start + 32 :]
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    layout = header["layout"]
    layout["places"] = {name: (space, offset) for name, (space, offset) in layout["places"].items()}
    translation = Translation(
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
    return translation, body[8 + length :]
