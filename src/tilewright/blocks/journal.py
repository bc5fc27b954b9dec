"""The journal of a product in progress: which product it is, and which tiles of it are on disk, with their checksums.

Lines of JSON. The first says what is computed; each other one a tile that is done. A line is on disk before the next
tile's is written, and a last line that was torn off by a crash is no line.
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

#: Of the lines' form; another one's journals are refused.
_VERSION = 1
_FINISH = "`alpha`, `beta`, `epilogue`, its arguments or `algebra`"
#: What people call the parts of an operand's identity, of the arithmetic's, and the others.
_TITLES = {
    "path": "path", "mtime_ns": "time of change", "bytes": "size", "files": "files' sizes or times of change",
    "crc32": "content", "types": "`dtype` or `acc_dtype`", "finish": _FINISH, "operands": _FINISH, "order": "`order`",
    "tile": "tiles", "version": "Tilewright's version",
}  # fmt: skip


@dataclass(eq=False, slots=True)
class Journal:
    """One product's, open for further lines."""

    path: Path
    product: Mapping[str, Any]  #: What its first line says.
    done: dict[int, int] = field(default_factory=dict)  #: Tiles on disk -> the CRC-32 of their bytes.

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, path: Path, product: Mapping[str, Any], tiles: int | None = None, *, force: bool = False
    ) -> Iterator[Journal]:
        """The journal of a product, for as long as it is worked at: what the file says of it, or a new one.

        `product` is what makes it the same: JSON values by name, the operands' under "a" and "b". It has so many
        `tiles`; a line of another tile ends what is believed. With `force` another product's journal makes room.

        Raises
        ------
        ArgumentValueError
            The file is another product's; the message says what differs. Or another process works at it.
        """
        asked = {"journal": _VERSION, **_as_json(product)}
        with path.open("ab") as file:
            _lock(file, path)
            lines = list(_believed(path, tiles))
            first = lines[0][0] if lines else {}
            differing = list(_differing(asked, first)) if lines else []
            if differing and not force:
                raise ArgumentValueError(
                    f"{path}: a product was begun here that differs from this one in {' and '.join(differing)}; give "
                    "back what it was begun with to go on, or begin anew with --force"
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
        """The rows and columns of the tiles that were begun; None where nothing was."""
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
        """Take the tiles out: none is done."""
        os.truncate(self.path, 0)
        self.done.clear()
        self._append(self.product)

    def remove(self) -> None:
        """Take the file away: the product is whole."""
        self.path.unlink(missing_ok=True)

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _lock(file: IO[bytes], path: Path) -> None:
    """Keep other processes away until the file is closed; a process that is killed gives it back."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ArgumentValueError(
            f"{path}: one process at a time may work at a result (another does); wait for it, or name another output"
        ) from None


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as a file gives them back: tuples are lists there."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found


def _believed(path: Path, tiles: int | None) -> Iterator[tuple[dict[str, Any], int]]:
    """Lines that ended, up to the first that makes no sense, and where in the file each ends."""
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        value = _value(line)
        if value is None or (end and not _is_tile(value, tiles)):
            return
        end += len(line)
        yield value, end


def _value(line: bytes) -> dict[str, Any] | None:
    """The object that a whole line holds."""
    try:
        value = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_tile(line: Mapping[str, Any], tiles: int | None) -> bool:
    if line.keys() != {"tile", "crc32"} or not all(type(x) is int and x >= 0 for x in line.values()):
        return False
    return tiles is None or line["tile"] < tiles


def _differing(asked: Mapping[str, Any], begun: Mapping[str, Any]) -> Iterator[str]:
    """What is another now, in people's words: the parts of an operand, but for one at another path."""
    for name in {**asked, **begun}:
        now, before = asked.get(name), begun.get(name)
        if now == before:
            continue
        if not (isinstance(now, dict) and isinstance(before, dict)):
            yield _TITLES.get(name, f"`{name}`")
            continue
        parts = [x for x in {**now, **before} if now.get(x) != before.get(x)]
        of = "" if name == "arithmetic" else f" of `{name}`"
        yield " and ".join(dict.fromkeys(_TITLES.get(x, x) + of for x in (["path"] if "path" in parts else parts)))
