"""NumPy arguments of a launch: copied to simulated memory with their own strides, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError
from tilewright.gpu.arguments import array_shape
from tilewright.simt.run.memory import ALIGNMENT_BYTES, DeviceArray, Memory, current_memory

#: Copies of arguments from this size on are given back one by one as they are written back.
_GIVEN_BACK_BYTES = 1 << 20


def flat(args: Sequence[Any]) -> Iterator[Any]:
    """The arguments, those inside of tuples one by one."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from flat(arg)
        else:
            yield arg


def given_memory(kernel: str, args: Sequence[Any], memory: Memory | None) -> Memory | None:
    """The one memory that a caller chose, by name or `with`, or that holds a launch's device arrays; None for none."""
    memory = memory or current_memory()
    for index, arg in enumerate(flat(args)):
        if isinstance(arg, DeviceArray):
            if memory is not None and arg.memory is not memory:
                raise ArgumentTypeError(
                    f"{kernel}: argument {index} lies in another Memory than the launch's; "
                    "make all arrays of a launch with one Memory"
                )
            memory = arg.memory
    return memory


def needed_bytes(args: Sequence[Any]) -> int:
    """Memory that the NumPy arguments of a launch take."""
    return sum(_span(arg)[1] - _span(arg)[0] + ALIGNMENT_BYTES for arg in flat(args) if isinstance(arg, np.ndarray))


def _span(array: npt.NDArray[Any]) -> tuple[int, int]:
    """Host addresses of an array's first byte and of the one after its last, gaps between elements included."""
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (0, 1)
    return low, high


@dataclass(slots=True)
class Staged:
    """A NumPy argument's copy in simulated memory; `start` is the address of its element [0, 0, ...]."""

    start: int
    host: npt.NDArray[Any] | None = None
    device: npt.NDArray[Any] | None = None
    span: tuple[int, int] = (0, 0)  # the copy's address and bytes

    def copy_back(self, memory: Memory) -> None:
        """Write the host's array; the copy's memory is given up first come, first gone, so that the peak stays low."""
        if self.host is not None and self.device is not None:
            self.host[...] = self.device
        if self.span[1] >= _GIVEN_BACK_BYTES:
            memory.clear(*self.span)


def stage(args: Sequence[Any], memory: Memory, allocate: Callable[[int], int]) -> dict[int, Staged]:
    """Copy NumPy arguments to memory that `allocate` gives, laid out with their own strides; by the argument's id."""
    staged: dict[int, Staged] = {}
    for arg in flat(args):
        if id(arg) in staged:  # the same array twice is one array on the GPU too
            continue
        if isinstance(arg, DeviceArray):
            staged[id(arg)] = Staged(arg.address)
            arg.host_written = True  # by the launch, from now on
        elif isinstance(arg, np.ndarray):
            if arg.dtype.hasobject:  # its elements are host addresses, which a kernel must never hold
                raise ArgumentTypeError(f"array arguments must have a plain dtype (got {arg.dtype})")
            low, high = _span(arg)
            address = allocate(high - low)
            lead = arg.__array_interface__["data"][0] - low if arg.size else 0
            buffer = memory.view(address, high - low)
            device = np.ndarray(arg.shape, arg.dtype, buffer.data, lead, arg.strides) if arg.size else None
            if device is not None:
                device[...] = arg
            writable = arg.flags.writeable and device is not None and not _overlaps_itself(arg)
            host = arg if writable else None
            staged[id(arg)] = Staged(address + lead, host, device, (address, high - low))
        elif array_shape(arg) is not None:
            raise ArgumentTypeError(
                f"array arguments of a simulated launch must be NumPy arrays or tilewright.simt.DeviceArray "
                f"(got {type(arg).__name__}); copy it with `numpy.asarray` or `Memory.array` first"
            )
    return staged


def _overlaps_itself(array: npt.NDArray[Any]) -> bool:
    """Whether elements share bytes (broadcast views): such an array is an input only."""
    return any(stride == 0 and extent > 1 for stride, extent in zip(array.strides, array.shape, strict=True))
