"""Python functions to PTX through numba-cuda, with no GPU present.

Numba's symbol names contain a counter of the functions compiled so far, so one kernel gives different text in different
processes. :func:`compile_python` renames the symbols. Then the text is readable, and one kernel always gives the same
PTX, which is the key in the cache of translations.

Source: numba-cuda, `cuda.compile_ptx`; Itanium C++ ABI, 5.1 (External Names) for the mangling.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, CompileError
from tilewright.ground.native.replaced_names import Row, replaced
from tilewright.ground.progress import announced
from tilewright.simulate.programs import numba_cache
from tilewright.simulate.programs.arguments import Argument
from tilewright.simulate.programs.array_arguments import ArrayShape, array_shape
from tilewright.simulate.programs.mangling import nested_name
from tilewright.simulate.programs.numba_names import compiler_rows
from tilewright.simulate.programs.optional import require
from tilewright.simulate.ptx import parse
from tilewright.simulate.ptx.tokens import with_words

_PURPOSE = "Compiling Python kernels"
#: Text between a kernel's name and a parameter's number.
_PARAMETER = "_param_"
#: Prefix of Numba's names of environments, which are not functions.
_ENVIRONMENT = "_ZN08"

#: Options of `numba.cuda.jit` that reach the compiler.
_OPTIONS = ("fastmath", "lineinfo", "opt", "debug", "launch_bounds")


def is_dispatcher(kernel: Any) -> bool:
    """Whether `kernel` is a `numba.cuda.jit` object, found without importing Numba."""
    return hasattr(kernel, "py_func") and hasattr(kernel, "targetoptions")


def python_function(kernel: Any) -> Callable[..., Any]:
    """The plain function of a dispatcher, or the function itself."""
    function = kernel.py_func if is_dispatcher(kernel) else kernel
    if not inspect.isfunction(function):
        raise ArgumentTypeError(
            f"`function` must be a Python function or a numba.cuda.jit kernel (got {type(kernel).__name__}); "
            "for CUDA C++ use Program.from_cuda, for PTX Program.from_ptx"
        )
    return function


def options_of(kernel: Any) -> dict[str, Any]:
    """The compiler options of a dispatcher; none for a plain function."""
    if not is_dispatcher(kernel):
        return {}
    target = kernel.targetoptions
    if target.get("device"):
        raise ArgumentTypeError(
            f"`function` must be a kernel (got {kernel.py_func.__name__}, made with device=True); call it from a kernel"
        )
    if target.get("link"):
        raise CompileError(f"{kernel.py_func.__name__}: `link=` is not supported; write the linked part in Python")
    return {name: target[name] for name in _OPTIONS if name in target}


def types_of(argtypes: Any) -> tuple[Any, ...]:
    """Numba types from a signature string, or from a sequence of types, dtypes and strings.

    Raises ArgumentTypeError: an item is no type.
    """
    numba_types = require("numba.cuda.types", _PURPOSE)
    sigutils = require("numba.cuda.core.sigutils", _PURPOSE)
    numpy_support = require("numba.cuda.np.numpy_support", _PURPOSE)
    if isinstance(argtypes, str) or not isinstance(argtypes, Sequence):
        argtypes = _signature(sigutils, argtypes)
    resolved = []
    for item in argtypes:
        if isinstance(item, numba_types.Type):
            resolved.append(item)
        elif isinstance(item, str) and not _is_dtype(item):
            resolved += _signature(sigutils, f"({item},)")
        else:
            try:
                resolved.append(numpy_support.from_dtype(np.dtype(item)))
            except Exception as error:
                raise ArgumentTypeError(
                    f"`argtypes` must hold Numba types, dtypes or type strings (got {item!r}); "
                    "for an array write float32[:, ::1]"
                ) from error
    return tuple(resolved)


def _is_dtype(text: str) -> bool:
    try:
        np.dtype(text)
    except TypeError:
        return False
    return True


def _signature(sigutils: Any, signature: Any) -> tuple[Any, ...]:
    try:
        return tuple(sigutils.normalize_signature(signature)[0])
    except Exception as error:
        raise ArgumentTypeError(
            f"`argtypes` must be a Numba signature such as 'void(float32[:, ::1], int64)' (got {signature!r})"
        ) from error


def typeof(value: Any) -> Any:
    """The Numba type of an argument, as Numba chooses it for a launch.

    Raises ArgumentTypeError: Numba has no type for it.
    """
    shape = array_shape(value)
    try:
        if shape is not None and not isinstance(value, np.ndarray):
            return _array_type(shape)
        return require("numba.cuda.typing.typeof", _PURPOSE).typeof(value)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ArgumentTypeError(
            f"a kernel's arguments must be arrays, numbers or tuples of them (got {type(value).__name__}: {error})"
        ) from error


def _array_type(shape: ArrayShape) -> Any:
    numba_types = require("numba.cuda.types", _PURPOSE)
    dtype = require("numba.cuda.np.numpy_support", _PURPOSE).from_dtype(shape.dtype)
    return numba_types.Array(dtype, len(shape.shape), shape.layout, readonly=shape.readonly)


def compile_python(
    function: Callable[..., Any],
    argtypes: tuple[Any, ...],
    cc: tuple[int, int],
    options: Mapping[str, Any],
    rows: Sequence[Row] = (),
) -> tuple[str, str]:
    """Compile a kernel, with further replacements; return its PTX and the name of its entry.

    Raises CompileError: Numba or libNVVM failed; the message has their text, which marks the source line.
    """
    cuda = require("numba.cuda", _PURPOSE)
    facts = {**options, "cc": cc, "rows": [f"{module}.{name}" for module, name, _ in rows]}
    made = numba_cache.kept(function, argtypes, facts, lambda: _compiled(cuda, function, argtypes, cc, options, rows))
    return made[0], made[1]


def _compiled(
    cuda: Any,
    function: Callable[..., Any],
    argtypes: tuple[Any, ...],
    cc: tuple[int, int],
    options: Mapping[str, Any],
    rows: Sequence[Row],
) -> tuple[str, str]:
    try:
        with (
            announced("compiling", function.__name__),
            _device_functions_for(cc),
            replaced(rows),
            warnings.catch_warnings(),
        ):
            # Numba warns of small grids and of optimised debug code; neither matters for compilation alone.
            warnings.simplefilter("ignore")
            text, result = cuda.compile_ptx(function, argtypes, cc=(*cc, _suffix(cc)), **options)
    except Exception as error:
        # Besides its own errors, Numba raises plain TypeError, NotImplementedError and others.
        raise CompileError(f"{_where(function)}: Numba could not compile `{function.__name__}`:\n{error}") from error
    if str(result) not in ("none", "None"):
        raise CompileError(f"{_where(function)}: a kernel must return nothing (`{function.__name__}` returns {result})")
    # The name of a lambda, or one with letters outside ASCII, is no name in PTX.
    return _renamed(text, re.sub(r"[^\w$]", "_", function.__name__, flags=re.ASCII))


def _suffix(cc: tuple[int, int]) -> str:
    """The target's suffix for features of a single compute capability, as in numba-cuda's launches.

    Source: numba-cuda, `codegen.py` (`_ensure_cc`).
    """
    return "a" if cc >= (9, 0) else ""


@contextlib.contextmanager
def _device_functions_for(cc: tuple[int, int]) -> Iterator[None]:
    """Let Numba compile device functions without a GPU, and lambdas with their lines.

    When a kernel calls a `cuda.jit(device=True)` function, Numba asks the current device for its capability. During one
    compilation, and only in this thread, it gets the capability that is the compilation's target.
    """
    dispatcher = require("numba.cuda.dispatcher", _PURPOSE)
    compiler_lock = require("numba.cuda.core.compiler_lock", _PURPOSE).global_compiler_lock
    owner = threading.get_ident()
    with compiler_lock:
        original = dispatcher.get_current_device

        def current_device() -> Any:
            if threading.get_ident() != owner:
                return original()
            return types.SimpleNamespace(compute_capability=cc)

        with replaced((*compiler_rows(), ("numba.cuda.dispatcher", "get_current_device", current_device))):
            yield


def _where(function: Callable[..., Any]) -> str:
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _renamed(ptx: str, name: str) -> tuple[str, str]:
    """Replace mangled symbols with readable names; the entry becomes `name`."""
    entry = parse(ptx).entries[0].name
    names: dict[str, str] = {}
    taken: set[str] = set()

    def short(symbol: str) -> str:
        if symbol not in names:
            plain = name if symbol == entry else _readable(symbol)
            unique, count = plain, 1
            while unique in taken:
                unique, count = f"{plain}_{count}", count + 1
            taken.add(unique)
            names[symbol] = unique
        return names[symbol]

    def replaced(word: str) -> str:
        stem, parameter, number = word.rpartition(_PARAMETER)
        return short(stem) + parameter + number if parameter and number.isdigit() else short(word)

    chosen = short(entry)
    return with_words(ptx, "_ZN", replaced), chosen


def _readable(symbol: str) -> str:
    """The source name of a mangled symbol."""
    return "numba_env" if symbol.startswith(_ENVIRONMENT) else nested_name(symbol) or "symbol"


def arguments_of(function: Callable[..., Any], argtypes: Sequence[Any]) -> tuple[Argument, ...]:
    """Descriptors of a kernel's arguments, from their Numba types."""
    names = list(inspect.signature(function).parameters)
    names += [f"argument {index}" for index in range(len(names), len(argtypes))]
    return tuple(_argument(name, type_) for name, type_ in zip(names, argtypes, strict=False))


def _argument(name: str, type_: Any) -> Argument:
    numba_types = require("numba.cuda.types", _PURPOSE)
    as_dtype = require("numba.cuda.np.numpy_support", _PURPOSE).as_dtype
    if isinstance(type_, numba_types.Array):
        dtype = as_dtype(type_.dtype).str if not isinstance(type_.dtype, numba_types.Record) else as_dtype(type_.dtype)
        return Argument(name, "array", str(type_), dtype, type_.ndim, type_.layout, type_.mutable)
    if isinstance(type_, numba_types.BaseTuple):
        items = tuple(_argument(f"{name}[{index}]", item) for index, item in enumerate(type_))
        return Argument(name, "tuple", str(type_), items=items)
    if isinstance(type_, numba_types.Record):
        return Argument(name, "record", str(type_), as_dtype(type_))
    try:
        return Argument(name, "scalar", str(type_), as_dtype(type_).str)
    except Exception as error:
        raise ArgumentTypeError(
            f"{name} must be an array, a number, a record or a tuple of them (got {type_})"
        ) from error
