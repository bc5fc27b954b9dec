"""Bytes of files: read and written whole or with an error that says what to do. Nothing here holds the interpreter."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.errors import MissingArrayError, MissingFileError, StorageError, TilewrightError
from tilewright.simulate.machine.sizes import size_text

#: No room: on the disk, in the user's share of it, or within the process's limit.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Linux reads and writes no more at once.
#: Source: Linux manual, read(2), notes.
_MOST_BYTES = 1 << 30


def open_file(path: Path, name: str, *, writable: bool = False, new: bool = False) -> int:
    """The descriptor of a file that is there, or must not be.

    Raises StorageError: it cannot be opened.
    """
    flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT | os.O_EXCL if new else 0)
    flags |= os.O_CLOEXEC | os.O_NONBLOCK  # a pipe would be waited for; it is refused when it is read
    with reading(name):
        return os.open(path, flags, 0o666)


def read_all(file: int, into: memoryview, offset: int, name: str) -> None:
    """Fill a buffer from a place of a file.

    Raises StorageError: the file is shorter, or cannot be read.
    """
    done = 0
    with reading(name):
        while done < len(into):
            count = os.preadv(file, [into[done : done + _MOST_BYTES]], offset + done)
            if not count:
                raise cut_short(name, offset + len(into), os.fstat(file).st_size)
            done += count


def write_all(file: int, values: memoryview, offset: int, name: str) -> None:
    """Write a buffer to a place of a file.

    Raises StorageError: the disk is full, or fails.
    """
    done = 0
    with writing(name, len(values), file):
        while done < len(values):
            done += os.pwrite(file, values[done : done + _MOST_BYTES], offset + done)


def reserve(path: Path, size: int, name: str) -> None:
    """Take room on the disk for a file, so that it cannot be full later, and write down that it is there.

    Raises StorageError: there is too little.
    """
    file = open_file(path, name, writable=True)
    try:
        with writing(name, size, file):
            if size:
                os.posix_fallocate(file, 0, size)
            os.fsync(file)
    finally:
        os.close(file)
    sync_path(path.absolute().parent, name)


def sync(file: int, name: str) -> None:
    """Return when what was written to a file is on disk."""
    with writing(name, 0, file):
        os.fsync(file)


def sync_path(path: Path, name: str) -> None:
    """Return when a file, or the names in a folder, are on disk."""
    file = open_file(path, name)
    try:
        sync(file, name)
    finally:
        os.close(file)


def check_room(folder: Path, size: int, name: str) -> None:
    """Refuse what has no room now, where none can be reserved.

    Raises StorageError: there is too little.
    """
    with writing(name, size, folder):
        found = os.statvfs(folder)
        if size > found.f_bavail * found.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def times(path: Path, name: str) -> dict[str, int]:
    """The identity of a file's content: its size, and when it was written.

    Raises StorageError: the file is gone.
    """
    with reading(name):
        found = path.stat()
    return {"bytes": found.st_size, "mtime_ns": found.st_mtime_ns}


def names(path: Path, name: str) -> list[str]:
    """The entries of a folder; nothing for a file, or where there is none.

    Raises StorageError: it cannot be looked into.
    """
    with reading(name):
        return sorted(x.name for x in path.iterdir()) if path.is_dir() else []


def cut_short(name: str, needed: int, there: int) -> StorageError:
    """The error for a file that ends too early."""
    return StorageError(
        f"{name}: must have {needed:,} bytes, as its header says (got {there:,}): it was cut short; copy or "
        "save it again"
    )


@contextlib.contextmanager
def reading(name: str, title: str = "") -> Iterator[None]:
    """Turn what the system, or the reader of the format of this title, says of a file into an error of ours.

    Damage makes readers raise whatever they like: their parsers' RecursionError and MemoryError too.
    """
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        file = name.partition(":/")[0]  # without the dataset in it
        if isinstance(error, FileNotFoundError) and not os.path.lexists(file):
            raise MissingArrayError(str(MissingFileError.of(file)), errno.ENOENT) from None
        if isinstance(error, OSError) and (error.errno or not title):
            raise StorageError(
                f"{name}: must be readable (got: {_said(error)}); check the file and its disk, and run again",
                error.errno,
            ) from None
        if not title:
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise StorageError(
            f"{name}: must be a whole array of {title} (got: {said:.300}); it is damaged or cut short: copy or save it "
            "again"
        ) from error


@contextlib.contextmanager
def writing(name: str, size: int, place: Any) -> Iterator[None]:
    """Report errors of writing `size` bytes; `place` is a descriptor or path on the same disk."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        what = size_text(size) if size else "what was written"
        if error.errno not in _FULL:
            raise StorageError(
                f"{name}: {what} must reach the disk (got: {_said(error)}); what was finished before is kept; "
                "check the disk, and run again",
                error.errno,
            ) from None
        raise StorageError(
            f"{name}: {what} must find room (got: {_said(error)}{_free(place)}); what was finished before is kept; "
            "make room or name another disk, and run again",
            error.errno,
        ) from None


def _said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _free(place: Any) -> str:
    try:
        found = os.statvfs(place)
    except OSError:
        return ""
    return f", {size_text(found.f_bavail * found.f_frsize) or '0'} free"
