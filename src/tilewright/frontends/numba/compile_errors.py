"""Errors from compiling a user's kernel, with the line of the kernel."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Local variables of numba-cuda's compiler that hold the current object, with its place in the source.
_LOOKED_AT = ("inst", "constraint", "interp", "self")


def add_line(error: Exception, function: Any) -> None:
    """Add a note with the kernel's line to an error of numba-cuda that does not have it.

    The error must be as it was caught: its traceback has the compiler's frames, whose local variables have the place.

    >>> error = TypeError("no such type")
    >>> add_line(error, compile)  # no Python function: no place is known
    >>> getattr(error, "__notes__", [])
    []
    """
    code = getattr(function, "__code__", None)
    if code is None or f'{Path(code.co_filename).name}", line' in str(error):  # numba's path is relative
        return
    line = max(_lines(error, code.co_filename), key=lambda found: found[0], default=(0, code.co_firstlineno))[1]
    text = linecache.getline(code.co_filename, line).strip()
    error.add_note(f'in kernel {function.__name__}: File "{code.co_filename}", line {line}:\n    {text}')


def _lines(error: Exception, file: str) -> Iterator[tuple[int, int]]:
    """The depth of each compiler frame that processes a line of the file, and the line."""
    frame, depth = error.__traceback__, 0
    while frame is not None:
        known = frame.tb_frame.f_locals
        for name in _LOOKED_AT:
            place: Any = getattr(known.get(name), "loc", None)
            if getattr(place, "filename", None) == file and place.line:
                yield depth, int(place.line)
        frame, depth = frame.tb_next, depth + 1
