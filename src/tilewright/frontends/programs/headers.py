"""Reads the vendor's headers: functions with their parameters.

They are the only table of the API. From them `library.py` generates the library that replaces the vendor's, and
`protocol.py` decodes the arguments of a call.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.simulate.programs.toolkits import with_headers

#: Formats of parameters that are not unsigned numbers. Structures are passed by value, in whole words.
_KINDS: Mapping[str, str] = {
    "int": "i4x", "long": "q", "long long int": "q", "int64_t": "q", "float": "f4x", "double": "d", "CUdevice": "i4x",
    "cudaError_t": "i4x",
    "dim3": "3I4x", "struct cudaExtent": "3Q", "struct cudaPitchedPtr": "4Q", "struct cudaMemLocation": "2i",
    "CUmemLocation": "2i", "CUdevice_attribute": "i4x",
}  # fmt: skip
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_FUNCTION = re.compile(r"([\w\s*]+?)\b(?:CUDARTAPI|CUDAAPI)\s+(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*;")
_DEFAULT = re.compile(r"__dv\([^()]*\)|=.*")


@dataclass(frozen=True)
class Function:
    """A function of the API."""

    name: str
    returns: str  #: The type in C.
    parameters: tuple[tuple[str, str], ...]  #: Type and name of each.

    @functools.cached_property
    def layout(self) -> struct.Struct:
        """The format of its argument words."""
        return struct.Struct("<" + "".join(_KINDS.get(kind, "Q") for kind, _ in self.parameters))

    @functools.cached_property
    def _counts(self) -> tuple[int, ...]:
        """How many values each argument has."""
        kinds = (_KINDS.get(kind, "") for kind, _ in self.parameters)
        return tuple(int(kind[0]) if kind[:1].isdigit() else 1 for kind in kinds)

    def arguments(self, words: bytes) -> list[Any]:
        """The arguments of a call; a structure is a tuple."""
        given: list[Any] = []
        values = iter(self.layout.unpack(words))
        for count in self._counts:
            given.append(next(values) if count == 1 else tuple(next(values) for _ in range(count)))
        return given


def folder() -> Path:
    """The folder of the vendor's runtime headers.

    Raises MissingExtraError: they are not installed.
    """
    return with_headers("Running CUDA programs").includes[0]


@functools.lru_cache(maxsize=8)
def functions(header: Path) -> Mapping[str, Function]:
    """The declarations of a header, by name; the first one if a name has several."""
    found: dict[str, Function] = {}
    for returns, name, parameters in _FUNCTION.findall(_text(header)):
        found.setdefault(name, Function(name, _returned(returns), tuple(_parameters(parameters))))
    return found


def _text(header: Path) -> str:
    lines = _COMMENT.sub(" ", header.read_text("utf-8", "replace")).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def _returned(text: str) -> str:
    words = [word for word in text.replace("*", " * ").split() if word not in ("extern", "static", "__inline__")]
    kept = [word for word in words if not word.startswith("__")]
    return " ".join(kept).rpartition(";")[2].strip()


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    for one in text.split(","):
        declared = " ".join(_DEFAULT.sub("", one).split())
        if declared in ("", "void"):
            continue
        kind, name = _split(declared)
        yield kind, name


def _split(declared: str) -> tuple[str, str]:
    found = re.fullmatch(r"(.*?[\s*&])(\w+)((?:\[\w*\])?)", declared)
    if found is None:
        return declared, ""
    kind = found[1].strip() + ("*" if found[3] else "")
    plain = kind.removeprefix("const ").removeprefix("enum ")
    return (kind if "*" in kind else plain), found[2]
