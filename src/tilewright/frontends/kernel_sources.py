"""Finds a kernel's source text in the program's files, so that findings have the program's lines."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence

from tilewright.simulate.device.internal_code import internal_folders

_SHORTEST = 12  # least length of a line for a match


def at_its_lines(source: str) -> str:
    """A source with the program's line numbers, if the text is in the file of a running frame.

    Text that others prepend stays; a source that is in no file is unchanged.
    """
    lines = source.split("\n")
    for path in _files():
        found = _place(lines, linecache.getlines(path))
        if found is not None:
            at, line = found
            return "\n".join([*lines[:at], f'#line {line} "{path}"', *lines[at:]])
    return source


def _files() -> Iterator[str]:
    """The user's files among the callers, the innermost first."""
    internal, seen = internal_folders(), set()
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path not in seen and not path.startswith(internal):
            seen.add(path)
            yield path
        frame = frame.f_back  # type: ignore[assignment]


def _place(lines: Sequence[str], text: Sequence[str]) -> tuple[int, int] | None:
    """The first line of a source that is in a file, and its line number there."""
    file = [line.rstrip("\n") for line in text]
    for begin in range(len(lines)):
        wanted = lines[begin]
        if len(wanted.strip()) < _SHORTEST or wanted.startswith("#include"):
            continue
        for at, line in enumerate(file):
            if wanted in line and _same(lines[begin + 1 :], file[at + 1 :]):
                return begin, at + 1
    return None


def _same(rest: Sequence[str], file: Sequence[str]) -> bool:
    """Whether the rest of a source follows in the file; its last line may end inside a line of the file."""
    if len(rest) > len(file):
        return False
    if not rest:
        return True
    *whole, last = rest
    return list(file[: len(whole)]) == whole and file[len(whole)].startswith(last)
