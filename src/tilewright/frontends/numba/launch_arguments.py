"""The arguments of numba-cuda's launches for observers: arrays with gaps, facts of each, copies to the host.

A gap after each row shows indices beyond the row. A numba-cuda kernel takes arrays of any strides. So before a launch,
contiguous arrays of two or more dimensions are copied to memory with gaps, and copied back afterwards; so are
one-dimensional parts of longer arrays. If the kernel does not compile for such arrays (it requires contiguous ones), it
gets them unchanged.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.internal_code import source_line
from tilewright.simulate.device.views import ArrayView, HostPointer
from tilewright.simulate.observer import ArgumentFact, Rows
from tilewright.simulate.programs.arguments import DATA, ITEMSIZE, SHAPE, array_fields
from tilewright.simulate.programs.numba_names import DRIVER
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


def observed_copy(gpu: SimulatedGpu) -> Callable[..., None]:
    """Replaces `device_to_host` of numba-cuda's driver."""
    driver = importlib.import_module(DRIVER)
    original: Callable[..., None] = driver.device_to_host

    @functools.wraps(original)
    def device_to_host(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
        address = int(driver.device_pointer(src) or 0)
        if gpu.observers and gpu.memory.extent(address):  # a copy from dead memory is an error, and reads nothing
            known: Any = (getattr(src, name, None) for name in ("shape", "strides", "dtype"))
            shape, strides, dtype = known
            if not isinstance(dtype, np.dtype) or not shape:  # one element, or bytes without a dtype
                shape, strides, dtype = (1,), (size,), np.dtype((np.void, size))
            _report(gpu, ArgumentFact("", dtype, tuple(shape), tuple(strides), address))
        original(dst, src, size, stream)

    return device_to_host


def observed_out(gpu: SimulatedGpu) -> Callable[..., Any]:
    """Replaces `cuda.Out.to_device`: the array is copied to the host after the launch, and not to the device."""
    original: Callable[..., Any] = importlib.import_module("numba.cuda.args").Out.to_device

    @functools.wraps(original)
    def to_device(hint: Any, after: list[Callable[[], Any]], stream: Any = 0) -> Any:
        known = len(after)
        array = original(hint, after, stream)
        if gpu.observers and not hint.copy_input and len(after) > known:
            after.insert(known, functools.partial(_report_view, gpu, array))
        return array

    return to_device


def _report_view(gpu: SimulatedGpu, array: ArrayView) -> None:
    strides = tuple(stride * array.dtype.itemsize for stride in array.strides)
    if gpu.memory.extent(array.ptr) and min(strides, default=0) >= 0:
        _report(gpu, ArgumentFact("", array.dtype, array.shape, strides, array.ptr))


def _report(gpu: SimulatedGpu, fact: ArgumentFact) -> None:
    place = source_line()
    with gpu.lock:
        for observer in gpu.observers:
            observer.host_reads(fact, place)
