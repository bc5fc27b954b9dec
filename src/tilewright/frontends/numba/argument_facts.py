"""Facts of the arguments of numba-cuda's kernels: from its types, and from the values that a program passes."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.frontends.numba.spacing import GIVEN
from tilewright.simulate.device.views import HostPointer
from tilewright.simulate.observer import ArgumentFact
from tilewright.simulate.programs.arguments import DATA, ITEMSIZE, SHAPE, array_fields

#: Attribute of a kernel: its arguments' names, and how many parameters each has.
_FIELDS = "_tilewright_fields"


def facts_of(kernel: Any, given: Sequence[Any], values: Sequence[bytes]) -> Iterator[ArgumentFact]:
    """The facts of each argument, from the types that numba-cuda compiled the kernel for and from the passed value."""
    types = kernel.argument_types
    if not hasattr(kernel, _FIELDS):
        setattr(kernel, _FIELDS, _names_and_counts(kernel))
    names, counts = getattr(kernel, _FIELDS)
    words = [int.from_bytes(value, "little", signed=True) for value in values]
    if sum(counts) != len(words):  # an extension passes something else
        return
    at = 0
    for name, type_, count, value in zip(names, types, counts, given, strict=False):
        yield from _fact(name, type_, words[at : at + count], value)
        at += count


def _names_and_counts(kernel: Any) -> tuple[Sequence[str], Sequence[int]]:
    """For each argument its name, and the number of kernel parameters."""
    function = getattr(kernel, "py_func", None)
    names = list(inspect.signature(function).parameters) if function else []
    names += [f"argument {index}" for index in range(len(names), len(kernel.argument_types))]
    return names, [_fields(type_) for type_ in kernel.argument_types]


def _fields(type_: Any) -> int:
    """Number of kernel parameters for an argument. Source: numba-cuda, `dispatcher.py` (`_Kernel._prepare_args`)."""
    from numba.cuda import types

    if isinstance(type_, types.Array):
        return array_fields(int(type_.ndim))
    if isinstance(type_, types.BaseTuple):
        return sum(_fields(item) for item in type_)
    return 2 if isinstance(type_, types.Complex) else 1


def _own(argument: Any) -> dict[str, Any]:
    """Fields of a fact for an argument that is a copy: the program's array."""
    argument = getattr(argument, "value", argument) if type(argument).__name__ in ("In", "Out", "InOut") else argument
    own = getattr(argument, GIVEN, argument)
    if isinstance(own, np.ndarray):
        owner = own
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return {"given": (int(own.__array_interface__["data"][0]), own.strides), "owner": weakref.ref(owner)}
    return {} if own is argument else {"given": (int(own.device_ctypes_pointer.value or 0), tuple(own.strides))}


def _fact(name: str, type_: Any, words: Sequence[int], given: Any) -> Iterator[ArgumentFact]:
    from numba.cuda import types
    from numba.cuda.np.numpy_support import as_dtype

    if isinstance(type_, types.Array):
        ndim = type_.ndim
        try:
            dtype = as_dtype(type_.dtype)
        except NotImplementedError:  # a type that NumPy does not have
            dtype = np.dtype((np.void, words[ITEMSIZE]))
        shape, strides = tuple(words[SHAPE:][:ndim]), tuple(words[SHAPE + ndim :])
        yield ArgumentFact(name, dtype, shape, strides, words[DATA], _copied_back_to(given), **_own(given))
    elif isinstance(type_, types.BaseTuple):
        at = 0
        for index, item in enumerate(type_):
            yield from _fact(f"{name}[{index}]", item, words[at : at + _fields(item)], given[index])
            at += _fields(item)
    else:
        pointer = isinstance(type_, types.Record | types.CPointer)
        value = words[0] if isinstance(type_, types.Integer) else None
        yield ArgumentFact(name, address=words[0] if pointer else 0, value=value)


def _copied_back_to(given: Any) -> int:
    """Host address of a host array that numba-cuda copies back after the launch; 0 for any other argument."""
    from numba.cuda import In

    array = getattr(given, "value", given)
    if isinstance(given, In) or not isinstance(array, np.ndarray) or hasattr(array, "__cuda_memory__"):
        return 0
    pointer = HostPointer.of(array)
    return int(pointer) if pointer.writable_bytes else 0
