"""Copies the array arguments of a launch to the device, with their strides, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError
from tilewright.simulate.programs.arguments import array_shape
from tilewright.simulate.programs.host_arrays import ArrayParameter, Region, flat, regions

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
