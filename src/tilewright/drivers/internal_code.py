"""Whose code a line is: what launches, compiles and runs programs for the user is nobody's mistake to look for."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

#: Where this package lies; a user's folder may have any name, this one's and numba's included.
OURS = f"{Path(__file__).parents[1]}{os.sep}"
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
    """Folders, each with a separator at its end, of this package and of those of what is loaded by now.

    >>> __file__.startswith(internal_folders())
    True
    >>> "/projects/tilewright/numba/program.py".startswith(internal_folders())
    False
    """
    loaded = (sys.modules[name] for name in _PACKAGES if name in sys.modules)
    return (OURS, *(f"{folder}{os.sep}" for module in loaded for folder in module.__path__))


def users_frame() -> FrameType | None:
    """The innermost of the user's program that called what asks this; None where none is the user's."""
    frame: FrameType | None = sys._getframe(1)
    internal = internal_folders()
    while frame is not None:  # the program's own module may be the outermost
        if not frame.f_code.co_filename.startswith(internal):
            return frame
        frame = frame.f_back
    return None


def line_of(frame: FrameType | None) -> str:
    """`file:line` of a frame; "" of none."""
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def source_line() -> str:
    """`file:line` at which the user's program called what asks this; "" where no line is the user's."""
    return line_of(users_frame())
