"""Matrices in .npy files: read with errors a person can act on, written whole or not at all."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError


def read(path: Path) -> npt.NDArray[Any]:
    """Read one array; pickled objects are never loaded.

    Raises
    ------
    ArgumentValueError
        The file is missing, cannot be read, is no .npy file, or is shorter than its header says.
    ArgumentTypeError
        The file holds something other than one array.
    """
    try:
        with path.open("rb") as file:
            if path.is_file():
                np.load(path, mmap_mode="r", allow_pickle=False)  # its header's size is compared with the file's
            array = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise ArgumentValueError(f"{path}: no such file; save a matrix there with numpy.save") from None
    except OSError as error:
        raise ArgumentValueError(f"{path}: must be a readable .npy file (got: {error.strerror})") from None
    except (ValueError, EOFError, pickle.UnpicklingError) as error:
        raise ArgumentValueError(
            f"{path}: must be a whole .npy file of numbers (got {_size(path)}: {_reason(error)}); "
            f"save it again with numpy.save"
        ) from None
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(f"{path}: must hold one array (got an .npz archive); save one array with numpy.save")
    return array


def check_output(path: Path, *, force: bool) -> None:
    """Refuse an output that exists or cannot be made, before any work is done.

    Raises
    ------
    ArgumentValueError
        The file exists and `force` is False, or its folder does not.
    """
    if path.is_dir():
        raise ArgumentValueError(f"{path}: the output must be a file (got a folder); name a file in it")
    if not path.parent.is_dir():
        raise ArgumentValueError(f"{path}: the output's folder must exist (got {path.parent}); make it first")
    if path.exists() and not force:
        raise ArgumentValueError(f"{path}: the output exists; use --force to replace it")


def write(path: Path, array: npt.NDArray[Any], *, force: bool) -> None:
    """Write an array under a temporary name and move it into place, so that no reader sees half a file."""
    _whole(path, lambda file: np.save(file, array, allow_pickle=False), force=force)


def _whole(path: Path, fill: Callable[[IO[bytes]], None], *, force: bool) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as file:
            fill(file)
        check_output(path, force=force)  # again: someone may have been quicker
        temporary.replace(path)
    except OSError as error:
        raise ArgumentValueError(f"{path}: the output could not be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


def _size(path: Path) -> str:
    return f"{path.stat().st_size:,} bytes"


def _reason(error: Exception) -> str:
    """Return NumPy's reason in one line, less its advice about pickles."""
    text = " ".join(str(error).split())
    if "pickle" in text.lower() or "Python objects" in text:
        return "not the .npy format, or an array of Python objects"
    if "mmap length" in text:
        return "fewer than its header promises"
    return text
