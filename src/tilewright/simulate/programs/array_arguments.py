"""Arrays as arguments: their shapes, and copies of the host's to a device and back.

Arrays that share memory get one copy.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tilewright.errors import ArgumentTypeError

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


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Layout of an array argument, wherever its data are."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    readonly: bool

    @property
    def layout(self) -> str:
        """`C`, `F` or `A`, by NumPy's relaxed rule: extents of 1 may have any stride."""
        for name, order in (("C", range(len(self.shape))[::-1]), ("F", range(len(self.shape)))):
            expected = self.dtype.itemsize
            for axis in order:
                if self.shape[axis] != 1 and self.strides[axis] != expected:
                    break
                expected *= self.shape[axis]
            else:
                return name
        return "C" if 0 in self.shape else "A"


def array_shape(value: Any) -> ArrayShape | None:
    """Describe an array argument; None if `value` is no array.

    Arrays are `numpy.ndarray`, anything with `__cuda_array_interface__`, and anything with `dtype`, `shape` and
    `strides` (such as `tilewright.simt.DeviceArray`).
    """
    if isinstance(value, np.generic):
        return None
    if isinstance(value, np.ndarray):
        return ArrayShape(value.dtype, value.shape, value.strides, not value.flags.writeable)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        strides = interface.get("strides") or row_major(shape, dtype.itemsize)
        return ArrayShape(dtype, shape, tuple(strides), bool(interface["data"][1]))
    if all(hasattr(value, name) for name in ("dtype", "shape", "strides")):
        readonly = bool(getattr(value, "readonly", False))
        return ArrayShape(np.dtype(value.dtype), tuple(value.shape), tuple(value.strides), readonly)
    return None


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
    if array.flags.forc or not array.size:
        start: int = array.__array_interface__["data"][0]
        return start, start + array.nbytes
    low, high = np.lib.array_utils.byte_bounds(array)
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
        if len(self.arrays) == 1 and array.flags.forc:  # it begins where the region does
            return self.lead_bytes
        return self.lead_bytes + int(array.__array_interface__["data"][0]) - self.low

    def elements(self, array: npt.NDArray[Any], copy: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """An array's elements, as a view of the copy's bytes."""
        offset = self.offset(array) if array.size else 0
        return np.ndarray(array.shape, array.dtype, copy.data, offset, array.strides)


def regions(arrays: Sequence[npt.NDArray[Any]]) -> list[Region]:
    """Group arrays by shared memory, in order of the first of each; an array that is passed twice counts once."""
    groups: list[list[npt.NDArray[Any]]] = []
    different = {id(array): array for array in arrays}.values()
    spans = [span(array) for array in different]
    ordered = sorted(spans)
    if all(low >= high for (_, high), (low, _) in itertools.pairwise(ordered)):
        return [Region((one,), low, high - low, 0) for one, (low, high) in zip(different, spans, strict=True)]
    for array in different:
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


#: Copies of at least this size are released one by one as they are written back.
_GIVEN_BACK_BYTES = 1 << 20


@dataclass(slots=True)
class Staged:
    """An array argument on the device; `start` is the address of its element [0, 0, ...]."""

    start: int
    host: npt.NDArray[Any] | None = None  #: The array to write after the launch.
    device: npt.NDArray[Any] | None = None  #: The elements of the copy, as the host then sees them.
    span: tuple[int, int] = (0, 0)  #: Address and size of the copy, if the host needs it no longer after this argument.


class StagedArguments(dict[int, Staged]):
    """The staged array arguments of a launch, by id."""

    def address_of(self, value: Any) -> int:
        """The address of an array's element [0, 0, ...]."""
        return self[id(value)].start

    def copy_back(self, clear: Callable[[int, int], None] | None = None) -> None:
        """Write the host's arrays; `clear` releases large copies as soon as they are read, which keeps the peak low."""
        for item in self.values():
            if item.host is not None and item.device is not None:
                item.host[...] = item.device
            if clear is not None and item.span[1] >= _GIVEN_BACK_BYTES:
                clear(*item.span)


class Place(Protocol):
    """The memory of a device, as one launch's arguments need it."""

    def resident(self, array: Any) -> int:
        """The address of an array that is not NumPy's; ArgumentTypeError if it is not on the device."""

    def structure(self, parameter: ArrayParameter) -> tuple[int, npt.NDArray[np.uint8]]:
        """Memory for a structure: its address, and its bytes for the caller to write.

        Raises ArgumentTypeError: the device has no such structures.
        """

    def copied(self, region: Region) -> tuple[int, npt.NDArray[np.uint8]]:
        """Copy host memory; returns the copy's address, and its bytes as the host sees them after the launch."""


def stage(args: Sequence[Any], place: Place) -> StagedArguments:
    """Copy NumPy arguments to the device.

    Arrays that share elements share memory there too, and an array that is passed twice is copied once.

    Raises ArgumentTypeError: an array has no plain dtype, or is not where a launch can use it.
    """
    staged = StagedArguments()
    arrays, structures = [], []
    for arg in flat(args):
        if isinstance(arg, ArrayParameter):
            address, raw = place.structure(arg)
            staged[id(arg)] = Staged(address)
            structures.append((arg, raw))
        elif isinstance(arg, np.ndarray):
            if arg.dtype.hasobject:  # its elements are host addresses; no kernel may get them
                raise ArgumentTypeError(f"array arguments must have a plain dtype (got {arg.dtype})")
            arrays.append(arg)
        elif array_shape(arg) is not None:
            staged[id(arg)] = Staged(place.resident(arg))
    for region in regions(arrays):
        address, buffer = place.copied(region)
        for arg in region.arrays:
            offset = region.offset(arg) if arg.size else 0
            host = arg if written_back(arg) else None
            staged[id(arg)] = Staged(address + offset, host, region.elements(arg, buffer))
        staged[id(region.arrays[-1])].span = (address, buffer.nbytes)  # this one is written back last
    for structure, raw in structures:
        raw[:] = np.frombuffer(structure.encoded(staged.address_of(structure.array)), np.uint8)
    return staged


def written_back(array: npt.NDArray[Any]) -> bool:
    """Whether an argument is written after a launch: not if it is read-only or broadcast (a stride of 0)."""
    shares = any(stride == 0 and extent > 1 for stride, extent in zip(array.strides, array.shape, strict=True))
    return bool(array.size) and array.flags.writeable and not shares
