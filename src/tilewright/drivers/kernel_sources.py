"""Where a kernel's source text stands in the program, so that findings are at the program's lines."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence

from tilewright.drivers.internal_code import internal_folders

_SHORTEST = 12  # characters of a line by which a text is found


def at_its_lines(source: str) -> str:
    """A source whose lines are the program's, where the text stands in a file of a frame that is running now.

    What others put before the text stays; what stands nowhere is left as it is.
    """
    lines = source.split("\n")
    for path in _files():
        found = _place(lines, linecache.getlines(path))
        if found is not None:
            at, line = found
            return "\n".join([*lines[:at], f'#line {line} "{path}"', *lines[at:]])
    return source


def _files() -> Iterator[str]:
    """Files of the user's that called what asks this, the innermost first."""
    internal, seen = internal_folders(), set()
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path not in seen and not path.startswith(internal):
            seen.add(path)
            yield path
        frame = frame.f_back  # type: ignore[assignment]


def _place(lines: Sequence[str], text: Sequence[str]) -> tuple[int, int] | None:
    """The first line of a source that is a file's, and its number there."""
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
    """Whether the rest of a source is what follows in a file; its last line may end in the middle of one."""
    if len(rest) > len(file):
        return False
    if not rest:
        return True
    *whole, last = rest
    return list(file[: len(whole)]) == whole and file[len(whole)].startswith(last)
