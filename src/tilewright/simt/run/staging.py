"""NumPy arguments of a launch: copied to simulated memory with their own strides, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError
from tilewright.programs.arguments import array_shape
from tilewright.programs.host_arrays import flat, stretches
from tilewright.simt.run.memory import ALIGNMENT_BYTES, DeviceArray, Memory, current_memory

#: Copies of arguments from this size on are given back one by one as they are written back.
_GIVEN_BACK_BYTES = 1 << 20


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
    arrays = [arg for arg in flat(args) if isinstance(arg, np.ndarray)]
    return sum(one.lead_bytes + one.size_bytes + ALIGNMENT_BYTES for one in stretches(arrays))


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


def _instead_of(array: Any) -> str:
    """What to do with an array of another kind: numba-cuda's are of the GPU in place, which such a launch is not on."""
    if hasattr(array, "copy_to_host"):
        return (
            "pass its `copy_to_host()`, or launch the kernel as numba.cuda does, `kernel[grid, block](...)`, below "
            "`%%check` or `%%profile` in a notebook, or in a program for `tilewright check` or `profile`"
        )
    return "copy it with `numpy.asarray` or `Memory.array` first"


def stage(args: Sequence[Any], memory: Memory, allocate: Callable[[int], int]) -> dict[int, Staged]:
    """Copy NumPy arguments to memory that `allocate` gives, laid out with their own strides; by the argument's id.

    Arrays that share elements, and the same array twice, are one memory there as they are on the host.
    """
    staged: dict[int, Staged] = {}
    arrays = []
    for arg in flat(args):
        if isinstance(arg, DeviceArray):
            staged[id(arg)] = Staged(arg.address)
            arg.host_written = True  # by the launch, from now on
        elif isinstance(arg, np.ndarray):
            if arg.dtype.hasobject:  # its elements are host addresses, which a kernel must never hold
                raise ArgumentTypeError(f"array arguments must have a plain dtype (got {arg.dtype})")
            arrays.append(arg)
        elif array_shape(arg) is not None:
            raise ArgumentTypeError(
                f"array arguments of a simulated launch must be NumPy arrays or tilewright.simt.DeviceArray "
                f"(got {type(arg).__name__}); {_instead_of(arg)}"
            )
    for stretch in stretches(arrays):
        size = max(stretch.lead_bytes + stretch.size_bytes, 1)
        address = allocate(size)
        buffer = memory.view(address, size)
        for arg in stretch.arrays:
            staged[id(arg)] = _staged(arg, address, stretch.offset(arg) if arg.size else 0, buffer)
        staged[id(stretch.arrays[-1])].span = (address, size)  # all are written back by then
    return staged


def _staged(array: npt.NDArray[Any], address: int, offset: int, buffer: npt.NDArray[np.uint8]) -> Staged:
    """An array copied into the bytes at an address."""
    if not array.size:
        return Staged(address)
    device = np.ndarray(array.shape, array.dtype, buffer.data, offset, array.strides)
    device[...] = array
    return Staged(address + offset, array if array.flags.writeable and not _overlaps_itself(array) else None, device)


def _overlaps_itself(array: npt.NDArray[Any]) -> bool:
    """Whether elements share bytes (broadcast views): such an array is an input only."""
    return any(stride == 0 and extent > 1 for stride, extent in zip(array.strides, array.shape, strict=True))
