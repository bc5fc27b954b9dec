"""Finds the line of the user's program in a call stack, and skips the code that compiles, launches and runs it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, ModuleType

from tilewright.ground.native.memo import memo
from tilewright.ground.settings import Nested

#: The folder of this package; a user's folder may have any name, even this one or numba's.
OURS = f"{Path(__file__).parents[2]}{os.sep}"


@memo
def _packages() -> Nested[tuple[str, ...]]:
    return Nested()


def also(packages: Iterable[str]) -> AbstractContextManager[None]:
    """Count the code of packages as internal in the body of `with`."""
    return _packages().within(tuple(packages))


def internal_folders() -> tuple[str, ...]:
    """Folders of this package and of the loaded packages that it uses, with a separator at the end; files of modules.

    >>> __file__.startswith(internal_folders())
    True
    >>> "/projects/tilewright/numba/program.py".startswith(internal_folders())
    False
    """
    names = "numpy", *(_packages().innermost or ())
    return _all_places(tuple(map(sys.modules.get, names)))


@functools.lru_cache(maxsize=64)
def _all_places(loaded: tuple[ModuleType | None, ...]) -> tuple[str, ...]:
    """The folder of this package, and the places of modules."""
    return (OURS, *(place for module in loaded if module is not None for place in _places(module)))


def _places(module: ModuleType) -> list[str]:
    """The folders of a package, or the file of a module."""
    folders = getattr(module, "__path__", None)
    if folders is not None:
        return [f"{folder}{os.sep}" for folder in folders]
    file = getattr(module, "__file__", None)
    return [file] if file else []


def users_frame() -> FrameType | None:
    """The innermost frame of the user's program among the callers; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    internal = internal_folders()
    while frame is not None:  # the program's own module may be the outermost
        if not frame.f_code.co_filename.startswith(internal) and not _is_generated(frame):
            return frame
        frame = frame.f_back
    return None


def _is_generated(frame: FrameType) -> bool:
    """Whether a package wrote a frame's code: it is in no module, or in one below an internal package."""
    name = frame.f_globals.get("__name__")
    return name is None or ("." in name and name.partition(".")[0] in (_packages().innermost or ()))


def line_of(frame: FrameType | None) -> str:
    """`file:line` of a frame; "" for None."""
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def source_line() -> str:
    """`file:line` of the innermost caller in the user's program; "" if there is none."""
    return line_of(users_frame())
