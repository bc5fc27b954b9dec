"""Corrects source lines from numba-cuda, for code that has no line of its own.

`vectorize` and `guvectorize` generate a kernel around a user's function. The generated text is in no file, so all of it
gets the line of the function's first statement. Numba takes a lambda or a one-line function for a decorated one, whose
first line is the decorator, and reports it one line late; these keep their own line.

Source: numba-cuda, `vectorizers.py` (`vectorizer_stager_source`, `_gufunc_stager_source`) and `lowering.py`
(`_compute_def_location`); CPython, `Objects/locations.md` (the table of lines).
"""

from __future__ import annotations

import dis
import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

#: The name of the user's function in a generated kernel.
_CORE = "__core__"
#: A row of the line table for 8 code units on the previous line: kind (no columns) and units less 1, no line step.
_SAME_LINE, _ROW_BYTES = bytes([0x80 | 13 << 3 | 7, 0]), 16
#: Instructions before the first statement of a function; they have the line of its first decorator.
_PROLOGUE = ("RESUME", "COPY_FREE_VARS", "MAKE_CELL", "NOP")


def at_its_function(function: Any) -> Any:
    """A generated kernel with the file and line of its user function; any other function unchanged.

    >>> at_its_function(len) is len
    True
    """
    code = getattr(function, "__code__", None)
    user = getattr(getattr(function, "__globals__", {}).get(_CORE), "py_func", None)
    if code is None or user is None or code.co_filename != "<string>" or _CORE not in code.co_names:
        return function
    placed = code.replace(
        co_filename=user.__code__.co_filename,
        co_firstlineno=_first_statement(user.__code__),
        co_linetable=_SAME_LINE * -(-len(code.co_code) // _ROW_BYTES),
    )
    return types.FunctionType(placed, function.__globals__, function.__name__, function.__defaults__)


def def_location() -> Callable[[Any], Any]:
    """Replaces `BaseLower._compute_def_location`: a function may have its first statement on its first line."""
    original: Callable[[Any], Any] = importlib.import_module("numba.cuda.lowering").BaseLower._compute_def_location

    @functools.wraps(original)
    def located(lower: Any) -> Any:
        code = getattr(lower.func_ir.func_id.func, "__code__", None)
        if code is not None and _first_statement(code) == code.co_firstlineno:
            return lower.func_ir.loc
        return original(lower)

    return located


def set_module_flags(builder: Any) -> None:
    """Require the debug-information versions in the way of NVRTC, so that code of both can be linked.

    numba-cuda says "warn" where NVRTC says "error", which nvJitLink reports as a conflict. libNVVM does too: Numba
    keeps device functions that it has compiled with one, and they cannot be linked with a kernel that has the other.
    Source: LLVM Language Reference, "Module Flags Metadata" (1 is error, 2 is warning).
    """
    from numba.cuda import cgutils

    module = builder.module
    flags = cgutils.get_or_insert_named_metadata(module, "llvm.module.flags")
    for behaviour, name, version in (
        (2, "Dwarf Version", builder.DWARF_VERSION),
        (1, "Debug Info Version", builder.DEBUG_INFO_VERSION),
    ):
        if version is not None:
            flag = module.add_metadata([builder._const_int(behaviour), name, builder._const_int(version)])
            if flag not in flags.operands:
                flags.add(flag)


def _first_statement(code: types.CodeType) -> int:
    r"""The first line of a function that belongs to no decorator and not to its `def`.

    >>> _first_statement(compile("\n\n1 + x", "f", "eval")) - 2
    1
    """
    steps = (step for step in dis.get_instructions(code) if step.opname not in _PROLOGUE and step.positions)
    return min((step.positions.lineno for step in steps if step.positions.lineno), default=code.co_firstlineno)  # type: ignore[union-attr]
