"""The parameters of a kernel as its C++ source declares them, with the types that PTX leaves out.

Types of the language, of `<cstdint>` and CUDA's halves are read; any other name has no NumPy type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tilewright.observe.checking import statements
from tilewright.simulate.programs.mangling import BUILTIN, CType
from tilewright.simulate.programs.program import Program

#: Words that make no difference to what a caller passes.
_QUALIFIERS = re.compile(r"\b(?:const|volatile|struct|__restrict__|__restrict|restrict|__grid_constant__)\b|\bstd::")
_NAMES = {
    "size_t": "<u8",
    "half": "<f2",
    "__half": "<f2",
    **{f"{name}_t": np.dtype(name).str for sign in ("", "u") for name in (f"{sign}int{2**n}" for n in range(3, 7))},
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter."""

    name: str  #: "" without one.
    type: CType


def _words(name: str) -> tuple[str, ...]:
    """The words of a type in one order, without an `int` that others imply."""
    words = sorted(name.split())
    kept = [word for word in words if word != "int" or words == ["int"]]
    return ("int", "unsigned") if kept == ["unsigned"] else tuple(kept)


_BY_WORDS = {_words(name): dtype for name, dtype in BUILTIN.values()} | {(name,): kind for name, kind in _NAMES.items()}


def of_program(program: Program) -> tuple[Declared, ...]:
    """The parameters of a kernel whose definition is in a file; empty if that is not known."""
    file, line, _ = program.definition
    return declared(statements.cpp_of(file), program.name, line)


def declared(code: str, kernel: str, line: int = 0) -> tuple[Declared, ...]:
    """The parameters of the kernel with this name whose definition is at a line of C++; empty if there is none.

    Without a line there must be one such kernel.

    >>> found = declared('extern "C" __global__ void k(const float *x, float2 v, unsigned n) {}', "k")
    >>> [(one.name, one.type.name, one.type.dtype, one.type.pointer) for one in found]
    [('x', 'const float *', '<f4', True), ('v', 'float2', '', False), ('n', 'unsigned', '<u4', False)]
    """
    plain = re.escape(re.split(r"[<(]", kernel)[0].rpartition("::")[2])
    code = "\n".join(statements.code_of(code).splitlines()[max(line - 1, 0) :])
    heads = re.findall(rf"\b{plain}\s*\(([^{{}};]*)\)\s*\{{", code)
    return tuple(map(_declared, _split(heads[0]))) if (line and heads) or len(set(heads)) == 1 else ()


def _split(text: str) -> list[str]:
    """A list's items: commas within brackets separate none."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter in "(<[") - (letter in ")>]")
        if letter == "," and not depth:
            items.append("")
        else:
            items[-1] += letter
    return [item for item in items if item.strip() not in ("", "void")]


def _declared(text: str) -> Declared:
    """A parameter's name and type from its declaration."""
    text = " ".join(text.partition("=")[0].split())
    plain = " ".join(_QUALIFIERS.sub(" ", text).replace("*", " * ").split())
    name = re.search(r"(?<=[\s*&])(\w+)((?: ?\[\w*\])*)$", plain)
    if name is None or _words(plain) in _BY_WORDS:  # it has none
        name, base = None, plain
    else:
        base = plain[: name.start()].strip()
    stars = base.count("*") + (name[2].count("[") if name else 0)
    dtype = "" if stars > 1 or "&" in base else _BY_WORDS.get(_words(base.replace("*", " ")), "")
    spoken = re.sub(rf"\b{name[1]}\b(?=[ \[\]\w]*$)", "", text) if name else text
    return Declared(name[1] if name else "", CType(" ".join(spoken.split()), dtype, bool(stars), "const" in text))
