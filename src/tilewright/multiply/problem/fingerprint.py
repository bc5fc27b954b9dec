"""Fingerprints of Python functions: functions with the same fingerprint trace to the same expression.

A lambda in a call is a new object each time, but its code is not. If everything that the code can reach is fixed
(numbers, strings, functions, modules), the code and those values determine what it computes. A function that can reach
mutable objects, such as a list or an object with attributes, has no fingerprint.
"""

from __future__ import annotations

import builtins
import dis
import functools
from collections.abc import Callable, Hashable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tilewright.multiply.problem import functions

#: Types of immutable values; compared by text, since 0.0 equals -0.0 and NaN does not equal itself.
_FIXED = frozenset((bool, int, float, complex, str, bytes, type(None), *np.sctypeDict.values())) - {np.object_, np.void}
#: Builtins whose results depend only on their arguments; others (`globals`, `open`) read other state.
_PURE = frozenset(
    "abs all any bool complex divmod enumerate float int len list map max min pow range reversed round sum tuple zip "
    "Exception TypeError ValueError".split()
)
_ABSENT = object()
#: Depth to which calls of functions are followed.
_DEPTH = 8


class _MutableError(Exception):
    """A value that may change without notice."""


def fingerprint(function: Callable[..., Any]) -> Hashable | None:
    """A function's fingerprint; None if its result may depend on mutable state.

    >>> fingerprint(lambda x: x + 1) is not None
    True
    >>> fingerprint(lambda x, scale=[1.0]: x * scale[0]) is None
    True
    """
    try:
        return _of(function, _DEPTH)
    except _MutableError:
        return None


def _of(value: Any, depth: int) -> Hashable:
    kind = type(value)
    if kind in _FIXED:
        return kind, repr(value)
    if kind is FunctionType and depth:  # the most frequent first: a product of arrays on a GPU comes here each time
        if getattr(functions, value.__name__, None) is value:
            return value  # constants
        return _function(value, depth - 1)
    if isinstance(value, np.ufunc | np.dtype):
        return value
    if isinstance(value, type) and value in _FIXED:
        return "type", value
    if depth == 0:
        raise _MutableError
    if isinstance(value, tuple):
        return tuple(_of(x, depth - 1) for x in value)
    if isinstance(value, functools.partial):
        named = tuple((name, _of(x, depth - 1)) for name, x in value.keywords.items())
        return "partial", _of(value.func, depth - 1), _of(value.args, depth - 1), named
    raise _MutableError


def _function(function: FunctionType, depth: int) -> Hashable:
    code, reached = function.__code__, function.__globals__
    names, impure = _names(code)
    if function.__dict__ or any(name not in reached for name in impure):
        raise _MutableError
    found: list[Hashable] = [code]
    for name in names:
        if name in reached:
            found.append((name, _global(reached[name], names, depth)))
    for cell in function.__closure__ or ():
        try:
            found.append(_global(cell.cell_contents, names, depth))
        except ValueError as error:  # an empty cell
            raise _MutableError from error
    values, named = function.__defaults__, function.__kwdefaults__
    found.append(_of(values, depth) if values else ())
    found.append(tuple([(name, _of(x, depth)) for name, x in named.items()]) if named else ())
    return tuple(found)


def _global(value: Any, names: tuple[str, ...], depth: int) -> Hashable:
    """The fingerprint of a value that code reaches by name; of a module, those attributes that the code names."""
    if not isinstance(value, ModuleType):
        return _of(value, depth)
    if depth == 0:  # a module may hold itself
        raise _MutableError
    found = []
    for name in names:
        x = getattr(value, name, _ABSENT)
        if x is not _ABSENT:
            constant = x is getattr(functions, name, _ABSENT) and type(x) is FunctionType
            found.append((name, x if constant else _global(x, names, depth - 1)))
    return value.__name__, tuple(found)


@functools.lru_cache(maxsize=256)
def _names(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of globals and attributes in code and its nested functions; those of builtins that read other state.

    Raises _MutableError: the code imports.
    """
    found = tuple(sorted(_every_name(code)))
    return found, tuple(name for name in found if name not in _PURE and hasattr(builtins, name))


def _every_name(code: CodeType) -> frozenset[str]:
    found = set(code.co_names)
    if any(step.opname.startswith("IMPORT") for step in dis.get_instructions(code)):
        raise _MutableError
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _every_name(constant)
    return frozenset(found)
