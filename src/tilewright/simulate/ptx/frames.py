"""The source lines of an instruction: its own line, and the lines of the calls that were inlined.

A compiler writes one `.loc` for each of them, the outermost first. Each names the place of the call that was inlined,
and that place has an earlier `.loc` of its own. So the chain follows, for each place, the last `.loc` before.

A compiler that merges two branches writes line 0. Such code is reported at the nearest earlier line.

A library function that a kernel calls (random numbers, grid barriers, a CUDA header) does what its caller asks. So what
happens inside it is reported at the caller's line.

Source: PTX ISA, 11.5.2 (`.loc`: `function_name`, `inlined_at`); LLVM, "Source Level Debugging" (line 0), and
`MCAsmStreamer` (how strings are quoted).
"""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tilewright.simulate.ptx.tree import Location

Coordinates = tuple[int, int, int]
#: The library folders at the start of a file's path: of an installed package, of numba-cuda in any place, and of CUDA's
#: headers where its installers, Conda and Debian put them.
_PACKAGE = re.compile(
    r".*?/(?:(?:site|dist)-packages/[^/:]+|numba_cuda(?=/numba/)"
    r"|(?:cuda[^/]*|targets/[^/]+-linux|usr|usr/local)/include(?=/))"
)
#: What follows a backslash in a quoted name: three octal digits of a byte, or a character.
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[^\n])")
#: The folder that numba-cuda puts before a name that is not a file's.
_NO_FILE = re.compile(r"^/.*/(?=<[^/]*>$)")
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class Inlining:
    """Makes the locations of one function's `.loc` directives, in the order of the text.

    >>> inlining = Inlining()
    >>> call = inlining.located((1, 20, 3))
    >>> inlining.located((2, 9, 1), (1, 20, 3)).inlined_at is call
    True
    """

    def __init__(self) -> None:
        self._last: dict[Coordinates, Location] = {}
        self._nearest: Location | None = None

    def located(self, here: Coordinates, inlined_at: Coordinates | None = None) -> Location:
        """The location of a directive. A line that was inlined into itself is in its chain once.

        Line 0 outside inlined code becomes the nearest earlier line.
        """
        if not here[1] and inlined_at is None and self._nearest is not None:
            return self._nearest
        parent = None if inlined_at is None else self._last.get(inlined_at) or Location(*inlined_at)
        above = parent
        while above is not None:
            if (above.file, above.line, above.column) == here:
                parent = above.inlined_at
                break
            above = above.inlined_at
        self._last[here] = self._nearest = location = Location(*here, parent)
        return location


def file_name(quoted: str) -> str:
    r"""A file's name from the quoted text of `.file`, where other than ASCII, quotes and backslashes are escaped.

    Text that is in no file, such as a notebook's cell, has a name in angle brackets. Compilers put a folder before it.

    >>> file_name(r"d\303\251j\303\240 \"vu\"\\k.py") == 'd\u00e9j\u00e0 "vu"\\k.py'
    True
    """
    name = _ESCAPE.sub(_byte, quoted.encode(errors="replace")).decode(errors="replace")
    return _NO_FILE.sub("", name)


def _byte(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes([int(escaped, 8) & 0xFF]) if escaped[0] in b"01234567" else _LETTERS.get(escaped, escaped)


def quoted(file: str) -> str:
    r"""A file's name as the text between the quotes of `.file`; :func:`file_name` reads it.

    >>> quoted("d\u00e9j\u00e0.py"), file_name(quoted("a\n\t7\"\\.py")) == "a\n\t7\"\\.py"
    ('d\\303\\251j\\303\\240.py', True)
    """
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in file.encode(errors="replace"))


def called_from(location: Location | None, call: Location | None) -> Location | None:
    """A location in a function that was called from another: as if that function had been inlined there.

    >>> called_from(Location(2, 9), Location(1, 20))
    Location(file=2, line=9, column=0, inlined_at=Location(file=1, line=20, column=0, inlined_at=None))
    """
    if location is None or (not location.line and location.inlined_at is None):
        return call
    return location if call is None else replace(location, inlined_at=called_from(location.inlined_at, call))


def frames(location: Location | None, files: Mapping[int, str]) -> tuple[str, ...]:
    """`file:line` of a location and of each one it was inlined at, from the innermost on; those without a line are not.

    >>> frames(Location(2, 9, 1, Location(1, 20, 3)), {1: "mine.py", 2: "random.py"})
    ('random.py:9', 'mine.py:20')
    """
    found = []
    while location is not None:
        if location.line and location.file in files:
            found.append(f"{files[location.file]}:{location.line}")
        location = location.inlined_at
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def package(place: str) -> str:
    """The installed package that a file or `file:line` belongs to, by its folder; "" for what the user wrote.

    >>> package("/env/lib/python3.12/site-packages/numba_cuda/numba/cuda/random.py:107")
    '/env/lib/python3.12/site-packages/numba_cuda'
    >>> package("/usr/local/cuda-13.0/include/cuda_fp16.hpp:9"), package("/mine/cuda/scan.py:7")
    ('/usr/local/cuda-13.0/include', '')
    """
    match = _PACKAGE.match(place)
    return match[0] if match else ""


def within(place: str) -> str:
    """A library's `file:line` by its package, without the folder that packages are installed in.

    >>> within("/env/site-packages/numba_cuda/numba/cuda/random.py:107"), within("mine.py:12")
    ('numba_cuda/numba/cuda/random.py:107', 'mine.py:12')
    """
    return package(place).rpartition("/")[2] + place.removeprefix(package(place))


def users_calls(places: Sequence[str]) -> tuple[str, ...]:
    """The user's lines that call what the user's line of an instruction is in, from the innermost call on.

    >>> library = "/env/site-packages/numba_cuda/numba/cuda/random.py:7"
    >>> users_calls(["helper.py:3", "helper.py:9", library, "kernel.py:20"])
    ('helper.py:9', 'kernel.py:20')
    """
    own = package(places[-1]) if places else ""
    return tuple(place for place in places if package(place) in ("", own))[1:]


def users_line(places: Sequence[str]) -> str:
    """The line of the user's that an instruction belongs to: the innermost of its frames that no library holds.

    A library is an installed package, but for the one that the kernel itself is of: its developer looks at that.

    >>> random = "/env/site-packages/numba_cuda/numba/cuda/random.py:107"
    >>> users_line([random, "mine.py:12", "kernel.py:20"]), users_line([random]) == random, users_line([])
    ('mine.py:12', True, '')
    """
    own = package(places[-1]) if places else ""
    return next((place for place in places if package(place) in ("", own)), "")


def definition(kernel: str, places: Iterable[str]) -> tuple[str, int]:
    """File and line of a kernel's definition, from the `file:line` of its instructions; "" and 0 if there are none."""
    lines = [place.rpartition(":") for place in places]
    plain = re.escape(re.split(r"[<(]", kernel)[0].rpartition("::")[2])
    for file in dict.fromkeys(file for file, _, _ in lines):
        text = "".join(linecache.getlines(file))
        first = min(int(number) for other, _, number in lines if other == file)
        found = [
            text.count("\n", 0, match.start(1)) + 1
            for match in re.finditer(rf"(?:\bdef\s+|\b__global__\b[^;{{}}]*?\b)({plain})\s*\(", text)
        ]
        if found:  # of several functions with this name, the one with this body
            return file, max((line for line in found if line <= first), default=found[0])
    return (lines[0][0], int(lines[0][2])) if lines else ("", 0)
