"""Host arrays as arguments: which of them are one memory, and so have one copy on the device."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Allocations of a device start at multiples of this (CUDA C++ Programming Guide, "Device Memory Accesses").
_ALIGNMENT_BYTES = 256
#: How long to look whether two arrays whose bytes lie between each other have an element in common.
_SHARES_WORK = 10_000


class ArrayParameter(abc.ABC):
    """A structure that holds where an array lies: an argument of a launch.

    A kernel takes it by value, or, as kernels of Numba do, as an array of 64-bit words in global memory.
    """

    array: npt.NDArray[Any]
    dtype = np.dtype(np.uint64)  #: Of the words.
    shape: tuple[int, ...]
    strides = (8,)

    @abc.abstractmethod
    def encoded(self, address: int) -> bytes:
        """The structure, for the array at a device's address."""


def flat(args: Sequence[Any]) -> Iterator[Any]:
    """The arguments, those inside of tuples one by one, and behind structures the arrays that they refer to."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from flat(arg)
        elif isinstance(arg, ArrayParameter):
            yield arg
            yield arg.array
        else:
            yield arg


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of an array in C order; as NumPy has it, an extent of 0 counts as 1."""
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def span(array: npt.NDArray[Any]) -> tuple[int, int]:
    """Host addresses of an array's first byte and of the one after its last, gaps between elements included."""
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data,) * 2
    return int(low), int(high)


def shares(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Whether two arrays have an element, or a part of one, in common; where that is hard to say, they have."""
    try:
        return np.shares_memory(one, other, max_work=_SHARES_WORK)  # type: ignore[arg-type]  # NumPy takes any
    except np.exceptions.TooHardError:
        return True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Host memory that one copy on the device stands for: that of an array, or of several that share elements.

    >>> x = np.zeros(64, np.float32)
    >>> (one,), (other,) = stretches([x[8:]]), stretches([x[4:32], x[8:]])
    >>> (one.lead_bytes, one.offset(x[8:])), (other.lead_bytes, other.offset(x[8:]), other.size_bytes)
    ((0, 0), (16, 32, 240))
    """

    arrays: tuple[npt.NDArray[Any], ...]
    #: `low`, `size_bytes`: host address of its first byte, and bytes to its last.
    low: int
    size_bytes: int
    #: Unused bytes before it in the device's copy: views are aligned there as if the whole array were.
    lead_bytes: int

    def offset(self, array: npt.NDArray[Any]) -> int:
        """Bytes from the beginning of the device's copy to an array's element [0, 0, ...]."""
        return self.lead_bytes + int(array.__array_interface__["data"][0]) - self.low

    def elements(self, array: npt.NDArray[Any], copy: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """An array's elements among the bytes of the copy."""
        offset = self.offset(array) if array.size else 0
        return np.ndarray(array.shape, array.dtype, copy.data, offset, array.strides)


def stretches(arrays: Sequence[npt.NDArray[Any]]) -> list[Stretch]:
    """The arrays by the memory that they share, in order of the first; an array that is there twice counts once."""
    groups: list[list[npt.NDArray[Any]]] = []
    for array in {id(array): array for array in arrays}.values():
        meets = [group for group in groups if any(shares(array, other) for other in group)]
        joined = [other for group in meets for other in group]
        if meets:
            meets[0][:] = [*joined, array]
            groups = [group for group in groups if group is meets[0] or not any(group is other for other in meets)]
        else:
            groups.append([array])
    return [_stretch(tuple(group)) for group in groups]


def _stretch(arrays: tuple[npt.NDArray[Any], ...]) -> Stretch:
    lows, highs = zip(*map(span, arrays), strict=True)
    low = min(lows)
    lead = 0
    if len(arrays) > 1:
        lead = (low - min(span(_whole(array))[0] for array in arrays)) % _ALIGNMENT_BYTES
    return Stretch(arrays, low, max(highs) - low, lead)


def _whole(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array that an array is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
