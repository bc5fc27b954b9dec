"""The journal of a product in progress: which product it is, and which tiles of it are on disk, with their checksums.

Lines of JSON. The first identifies the product; each other line is a finished tile. A line is on disk before the next
is written; an incomplete last line, after a crash, is ignored.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tilewright.errors import ArgumentValueError
from tilewright.multiply.blocks.stores import disk

#: Version of the format; journals of other versions are refused.
_VERSION = 1
#: Attempts to lock a journal that other processes remove and make again.
_ATTEMPTS = 8
_FINISH = "`alpha`, `beta`, `epilogue`, its arguments or `algebra`"
#: Words in messages for the keys of a product's identity.
_TITLES = {
    "path": "path", "mtime_ns": "time of change", "bytes": "size", "files": "files' sizes or times of change",
    "crc32": "content", "types": "`dtype` or `acc_dtype`", "finish": _FINISH, "operands": _FINISH, "order": "`order`",
    "tile": "tiles", "version": "Tilewright's version",
}  # fmt: skip


@dataclass(eq=False, slots=True)
class Journal:
    """The journal of one product, open for further lines."""

    path: Path
    product: Mapping[str, Any]  #: The values of its first line.
    done: dict[int, int] = field(default_factory=dict)  #: Tiles on disk -> the CRC-32 of their bytes.

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, path: Path, product: Mapping[str, Any], tiles: int | None = None, *, force: bool = False
    ) -> Iterator[Journal]:
        """Open the journal of a product for the context: the existing one, or a new one.

        `product` identifies the product by JSON values; "a" and "b" are its operands. `tiles` is the number of tiles: a
        line with a larger tile number is invalid, and so is all that follows it. With `force` the journal of another
        product is replaced.

        Raises ArgumentValueError: the file is the journal of another product (the message says what differs), or
        another process uses it.
        """
        asked = {"journal": _VERSION, **_as_json(product)}
        with _locked(path):
            lines = list(_believed(path, tiles))
            first = lines[0][0] if lines else {}
            differing = list(_differing(asked, first)) if lines else []
            if differing and not force:
                raise ArgumentValueError(
                    f"{path}: the unfinished product here differs from this one in {' and '.join(differing)}; use the "
                    f"same values to resume it, or start again with `overwrite=True`"
                )
            if lines and not differing:
                os.truncate(path, lines[-1][1])
                made = cls(path, asked, {line["tile"]: line["crc32"] for line, _ in lines[1:]})
            else:
                made = cls(path, asked)
                made.forget()
            yield made

    @staticmethod
    def tile_of(path: Path) -> tuple[int, int] | None:
        """The rows and columns of the journal's tiles; None if there is no journal."""
        if not path.is_file():  # opening a pipe waits for a writer
            return None
        try:
            with path.open("rb") as file:
                first = _value(file.readline()) or {}
        except OSError:
            return None
        tile = first.get("tile")
        if isinstance(tile, list) and len(tile) == 2 and all(type(x) is int and x > 0 for x in tile):
            return tile[0], tile[1]
        return None

    def add(self, tile: int, crc32: int) -> None:
        """Note that a tile is on disk; the note is on disk when this returns."""
        self._append({"tile": tile, "crc32": crc32})
        self.done[tile] = crc32

    def forget(self) -> None:
        """Remove all tiles from the journal."""
        os.truncate(self.path, 0)
        self.done.clear()
        self._append(self.product)

    def remove(self) -> None:
        """Delete the file: the product is complete."""
        self.path.unlink(missing_ok=True)

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the file against other processes for the context; the system releases a killed process's lock.

    Another process may remove or replace the file before it is locked. So after locking, the path must still name the
    locked file; otherwise the next attempt opens the new one.
    """
    if path.exists() and not path.is_file():
        raise ArgumentValueError(
            f"{path}: the journal of an unfinished product must be a regular file (got a folder, pipe or device); "
            "remove it, or name another output"
        )
    for _ in range(_ATTEMPTS):
        with disk.writing(str(path), 0, path.parent):
            file = path.open("ab")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                break
            if _is_at(path, file):
                yield
                return
    raise ArgumentValueError(
        f"{path}: only one process at a time may work on a result (another does); wait for it, or name another output"
    )


def _is_at(path: Path, file: IO[bytes]) -> bool:
    """Whether a path still names an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON returns them: tuples become lists."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found


def _believed(path: Path, tiles: int | None) -> Iterator[tuple[dict[str, Any], int]]:
    """The values of the valid lines before the first invalid one, each with the offset of the line's end."""
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        value = _value(line)
        if value is None or (end and not _is_tile(value, tiles)):
            return
        end += len(line)
        yield value, end


def _value(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None if the line is incomplete or invalid."""
    try:
        value = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_tile(line: Mapping[str, Any], tiles: int | None) -> bool:
    if line.keys() != {"tile", "crc32"} or not all(type(x) is int and x >= 0 for x in line.values()):
        return False
    return tiles is None or line["tile"] < tiles


def _differing(asked: Mapping[str, Any], noted: Mapping[str, Any]) -> Iterator[str]:
    """The differences in words. An operand with another path is named by its path alone."""
    for name in {**asked, **noted}:
        now, before = asked.get(name), noted.get(name)
        if now == before:
            continue
        if not (isinstance(now, dict) and isinstance(before, dict)):
            yield _TITLES.get(name, f"`{name}`")
            continue
        parts = [x for x in {**now, **before} if now.get(x) != before.get(x)]
        of = "" if name == "arithmetic" else f" of `{name}`"
        yield " and ".join(dict.fromkeys(_TITLES.get(x, x) + of for x in (["path"] if "path" in parts else parts)))
