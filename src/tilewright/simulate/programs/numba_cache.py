"""numba-cuda's PTX on disk, under a key of all that a kernel is made from.

Numba compiles values into a kernel: globals, closures, attributes of modules, functions that it calls. So the key has
each of these by value, and functions by their bytecode and lines. A kernel is compiled each time if it uses a value of
another kind, if somebody extended Numba, or if its compilation warns.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import marshal
import os
import re
import sys
import types
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ground.native import secure_files, store
from tilewright.ground.native.memo import memo
from tilewright.simulate.programs.nvrtc_cache import contents
from tilewright.simulate.programs.optional import require

#: Packages whose objects are known by their names: the key has what these packages are.
_KNOWN = ("builtins", "cmath", "math", "numba", "numpy", "operator", "tilewright")
#: Folders of this package that decide what Numba makes.
_ROOMS = ("simulate/intrinsics", "simulate/programs")
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
#: Numba's types whose text says all, and those that have others.
_NUMBERS = ("Boolean", "Complex", "Float", "Integer", "NPDatetime", "NPTimedelta")
_TUPLES = ("Tuple", "UniTuple")
#: Settings with which compiling prints something.
_PRINTING = re.compile(r"(?:CUDA_)?(?:DUMP|DEBUG|TRACE)(?!_PRINT_|_POLY)")
#: Names in Numba's modules of lists that its compiler reads.
_REGISTRIES = ("registry", *(f"{kind}_registry" for kind in ("builtin", "impl", "rewrite", "target", "typing")))
#: pip's packages of the vendor's libraries, of which the bindings choose one; libdevice is in those of libNVVM.
_LIBRARIES = {
    "nvvm": ("nvidia-nvvm", "nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12"),
    "nvJitLink": ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12"),
}
_PACKAGES = ("cuda-bindings", "cuda-pathfinder", *(name for names in _LIBRARIES.values() for name in names))
_DEVICE = "nvvm/libdevice/libdevice.10.bc"
#: Variables that decide which libraries are found.
_VARIABLES = ("CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")


class _ElusiveError(Exception):
    """A kernel depends on something that cannot be written as text."""


def kept(
    function: Any, argtypes: Sequence[Any], facts: Mapping[str, Any], make: Callable[[], tuple[str, ...]]
) -> tuple[str, ...]:
    """The texts that `make` returns, or that it returned for the same kernel before; no texts are not kept.

    `facts` are the compiler's options, the compute capability, and whatever else decides the texts.
    """
    key = _key(function, argtypes, facts)
    if key is None:
        return make()
    room = store.room(secure_files.RESOURCES)
    found = store.read(room, key, lambda header: int(header["texts"]))
    if found is not None:
        return tuple(zlib.decompress(found[1]).decode().split("\0", found[0] - 1))
    with warnings.catch_warnings(record=True) as warned:
        made = make()
    for one in warned:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, source=one.source)
    if made and not warned and _key(function, argtypes, facts) == key:  # it may have read a global that changed
        store.write(room, key, {"texts": len(made)}, zlib.compress("\0".join(made).encode()))
    return made


def _key(function: Any, argtypes: Sequence[Any], facts: Mapping[str, Any]) -> str | None:
    """The key of a kernel; None if it depends on more than can be known."""
    try:
        if _extended():
            return None
        parts = [*_tools(), *_settings(), *_number_types(argtypes), *_Value().of(dict(facts), ())]
        parts += _Value().of(function, ())
    except (_ElusiveError, OSError, ValueError, RecursionError, ImportError):
        return None
    return store.digest("numba", *parts, str(len(parts)))


@memo
def _tools() -> list[str]:
    """What compiles: the versions and files of packages and libraries."""
    versions = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    finder = require("cuda.pathfinder", "Compiling Python kernels")
    missing = [library for library, names in _LIBRARIES.items() if not versions.keys() & set(names)]
    files = [Path(finder.load_nvidia_dynamic_lib(library).abs_path) for library in missing]
    files += [file for path in files for folder in path.parents if (file := folder / _DEVICE).is_file()]
    return [
        sys.version,
        *(importlib.import_module(name).__version__ for name in ("numba", "numpy", "llvmlite")),
        contents(str(Path(importlib.import_module("numba.cuda").__file__ or "").parent)),
        str(versions),
        *(f"{path} {status.st_size} {status.st_mtime_ns}" for path in files for status in (path.stat(),)),
        store.fingerprint(*_ROOMS),
    ]


def _settings() -> list[str]:
    """The environment's and Numba's own.

    Raises _ElusiveError: compiling prints something.
    """
    settings = {n: v for n, v in vars(importlib.import_module("numba.cuda.core.config")).items() if n.isupper()}
    if any(value for name, value in settings.items() if _PRINTING.match(name)):
        raise _ElusiveError
    named = {n: v for n, v in os.environ.items() if n in _VARIABLES or n.startswith("NUMBA_")}
    return [f"{name}={value!r}" for each in (settings, named) for name, value in sorted(each.items())]


def _number_types(found: Iterable[Any]) -> Iterator[str]:
    """Numba's types of arguments as text."""
    for one in found:
        kind = type(one).__name__
        if kind == "Array":
            yield from _number_types([one.dtype])
        elif kind == "Record":
            yield from _number_types(field.type for field in one.fields.values())
        elif kind in _TUPLES:
            yield from _number_types(one)
        elif kind not in _NUMBERS:
            raise _ElusiveError
        yield f"{type(one).__module__}.{kind} {one}"


class _Value:
    """Writes values as text; each function and module once."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def of(self, value: Any, names: Sequence[str]) -> Iterator[str]:
        """The text of a value; `names` are the attributes that code may read.

        Raises _ElusiveError: it has none.
        """
        kind = type(value)
        if kind in _PLAIN:
            yield f"{kind.__name__} {value!r}"
        elif kind in (tuple, list):
            yield f"{kind.__name__} {len(value)}"
            for one in value:
                yield from self.of(one, names)
        elif kind is dict:
            yield f"dict {len(value)}"
            for name, one in sorted(value.items()):
                yield from self.of(name, ())
                yield from self.of(one, names)
        elif kind is np.ndarray or isinstance(value, np.generic):
            yield from _array(value)
        elif isinstance(value, np.dtype):
            yield f"dtype {value!r}"
        elif hasattr(kind, "mangling_args"):  # one of Numba's types
            yield from _number_types([value])
        elif id(value) in self._seen:
            yield f"again {self._seen[id(value)]}"
        else:
            self._seen[id(value)] = len(self._seen)
            yield from self._object(value, names)

    def _object(self, value: Any, names: Sequence[str]) -> Iterator[str]:
        """The text of a module, function or class."""
        if isinstance(value, types.ModuleType):
            yield f"module {value.__name__}"
            inside = vars(value)
            for name in names:
                if name in inside:
                    yield f".{name}"
                    yield from self.of(inside[name], names)
        elif _is_known(value):
            yield f"{value.__module__}.{value.__qualname__ if hasattr(value, '__qualname__') else value.__name__}"
        elif isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif hasattr(value, "py_func") and hasattr(value, "targetoptions") and _of_known(type(value)):
            yield f"dispatcher {type(value).__name__}"
            yield from self.of(value.targetoptions, ())
            yield from self.of(value.py_func, ())
        else:
            raise _ElusiveError

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        code = function.__code__
        names = tuple(dict.fromkeys(_names(code)))
        yield f"function {function.__module__} {function.__qualname__} {Path(code.co_filename).absolute()}"
        yield marshal.dumps(code, 2).hex()
        lines = [line for *_, line in code.co_lines() if line] or [code.co_firstlineno]
        yield "".join(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : max(lines)])
        yield from self.of([function.__defaults__, function.__kwdefaults__], names)
        inside = [cell.cell_contents for cell in function.__closure__ or ()]  # raises ValueError for an empty one
        yield from self.of(inside, names)
        for name in names:
            if name in function.__globals__:
                yield f"global {name}"
                yield from self.of(function.__globals__[name], names)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names of globals and attributes that code reads, with those of code in it."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _names(one)


def _array(value: Any) -> Iterator[str]:
    if value.dtype.hasobject:
        raise _ElusiveError
    yield f"{type(value).__name__} {value.dtype!r} {value.shape} {value.strides} {value.flags.writeable}"
    yield value.tobytes().hex()


def _of_known(value: Any) -> bool:
    """Whether a known package defines a function or class; its tests extend it as a program does."""
    package, *inside = str(getattr(value, "__module__", None) or "").split(".")
    return package in _KNOWN and "tests" not in inside


def _is_known(value: Any) -> bool:
    """Whether a value is what a known package has under its name."""
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is value
    if not _of_known(value):
        return False
    found: Any = sys.modules.get(value.__module__)
    for name in str(getattr(value, "__qualname__", None) or getattr(value, "__name__", "")).split("."):
        found = getattr(found, name, None)
    return found is value


@memo
def _own() -> dict[int, int]:
    """How many entries at the start of Numba's lists are its own, by the list's address; Numba keeps its lists."""
    return {}


def _extended() -> bool:
    """Whether somebody added to what Numba's compiler knows."""
    own, numba = _own(), f"{Path(sys.modules['numba'].__file__ or '').parent}{os.sep}"
    for name, module in list(sys.modules.items()):
        if name.startswith("numba."):
            for registry in filter(None, map(vars(module).get, _REGISTRIES)):
                for entries in _lists(registry):
                    if not all(_is_own(one, numba) for one in entries[own.get(id(entries), 0) :]):
                        return True
                    own[id(entries)] = len(entries)
    return False


def _lists(registry: Any) -> Iterator[list[Any]]:
    for value in vars(registry).values():
        yield from (one for one in (value.values() if isinstance(value, dict) else (value,)) if isinstance(one, list))


def _is_own(entry: Any, numba: str) -> bool:
    """Whether all functions and classes of a registration are this package's or Numba's, which is in a folder."""
    parts = entry if isinstance(entry, tuple) else (entry,)
    classes = [one for part in parts for one in (part, *getattr(part, "templates", ())) if isinstance(one, type)]
    inside = [*parts, *(getattr(one, "__func__", one) for kind in classes for one in vars(kind).values())]
    functions = [one for one in inside if isinstance(one, types.FunctionType)]
    closed = [cell.cell_contents for one in functions for cell in one.__closure__ or ()]
    functions += [one for one in closed if isinstance(one, types.FunctionType)]
    return all(_of_known(one) or one.__code__.co_filename.startswith(numba) for one in functions) and all(
        _of_known(kind) or kind.__module__ == "abc" for kind in classes
    )
