"""Products of arrays in a device's memory: the rules of `tw.matmul` that hold for every device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.inventory import Row, arrays_of
from tilewright.multiply.backends.protocol import DeviceArrays
from tilewright.multiply.engine.fusing import Arguments, Fused, fused
from tilewright.multiply.engine.promotion import Types, byte_kind, real_kind
from tilewright.multiply.engine.request import Request
from tilewright.multiply.engine.shapes import Shape, result_shape
from tilewright.multiply.problem.algebra import Algebra, Semiring
from tilewright.multiply.problem.expression import identity
from tilewright.multiply.problem.fingerprint import fingerprint
from tilewright.multiply.problem.kind import Kind

#: Types of numbers whose text says all of them; a derived class may write another.
_NUMBERS = frozenset((bool, int, float, complex, *np.sctypeDict.values())) - {np.object_, np.void}
_SEQUENCES = frozenset((tuple, list))


def matmul(a: Any, b: Any, out: Any, asked: Request, row: Row, axes: Any = None) -> Any:
    """Multiply two arrays in a device's memory.

    `a`, `b` and `out` are as for :func:`tilewright.matmul`, arrays of the device's library with any strides; `out` has
    the shape and dtype of the result, and may share memory with operands. `axes` must be left out, and `device` names
    at most the arrays' own. The result is on A's device; the call does not wait for it.

    Raises ArgumentTypeError, ArgumentValueError: as for arrays of the host, or an operand is on another device;
    DeviceError, CompileError: the device has no such product, or its driver failed.
    """
    if axes is not None:
        raise ArgumentTypeError(
            f"`axes` must be left out for arrays of {row.title}; transpose them, which copies nothing"
        )
    if not _is_there(asked, row):
        raise ArgumentValueError(f"`device` must be left out for arrays that are on one (got {asked.device!r})")
    if isinstance(out, tuple) and len(out) == 1:  # numpy.matmul takes a tuple of one too
        out = out[0]
    return _by_rules(a, b, out, asked, row)


def _is_there(asked: Request, row: Row) -> bool:
    """Whether a request names no device, or the arrays' only one."""
    return asked.device is None or (asked.device == row.name and not row.several)


def _by_rules(a: Any, b: Any, out: Any, asked: Request, row: Row) -> Any:
    """The product, with every rule looked at."""
    there = arrays_of(row, a, b)
    a, b = there.seen("a", a), there.seen("b", b)
    # Floats out of an integer's range have no value there that is the same on all devices; integers wrap.
    limited = asked.casting == "unsafe" and not {a.dtype.kind, b.dtype.kind} <= set("iu")
    found = asked.types(a.dtype, b.dtype, "same_kind" if limited else None)
    if found.lowering == "words" or (found.lowering != "real" and asked.scale != (1, 0)):
        raise ArgumentTypeError(
            f"`alpha`, `beta` and an algebra must be left out for {found.result} arrays of {row.title}; convert them "
            "with .astype, or multiply arrays of the host"
        )
    shape = result_shape(a.shape, b.shape)
    placeholders = _Placeholders(row, there)
    made = _fused(found, asked, out, shape, placeholders)
    kind = _kind(found, a.shape[-1], made, asked.semiring(found))
    target = there.output(out, shape, found.result if made is None else made.result)
    more = [] if made is None else placeholders.arrays(made.operands)
    for name, value in (("a", a), ("b", b), ("out", target), *(("epilogue_args", x) for x in more)):
        there.check(name, value)
    left, right = there.converted("a", a, found.a), there.converted("b", b, found.b)
    if math.prod(shape):
        there.multiply_into(left, right, target, kind, more, shape)
    return target if out is not None else there.result(target)


def known_product(a: Any, b: Any, out: Any, asked: Request, row: Row) -> Any:
    """The product of arrays that are on a device and whose layouts were multiplied before; None for any others.

    A request with a function or an object that may change unseen takes every rule each time.
    """
    if not row.interface or not _is_there(asked, row):
        return None
    arguments: Any = asked.epilogue_args
    epilogue = asked.epilogue
    named = type(arguments) is dict
    if not (named or type(arguments) in _SEQUENCES) or {type(asked.order), type(asked.casting)} != {str}:
        return None
    labels, arrays = [], []
    try:
        for name, x in arguments.items() if named else enumerate(arguments) if arguments else ():
            number = type(x) in _NUMBERS
            labels.append((name, _number(x) if number else None))
            if not number:
                arrays.append(x)
        dtype, total = asked.dtype, asked.acc_dtype
        key = (
            None if dtype is None else _dtype(dtype),
            None if total is None else _dtype(total),
            _number(asked.alpha),
            _number(asked.beta),
            None if epilogue is None else _function(epilogue),
            named,
            *labels,
            _algebra(asked.algebra),
            asked.order,
            asked.casting,
        )
    except _UnknownError:
        return None

    def follow(a: Any, b: Any, out: Any, more: Sequence[Any]) -> Any:
        asked.check()
        rest = iter(more)
        every: Any = {name: next(rest) if number is None else arguments[name] for name, number in labels}
        return _by_rules(a, b, out, replace(asked, epilogue_args=every if named else list(every.values())), row)

    return row.load().known_product(a, b, out, key, follow, arrays)


class _UnknownError(Exception):
    """A part of a request that may change unseen."""


def _dtype(name: Any) -> Any:
    """A dtype's name as a key: NumPy's `longlong` equals int64, which is another dtype."""
    if isinstance(name, str | type):
        return name
    if isinstance(name, np.dtype):
        return name.str, name.char
    if type(name).__module__ != "torch":
        raise _UnknownError
    return name


def _number(value: Any) -> Any:
    """A number as a key: 1, 1.0 and True are equal, and so are 0.0 and -0.0."""
    kind = type(value)
    if kind is int:
        return value
    if kind not in _NUMBERS:
        raise _UnknownError
    return kind, repr(value)


def _function(function: Any) -> Any:
    found = fingerprint(function)
    if found is None:
        raise _UnknownError
    return found


def _algebra(algebra: Any) -> Any:
    if type(algebra) is str:
        return algebra
    if type(algebra) is not Algebra:
        raise _UnknownError
    return algebra.name, _function(algebra.add), _function(algebra.multiply), _number(algebra.zero)


class _Placeholders:
    """Host arrays with the shapes and dtypes of the device's, in their places while expressions are traced."""

    def __init__(self, row: Row, there: DeviceArrays) -> None:
        self._row = row
        self._there = there
        self._found: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        if not self._row.owns(value):
            return value
        seen = self._there.seen("epilogue_args", value)
        placeholder = np.broadcast_to(np.zeros((), seen.dtype), seen.shape)
        self._found[id(placeholder)] = (placeholder, value)
        return placeholder

    def arguments(self, given: Arguments) -> Arguments:
        if isinstance(given, Mapping):
            return {name: self.of(value) for name, value in given.items()}
        return [self.of(value) for value in given] if isinstance(given, Sequence) else given

    def arrays(self, operands: Sequence[Any]) -> list[Any]:
        """The operands with placeholders replaced by the device's arrays."""
        return [self._found[id(x)][1] if id(x) in self._found else x for x in operands]


def _fused(found: Types, asked: Request, out: Any, shape: Shape, placeholders: _Placeholders) -> Fused | None:
    if found.lowering != "real":
        if asked.epilogue is not None or len(asked.epilogue_args):
            raise ArgumentTypeError(f"`epilogue` must be left out for {found.result}; compute afterwards")
        return None
    if asked.beta != 0 and out is None:
        raise ArgumentValueError(f"`beta` must be 0 without `out`, which it scales (got {asked.beta})")
    arguments = placeholders.arguments(asked.epilogue_args)
    return fused(found, asked.wanted, asked.epilogue, arguments, asked.scale, placeholders.of(out), shape)


def _kind(found: Types, k: int, made: Fused | None, algebra: Semiring | None) -> Kind:
    if found.lowering == "bool":
        counted = byte_kind(k)
        return counted._replace(out="bool", finish=identity(counted.accumulator, "bool"))
    if found.lowering == "complex":
        return found.kind
    return real_kind(found, algebra, None if made is None else made.signature)
