"""Whether two Python functions must trace to the same expression, found without calling them.

A lambda written in a call is a new object each time. Its code is not, and where all that the code can reach is fixed
(numbers, strings, functions, modules), the code and those values say what it computes. Anything that may change behind
its back, a list or an object with attributes, leaves a function without a fingerprint.
"""

from __future__ import annotations

import builtins
import dis
import functools
from collections.abc import Callable, Hashable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tilewright.problem import functions

#: Values that never change; by their text, since 0.0 equals -0.0 and NaN does not equal itself.
_FIXED = frozenset((bool, int, float, complex, str, bytes, type(None), *np.sctypeDict.values())) - {np.object_, np.void}
#: Builtins whose results depend on their arguments alone; what others read (`globals`, `open`) cannot be seen.
_PURE = frozenset(
    "abs all any bool complex divmod enumerate float int len list map max min pow range reversed round sum tuple zip "
    "Exception TypeError ValueError".split()
)
#: How far functions that a function calls are followed.
_DEPTH = 8


class _UntoldError(Exception):
    """Something may change unseen."""


def fingerprint(function: Callable[..., Any]) -> Hashable | None:
    """What distinguishes a function from others; None where its result may depend on what can change.

    >>> fingerprint(lambda x: x + 1) is not None
    True
    >>> fingerprint(lambda x, scale=[1.0]: x * scale[0]) is None
    True
    """
    try:
        return _of(function, _DEPTH)
    except _UntoldError:
        return None


def _of(value: Any, depth: int) -> Hashable:
    if type(value) in _FIXED:
        return type(value), repr(value)
    if isinstance(value, np.ufunc | np.dtype):
        return value
    if isinstance(value, type) and value in _FIXED:
        return "type", value
    if depth == 0:
        raise _UntoldError
    if isinstance(value, tuple):
        return tuple(_of(x, depth - 1) for x in value)
    if isinstance(value, functools.partial):
        named = tuple((name, _of(x, depth - 1)) for name, x in value.keywords.items())
        return "partial", _of(value.func, depth - 1), _of(value.args, depth - 1), named
    if isinstance(value, FunctionType):
        if getattr(functions, value.__name__, None) is value:
            return value  # they depend on nothing
        return _function(value, depth - 1)
    raise _UntoldError


def _function(function: FunctionType, depth: int) -> Hashable:
    code, reached = function.__code__, function.__globals__
    names = _names(code)
    if function.__dict__ or any(
        name not in reached and name not in _PURE and hasattr(builtins, name) for name in names
    ):
        raise _UntoldError
    found: list[Hashable] = [code]
    for name in sorted(names):
        if name in reached:
            found.append((name, _global(reached[name], names, depth)))
    for cell in function.__closure__ or ():
        try:
            found.append(_global(cell.cell_contents, names, depth))
        except ValueError as error:  # not filled yet
            raise _UntoldError from error
    found.append(_of(function.__defaults__ or (), depth))
    found.append(tuple((name, _of(x, depth)) for name, x in (function.__kwdefaults__ or {}).items()))
    return tuple(found)


def _global(value: Any, names: frozenset[str], depth: int) -> Hashable:
    """A value that code reaches by name; of a module, every attribute that the code's names may mean."""
    if not isinstance(value, ModuleType):
        return _of(value, depth)
    if depth == 0:  # a module may hold itself
        raise _UntoldError
    attributes = ((name, getattr(value, name)) for name in sorted(names) if hasattr(value, name))
    return value.__name__, tuple((name, _global(x, names, depth - 1)) for name, x in attributes)


@functools.lru_cache(maxsize=256)
def _names(code: CodeType) -> frozenset[str]:
    """Globals and attributes that code and the functions within it may ask for; none is known for what it imports."""
    found = set(code.co_names)
    if any(step.opname.startswith("IMPORT") for step in dis.get_instructions(code)):
        raise _UntoldError
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return frozenset(found)
