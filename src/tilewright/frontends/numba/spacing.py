"""Arrays of a launch with a gap after each row, for observers that look for indices beyond a row.

A numba-cuda kernel takes arrays of any strides. So before a launch, contiguous arrays of two or more dimensions are
copied to memory with gaps, and copied back afterwards; so are one-dimensional parts of longer arrays. If the kernel
does not compile for such arrays (it requires contiguous ones), it gets them unchanged.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.observer import Rows
from tilewright.simulate.row_gaps import RowGaps, suits
from tilewright.simulate.state import GLOBAL_BASE

#: Attribute of an array with gaps: the array that the program passed.
GIVEN = "_tilewright_given"


@dataclass(frozen=True, slots=True)
class _Spaced:
    """An argument, and the array with gaps that replaces it."""

    given: Any  # what the program passed: a device array, or the host's
    source: Any  # a contiguous device array with its elements
    array: Any  # the array with gaps


def spacing_call(gpu: SimulatedGpu) -> Callable[..., None]:
    """Replaces `CUDADispatcher.call`."""
    original = importlib.import_module("numba.cuda.dispatcher").CUDADispatcher.call

    @functools.wraps(original)
    def call(dispatcher: Any, arguments: Sequence[Any], config: Any) -> None:
        if not gpu.memory.red_zones:
            original(dispatcher, arguments, config)
            return
        spaced = [] if dispatcher.specialized else _spaced(gpu, arguments)
        changed = tuple(next((s.array for s in spaced if s.given is a), a) for a in arguments)
        if not spaced or not _compiles(dispatcher, changed):
            original(dispatcher, arguments, config)
            return
        try:
            original(dispatcher, changed, config)
        finally:
            for one in spaced:
                _copy(gpu, one.array, one.source)
                if one.given is not one.source and one.given.flags.writeable:
                    one.source.copy_to_host(one.given)

    return call


def _compiles(dispatcher: Any, arguments: Sequence[Any]) -> bool:
    """Whether a kernel compiles for arrays with gaps; checked before the launch, which must not run twice."""
    from numba.core import errors
    from numba.cuda.core import errors as cuda_errors

    types = tuple(dispatcher.typeof_pyval(argument) for argument in arguments)
    if types in dispatcher.overloads:
        return True
    try:
        dispatcher.compile(types)
    except (errors.NumbaError, cuda_errors.NumbaError, TypeError, RuntimeError):
        return False
    return True


def _spaced(gpu: SimulatedGpu, arguments: Sequence[Any]) -> list[_Spaced]:
    """Copies with gaps of those arguments that can have them."""
    if any(observer.as_given for observer in gpu.observers):
        return []
    # a host array that is passed twice is two arrays on the device
    twice = {id(a) for i, a in enumerate(arguments) if type(a) is np.ndarray and any(b is a for b in arguments[:i])}
    suited = {id(a): a for a in arguments if _suits(gpu, a) and id(a) not in twice}
    spans = [(_span(a), a) for a in arguments if hasattr(a, "__array_interface__") or _is_device(a)]
    spans += [((start, start + 1), None) for start in gpu.tensors]  # copies through a tensor map need the tensor itself
    alone = [a for a in suited.values() if not any(b is not a and _overlap(_span(a), span) for span, b in spans)]
    return [_with_gaps(gpu, a) for a in alone]


def _is_device(argument: Any) -> bool:
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    return isinstance(argument, DeviceNDArray)


def _suits(gpu: SimulatedGpu, argument: Any) -> bool:
    """Whether an argument is a plain C-contiguous array of rows, or a row that is part of something longer."""
    if type(argument) is np.ndarray:
        contiguous = argument.flags.c_contiguous
    elif _is_device(argument):
        contiguous = argument.is_c_contiguous()
    else:
        return False
    if not contiguous or argument.dtype.kind not in "biufc":
        return False
    return suits(argument.shape, argument.dtype.itemsize) or _is_part(gpu, argument)


def _is_part(gpu: SimulatedGpu, argument: Any) -> bool:
    """Whether a one-dimensional array is in an allocation that holds more than it."""
    if not _is_device(argument) or len(argument.shape) != 1 or argument.shape[0] == 0:
        return False
    start, end = _span(argument)
    return gpu.memory.extent(start) not in (None, (start, end - start))


def _span(array: Any) -> tuple[int, int]:
    """First byte, and the one after the last."""
    if _is_device(array):
        start = int(array.device_ctypes_pointer.value or 0)
        return start, start + sum(
            (n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)
        ) + array.dtype.itemsize
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _with_gaps(gpu: SimulatedGpu, given: Any) -> _Spaced:
    from numba import cuda
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    source = given if _is_device(given) else cuda.to_device(given)
    rows = RowGaps(source.shape, source.dtype.itemsize)
    memory = cuda.current_context().memalloc(rows.span_bytes)
    array = DeviceNDArray(source.shape, rows.strides, source.dtype, gpu_data=memory)
    setattr(array, GIVEN, given)
    one = _Spaced(given, source, array)
    _copy(gpu, source, array)
    for observer in gpu.observers:
        observer.row_gaps_at(rows.gaps(_span(array)[0]))
    return one


def _copy(gpu: SimulatedGpu, source: Any, target: Any) -> None:
    """Copy elements on the device, and observers' knowledge of their bytes."""
    rows, out = _rows(source), _rows(target)
    memory = gpu.memory.view(GLOBAL_BASE, gpu.memory.used_bytes)
    out.of(memory)[...] = rows.of(memory)
    for observer in gpu.observers:
        observer.copied(rows, out)


def _rows(array: Any) -> Rows:
    """The rows of an array."""
    count, row = math.prod(array.shape[:-1]), array.shape[-1] * array.dtype.itemsize
    return Rows(_span(array)[0], count, array.strides[-2] if array.ndim > 1 else row, row)
