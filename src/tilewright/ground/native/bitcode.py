"""Compiled C: LLVM bitcode beside its source, which any supported host links into what it compiles.

`tilewright.ground.native.clang` makes it when the project is built; this module only reads it. The name of a module has
the name of its source and a digest of all that it was made from, so a source that was edited since can be detected.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tilewright.errors import CompileError
from tilewright.ground.native.memo import memo

#: Part of every digest: how `tilewright.ground.native.clang` compiles and strips. Raise it when that changes.
FORMAT = "1"
#: Headers are found beside the file that includes them, or in this folder.
PACKAGE = Path(__file__).parents[2]
_INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)


@memo
def bitcode(source: Path) -> bytes:
    """The bitcode beside a C file.

    Raises FileNotFoundError: there is none (`make runtime` makes it). CompileError: a user edited the C file since.
    """
    code = source.with_suffix(".bc").read_bytes()
    if source.exists() and PACKAGE not in source.resolve().parents:  # a test checks the package's own files
        import llvmlite.binding as llvm

        text = str(llvm.parse_bitcode(code, context=llvm.context.create_context()))
        if f'source_filename = "{module_name(source)}"' not in text:
            raise CompileError(
                f"{source.with_suffix('.bc')} must be made from the C file beside it (that or a header was edited "
                f"since); run: python -m tilewright.ground.native.clang {source}"
            )
    return code


def module_name(source: Path) -> str:
    """The module name that a C file's bitcode has if it was made from this very source."""
    hasher = hashlib.sha256(FORMAT.encode())
    for path in sources(source):
        hasher.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{source.name} {hasher.hexdigest()}"


def sources(source: Path) -> list[Path]:
    """A C file and the project's headers that it includes, each once."""
    found = [source]
    for path in found:
        for name in _INCLUDE.findall(path.read_text("utf-8")):
            header = next(place / name for place in (path.parent, PACKAGE) if (place / name).exists())
            if header not in found:
                found.append(header)
    return found
