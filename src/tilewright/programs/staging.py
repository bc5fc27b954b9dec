"""The arrays among a launch's arguments: copied to the device with their own strides, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError
from tilewright.programs.arguments import array_shape
from tilewright.programs.host_arrays import ArrayParameter, Stretch, flat, stretches

#: Copies of arguments from this size on are given back one by one as they are written back.
_GIVEN_BACK_BYTES = 1 << 20


@dataclass(slots=True)
class Staged:
    """An array argument on the device; `start` is the address of its element [0, 0, ...]."""

    start: int
    host: npt.NDArray[Any] | None = None  #: What is written after the launch.
    device: npt.NDArray[Any] | None = None  #: The copy's elements, as the host sees them then.
    span: tuple[int, int] = (0, 0)  #: The copy's address and bytes, where the host is done with it after this argument.


class StagedArguments(dict[int, Staged]):
    """The array arguments of a launch, by their id."""

    def address_of(self, value: Any) -> int:
        """Where an array's element [0, 0, ...] is."""
        return self[id(value)].start

    def copy_back(self, clear: Callable[[int, int], None] | None = None) -> None:
        """Write the host's arrays; `clear` takes large copies as they are read, so that the peak stays low."""
        for item in self.values():
            if item.host is not None and item.device is not None:
                item.host[...] = item.device
            if clear is not None and item.span[1] >= _GIVEN_BACK_BYTES:
                clear(*item.span)


class Place(Protocol):
    """A device's memory, as the arguments of one launch need it."""

    def resident(self, array: Any) -> int:
        """The address of an array that is none of NumPy's; ArgumentTypeError where it is not on the device."""

    def structure(self, parameter: ArrayParameter) -> tuple[int, npt.NDArray[np.uint8]]:
        """Memory for a structure: its address and its bytes, which the caller writes.

        Raises ArgumentTypeError: the device has no such structures.
        """

    def copied(self, stretch: Stretch) -> tuple[int, npt.NDArray[np.uint8]]:
        """Copy host memory: the copy's address and its bytes, which the host sees when the launch is over."""


def stage(args: Sequence[Any], place: Place) -> StagedArguments:
    """Copy NumPy arguments to the device.

    Arrays that share elements, and the same array twice, are one memory there as they are on the host.

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
            if arg.dtype.hasobject:  # its elements are host addresses, which a kernel must never hold
                raise ArgumentTypeError(f"array arguments must have a plain dtype (got {arg.dtype})")
            arrays.append(arg)
        elif array_shape(arg) is not None:
            staged[id(arg)] = Staged(place.resident(arg))
    for stretch in stretches(arrays):
        address, buffer = place.copied(stretch)
        for arg in stretch.arrays:
            offset = stretch.offset(arg) if arg.size else 0
            host = arg if written_back(arg) else None
            staged[id(arg)] = Staged(address + offset, host, stretch.elements(arg, buffer))
        staged[id(stretch.arrays[-1])].span = (address, buffer.nbytes)  # all are written back by then
    for structure, raw in structures:
        raw[:] = np.frombuffer(structure.encoded(staged.address_of(structure.array)), np.uint8)
    return staged


def written_back(array: npt.NDArray[Any]) -> bool:
    """Whether an argument is written after a launch: not a read-only one, nor a broadcast one (a stride of 0)."""
    shares = any(stride == 0 and extent > 1 for stride, extent in zip(array.strides, array.shape, strict=True))
    return bool(array.size) and array.flags.writeable and not shares
