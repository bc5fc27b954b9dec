"""Matrices in .npy files: reading with helpful errors, writing completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from tilewright.errors import ArgumentTypeError, ArgumentValueError, MissingFileError
from tilewright.ground.native.interrupts import DeferredSigint

#: Errors that another name would not avoid: a full disk, an exceeded quota, a broken disk.
_HOST_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
#: The first bytes of an .npz archive.
_ZIP = b"PK"


def read(path: Path) -> npt.NDArray[Any]:
    """Read one array; pickled objects are never loaded.

    Raises MissingFileError: the file is missing; ArgumentValueError: it cannot be read, is no .npy file, or is shorter
    than its header says; ArgumentTypeError: it holds something other than one array.
    """
    try:
        if not path.is_file() and path.exists():  # reading a pipe would block
            kind = "a folder" if path.is_dir() else "no regular file"
            raise ArgumentValueError(f"{path}: must be a readable .npy file (got {kind}); name a file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                _check_header(path, file, size)
                file.seek(0)
                array: npt.NDArray[Any] = npy.read_array(file, allow_pickle=False)
            except ArgumentTypeError:
                raise
            except (ValueError, EOFError, OverflowError) as error:
                raise ArgumentValueError(
                    f"{path}: must be a whole .npy file of numbers (got {size:,} bytes: {' '.join(str(error).split())})"
                    f"; save it again with numpy.save"
                ) from None
    except FileNotFoundError:
        raise MissingFileError.of(path) from None
    except OSError as error:
        raise ArgumentValueError(
            f"{path}: must be a readable .npy file (got: {error.strerror}); name one that can be read"
        ) from None
    return array


def _check_header(path: Path, file: IO[bytes], size: int) -> None:
    """Refuse a file that is not an array of numbers or is shorter than its header says, before allocating memory.

    Raises ValueError: with the reason.
    """
    start = file.read(len(npy.MAGIC_PREFIX))
    if start.startswith(_ZIP):
        raise ArgumentTypeError(f"{path}: must hold one array (got an .npz archive); save one array with numpy.save")
    if start != npy.MAGIC_PREFIX:
        raise ValueError("not the .npy format")
    file.seek(0)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(file))
    if read is None:
        raise ValueError("a version of the .npy format that numeric arrays do not have")
    try:
        shape, _, dtype = read(file)
    except Exception as error:  # NumPy evaluates the text: its reader raises what Python's parser does
        raise ValueError(f"a header that cannot be read: {error or type(error).__name__}") from error
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError(f"a shape of {shape}")
    wanted = math.prod(shape) * dtype.itemsize
    if size - file.tell() < wanted:
        raise ValueError(f"fewer than its header promises, {file.tell() + wanted:,} for {dtype} of shape {shape}")


def check_output(path: Path, *, force: bool) -> None:
    """Refuse an output that exists or cannot be made, before any work.

    Raises ArgumentValueError: the file exists and `force` is False, is no regular file, or its folder does not exist.
    """
    try:
        if path.is_dir():
            raise ArgumentValueError(f"{path}: the output must be a file (got a folder); name a file in it")
        if not path.parent.is_dir():
            raise ArgumentValueError(f"{path}: the output's folder must exist (got no {path.parent}); make it first")
        there = path.lstat() if os.path.lexists(path) else None
        end = path.stat() if path.exists() else there
        device = path.is_symlink() and str(path.readlink()).startswith(("/proc/", "/dev/"))  # /dev/stdout, for one
    except OSError as error:
        raise _unwritable(path, error) from None
    if device or (end and not (stat.S_ISREG(end.st_mode) or stat.S_ISLNK(end.st_mode))):
        raise ArgumentValueError(f"{path}: the output must be a regular file (got a device or pipe); name another")
    if there and not force:
        raise ArgumentValueError(
            f"{path}: the output must be a new file (got one that exists); `overwrite=True` replaces it"
        )


def write(path: Path, array: npt.NDArray[Any], *, force: bool) -> None:
    """Write an array under a temporary name and rename it, so that no reader sees a partial file."""
    _whole(path, lambda file: np.save(file, array, allow_pickle=False), force=force)


def write_text(path: Path, text: str, *, force: bool = True) -> None:
    """Write a report in the same way, by default replacing an existing one."""
    write_bytes(path, text.encode(errors="backslashreplace"), force=force)


def write_bytes(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file in the same way."""
    _whole(path, lambda file: file.write(data), force=force)


def _whole(path: Path, fill: Callable[[IO[bytes]], object], *, force: bool) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as file:
            fill(file)
        check_output(path, force=force)  # again: another process may have made it
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        with DeferredSigint(), contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> Exception:
    """The error for a file that could not be written: the user named a wrong one, or the host failed."""
    if error.errno in _HOST_FAILED:
        return OSError(error.errno, error.strerror, str(path))
    said = error.strerror or f"{error}: is the disk full?"  # NumPy reports how much it wrote, not why it failed
    return ArgumentValueError(f"{path}: the output must be writable (got: {said}); name another file")
