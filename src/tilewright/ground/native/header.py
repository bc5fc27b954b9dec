"""Records and numbers that C and Python share: a C header states them, and Python reads it.

Such a header holds `#include`, `#ifndef`, `#define NAME` and `#endif` lines, `//` comments, declarations, and

- `enum NAME { ENTRY = number, ... };`, one entry a line, of one kind of thing;
- `struct NAME { ... };`, one field a line: an integer of <stdint.h>, `float`, `double`, a struct defined above it or in
  an included header, or a pointer. Numbers in brackets after the name make it an array. An empty array, as the last
  field, takes no bytes.

Offsets are those of C compilers for 64-bit hosts: each field is aligned to its size. `tests/native_c` has a C compiler
check them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ground.native.bitcode import sources
from tilewright.ground.native.memo import memo

_FORMATS = {
    "char": "u1", "int8_t": "i1", "uint8_t": "u1", "int16_t": "i2", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4",
    "float": "f4", "int64_t": "i8", "uint64_t": "u8", "size_t": "u8", "double": "f8",
}  # fmt: skip
_POINTER = "u8"
_COMMENT = re.compile(r"\s*//.*")
_ENUM = re.compile(r"enum (?:\w+ )?\{")
_ENTRY = re.compile(r"(\w+) = (-?\d+),")
_STRUCT = re.compile(r"struct (\w+) \{")
_FUNCTION = re.compile(r"\w+ \(\*(\w+)\)\(.*\);")
_FIELD = re.compile(r"(?:const )?(?:struct )?(\w+) (\**)(\w+)((?:\[\w*\])*);")


@dataclass(frozen=True)
class Struct:
    """A record's layout."""

    offsets: dict[str, int]  #: Byte offset of each field.
    bytes: int
    alignment: int
    formats: dict[str, Any]  #: Each field's type, as NumPy writes it; pointers are unsigned integers.

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """The record as a NumPy dtype."""
        return np.dtype(
            {
                "names": list(self.offsets),
                "formats": list(self.formats.values()),
                "offsets": list(self.offsets.values()),
                "itemsize": self.bytes,
            }
        )


@dataclass(frozen=True, slots=True)
class Header:
    """The statements of a header: enumerators and structs by name."""

    numbers: dict[str, int]
    structs: dict[str, Struct]


@memo
def header(path: Path) -> Header:
    """Read a header, and the project's headers that it includes.

    Raises ValueError: a line inside an `enum` or a `struct` has another form than those above.
    """
    found = Header({}, {})
    texts = (part.read_text("utf-8") for part in reversed(sources(path)))
    lines = iter(_COMMENT.sub("", line).strip() for text in texts for line in text.splitlines())
    for line in lines:
        if _ENUM.fullmatch(line):
            for entry in iter(lines.__next__, "};"):
                if entry:
                    name, number = _read(_ENTRY, entry, path)
                    found.numbers[name] = int(number)
        elif begin := _STRUCT.fullmatch(line):
            body = [entry for entry in iter(lines.__next__, "};") if entry]
            found.structs[begin[1]] = _struct(body, found, path)
    return found


def _struct(lines: list[str], known: Header, path: Path) -> Struct:
    """The layout of a struct: fields in order, each at the next multiple of its alignment."""
    offsets: dict[str, int] = {}
    formats: dict[str, Any] = {}
    end, widest = 0, 1
    for line in lines:
        name, format_, alignment = _field(line, known, path)
        offsets[name], formats[name] = -(-end // alignment) * alignment, format_
        end, widest = offsets[name] + np.dtype(format_).itemsize, max(widest, alignment)
    return Struct(offsets, -(-end // widest) * widest, widest, formats)


def _field(line: str, known: Header, path: Path) -> tuple[str, Any, int]:
    """Name, format and alignment of a field."""
    function = _FUNCTION.fullmatch(line)
    type_, stars, name, brackets = ("", "*", function[1], "") if function else _read(_FIELD, line, path)
    format_: Any
    if stars:
        format_, alignment = _POINTER, np.dtype(_POINTER).itemsize
    elif type_ in known.structs:
        format_, alignment = known.structs[type_].dtype, known.structs[type_].alignment
    elif type_ in _FORMATS:
        format_, alignment = _FORMATS[type_], np.dtype(_FORMATS[type_]).itemsize
    else:
        raise ValueError(f"{path.name}: '{type_}' must be an integer of <stdint.h>, a float or a struct above")
    if brackets:
        counts = brackets[1:-1].split("][")
        format_ = (
            format_,
            tuple(known.numbers[count] if count in known.numbers else int(count or 0) for count in counts),
        )
    return name, format_, alignment


def _read(form: re.Pattern[str], line: str, path: Path) -> tuple[str, ...]:
    match = form.fullmatch(line)
    if match is None:
        raise ValueError(f"{path.name}: '{line}' has a form that `tilewright.ground.native.header` does not read")
    return match.groups()
