"""Host arrays as arguments: arrays that share memory get one copy on the device."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

#: Allocations of a device start at multiples of this (CUDA C++ Programming Guide, "Device Memory Accesses").
_ALIGNMENT_BYTES = 256
#: How much work to spend on whether two interleaved arrays share an element.
_SHARES_WORK = 10_000


class ArrayParameter(abc.ABC):
    """A structure that describes an array: an argument of a launch.

    A kernel takes it by value, or (kernels of Numba) as an array of 64-bit words in global memory.
    """

    array: npt.NDArray[Any]
    dtype = np.dtype(np.uint64)  #: Dtype of the words.
    shape: tuple[int, ...]
    strides = (8,)

    @abc.abstractmethod
    def encoded(self, address: int) -> bytes:
        """The structure for an array at this device address."""


def flat(args: Sequence[Any]) -> Iterator[Any]:
    """The arguments with tuples expanded; a structure is replaced by the array that it describes."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from flat(arg)
        elif isinstance(arg, ArrayParameter):
            yield arg
            yield arg.array
        else:
            yield arg


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of an array in C order; as in NumPy, an extent of 0 counts as 1."""
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def strided(array: npt.NDArray[Any], shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[Any]:
    """A view of an array from its first element on: NumPy's `as_strided`, also for ml_dtypes' types.

    >>> strided(np.arange(6), (2, 2), (24, 8)).tolist()
    [[0, 1], [3, 4]]
    """
    kind = array.dtype
    plain = array if kind.isbuiltin == 1 else array.view(f"V{kind.itemsize}")
    return as_strided(plain, tuple(shape), tuple(strides)).view(kind)


def span(array: npt.NDArray[Any]) -> tuple[int, int]:
    """Host addresses of an array's first byte and of the one after its last, with gaps between elements."""
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data,) * 2
    return int(low), int(high)


def shares(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Whether two arrays share an element or a part of one; if that is hard to decide, True."""
    try:
        return np.shares_memory(one, other, max_work=_SHARES_WORK)  # type: ignore[arg-type]  # NumPy takes any
    except np.exceptions.TooHardError:
        return True


@dataclass(frozen=True, slots=True)
class Region:
    """Host memory that one device copy represents: an array, or several that share elements.

    >>> x = np.zeros(64, np.float32)
    >>> (one,), (other,) = regions([x[8:]]), regions([x[4:32], x[8:]])
    >>> (one.lead_bytes, one.offset(x[8:])), (other.lead_bytes, other.offset(x[8:]), other.size_bytes)
    ((0, 0), (16, 32, 240))
    """

    arrays: tuple[npt.NDArray[Any], ...]
    #: `low`, `size_bytes`: host address of the first byte, and the number of bytes.
    low: int
    size_bytes: int
    #: Unused bytes before it in the device's copy, so that views have the alignment that they have in the whole array.
    lead_bytes: int

    def offset(self, array: npt.NDArray[Any]) -> int:
        """Bytes from the beginning of the device's copy to an array's element [0, 0, ...]."""
        return self.lead_bytes + int(array.__array_interface__["data"][0]) - self.low

    def elements(self, array: npt.NDArray[Any], copy: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """An array's elements, as a view of the copy's bytes."""
        offset = self.offset(array) if array.size else 0
        return np.ndarray(array.shape, array.dtype, copy.data, offset, array.strides)


def regions(arrays: Sequence[npt.NDArray[Any]]) -> list[Region]:
    """Group arrays by shared memory, in order of the first of each; an array that is passed twice counts once."""
    groups: list[list[npt.NDArray[Any]]] = []
    for array in {id(array): array for array in arrays}.values():
        meets = [group for group in groups if any(shares(array, other) for other in group)]
        joined = [other for group in meets for other in group]
        if meets:
            meets[0][:] = [*joined, array]
            groups = [group for group in groups if group is meets[0] or not any(group is other for other in meets)]
        else:
            groups.append([array])
    return [_region(tuple(group)) for group in groups]


def _region(arrays: tuple[npt.NDArray[Any], ...]) -> Region:
    lows, highs = zip(*map(span, arrays), strict=True)
    low = min(lows)
    lead = 0
    if len(arrays) > 1:
        lead = (low - min(span(_whole(array))[0] for array in arrays)) % _ALIGNMENT_BYTES
    return Region(arrays, low, max(highs) - low, lead)


def _whole(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array that an array is a view of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
