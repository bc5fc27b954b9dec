"""Whose code a line is: code that launches, compiles and runs programs for the user has no user's line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

#: The folder of this package; a user's folder may have any name, even this one or numba's.
OURS = f"{Path(__file__).parents[2]}{os.sep}"
_PACKAGES = (
    "numba",
    "numba.cuda",
    "cuda.core",
    "cuda.bindings",
    "numpy",
    "torch",
    "triton",
    "cupy",
    "cupyx",
    "numba_cuda_mlir",
)


def internal_folders() -> tuple[str, ...]:
    """Folders of this package and of the loaded packages that it uses, each with a separator at its end.

    >>> __file__.startswith(internal_folders())
    True
    >>> "/projects/tilewright/numba/program.py".startswith(internal_folders())
    False
    """
    loaded = (sys.modules.get(name) for name in _PACKAGES)
    return (OURS, *(f"{folder}{os.sep}" for module in loaded for folder in getattr(module, "__path__", ())))


def users_frame() -> FrameType | None:
    """The innermost frame of the user's program among the callers; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    internal = internal_folders()
    while frame is not None:  # the program's own module may be the outermost
        if not frame.f_code.co_filename.startswith(internal):
            return frame
        frame = frame.f_back
    return None


def line_of(frame: FrameType | None) -> str:
    """`file:line` of a frame; "" for None."""
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def source_line() -> str:
    """`file:line` of the innermost caller in the user's program; "" if there is none."""
    return line_of(users_frame())
