"""Calls compiled C from Python: the functions that bitcode exports, with the parameters that the bitcode declares."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm

from tilewright.ground.native import secure_files, store
from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.calls import calls
from tilewright.ground.native.compiler import Compiler, Effort, Source, compiler, parsed
from tilewright.ground.native.memo import bounded, memo

#: LLVM's types as ctypes.
_TYPES: dict[str, Any] = {
    "void": None, "ptr": ctypes.c_void_p, "i1": ctypes.c_bool, "i32": ctypes.c_uint32, "i64": ctypes.c_uint64,
    "float": ctypes.c_float, "double": ctypes.c_double,
}  # fmt: skip
_Signatures = dict[str, list[str]]


@memo
def functions(prefix: str, *sources: Path, target: Compiler | None = None) -> Any:
    """The functions that C files export, by name without `prefix`. The code stays loaded as long as the result lives.

    Their machine code is cached on disk for later processes: compiling takes a tenth of a second.

    The bitcode must be beside the C files. The default target is the process's own compiler.
    """
    made = target or compiler()
    exported, code = _made(prefix, sources, made)
    library = made.link(code, tuple(exported))
    found: dict[str, Any] = {}
    for symbol, (result, *arguments) in exported.items():
        prototype = ctypes.CFUNCTYPE(_TYPES[result], *(_TYPES[kind] for kind in arguments))
        found[symbol.removeprefix(prefix)] = prototype(library.addresses[symbol])
    return SimpleNamespace(**found, library=library)


def _made(prefix: str, sources: tuple[Path, ...], made: Compiler) -> tuple[_Signatures, bytes]:
    """The signature of each function, and the machine code of all."""
    first, *others = parts = [bitcode(source) for source in sources]
    folder = store.room(secure_files.TRANSLATIONS)
    key = store.digest(store.fingerprint("ground/native"), made.identity, prefix, *(part.hex() for part in parts))
    kept = store.read(folder, key, lambda header: {name: list(types) for name, types in header.items()})
    if kept is not None:
        return kept
    read = [signatures(part) for part in parts]
    found = {name: types for part in read for name, types in part.items() if name.startswith(prefix)}
    code = made.compile(first, others, exports=tuple(found), effort=Effort.COMPILED)
    store.write(folder, key, found, code)
    return found, code


@bounded(256)
def signatures(source: Source) -> _Signatures:
    """The types of the result and of the parameters of each function that a module exports."""
    return calls().run(lambda check: _read(source))


@bounded(256)
def called(source: Source) -> frozenset[str]:
    """The functions that a module calls and does not define, LLVM's own excluded."""
    return calls().run(lambda check: _undefined(source))


@bounded(256)
def variables(source: Source) -> dict[str, bool]:
    """The variables that a module shares with others; true for those that it defines itself."""
    return calls().run(lambda check: _shared(source))


def _shared(source: Source) -> dict[str, bool]:
    every = parsed(source, llvm.context.create_context()).global_variables
    return {one.name: not one.is_declaration for one in every if one.linkage is llvm.Linkage.external}


def _undefined(source: Source) -> frozenset[str]:
    names = (f.name for f in parsed(source, llvm.context.create_context()).functions if f.is_declaration)
    return frozenset(name for name in names if not name.startswith("llvm."))


def _read(source: Source) -> _Signatures:
    module = parsed(source, llvm.context.create_context())
    return {
        function.name: [str(type_) for type_ in function.global_value_type.elements]
        for function in module.functions
        if not function.is_declaration and function.linkage is llvm.Linkage.external
    }
