"""Tensor maps: what a kernel's bulk copies know of a tensor in global memory, and of the boxes that they copy.

Source: CUDA driver API, cuTensorMapEncodeTiled, whose rules hold here; PTX ISA, section 5.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.programs.arguments import ArrayShape, array_shape
from tilewright.programs.host_arrays import ArrayParameter
from tilewright.simt.translate.state import TENSOR_MAGIC, TENSOR_MAP_RECORD

#: Bytes across which 16-byte units are exchanged; 0 for none.
SWIZZLES: Final = (0, 32, 64, 128)
_AXES_MOST, _BOX_MOST, _STEP_MOST, _UNIT_BYTES = 5, 256, 8, 16
_STRIDE_MOST = 1 << 40
#: What fills all of an element outside the tensor: zeros, or a NaN by its bytes. Source: CUtensorMapFloatOOBfill.
_NANS: Final = {2: 0x7FFF7FFF7FFF7FFF, 4: 0x7FFFFFFF7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}


@dataclass(frozen=True, eq=False)
class TensorMap(ArrayParameter):
    """A tensor map of an array, an argument for a kernel's 128-byte parameter, or for an array of 16 `uint64`.

    Parameters
    ----------
    array : array of 1 to 5 dimensions
        The innermost, last axis is contiguous; other strides are multiples of 16 bytes. It is an argument of the launch
        like any other: the kernel's writes come back to it.
    box : sequence of int
        Extents of what one copy moves, in the order of the array's axes: 1 to 256 each, the last 16 bytes or a
        multiple.
    swizzle : {0, 32, 64, 128}, optional
        Bytes of shared memory across which units of 16 bytes are exchanged. The box is at most that wide.
    steps : sequence of int, optional
        Distances between the elements that are copied, 1 to 8 on each axis.
    fill : {"zeros", "nan"}, optional
        What elements outside the array are read as.

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        A rule is broken.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright.gpu.tensor_maps import TensorMap
    >>> TensorMap(np.zeros((1000, 512), np.float16), box=(128, 64), swizzle=128).box
    (128, 64)
    """

    shape = (16,)

    array: npt.NDArray[Any]
    box: tuple[int, ...]
    swizzle: int = 0
    steps: tuple[int, ...] = ()
    fill: str = "zeros"

    def __post_init__(self) -> None:
        """Check the rules, so that a launch cannot break them."""
        given = array_shape(self.array)
        if given is None or not 1 <= len(given.shape) <= _AXES_MOST or 0 in given.shape or not _is_plain(given.dtype):
            came = type(self.array).__name__ if given is None else f"{given.dtype.str} of shape {given.shape}"
            raise ArgumentTypeError(
                f"`array` must have 1 to {_AXES_MOST} dimensions, none empty, and numbers of 1, 2, 4 or 8 bytes in the "
                f"host's byte order (got {came}); reshape or convert it"
            )
        rank, size = len(given.shape), given.dtype.itemsize
        object.__setattr__(self, "box", _extents("box", self.box, rank, _BOX_MOST))
        object.__setattr__(self, "steps", _extents("steps", self.steps or (1,) * rank, rank, _STEP_MOST))
        _check_strides(given)
        row_bytes = self.box[-1] * size
        if self.swizzle not in SWIZZLES or row_bytes % _UNIT_BYTES or row_bytes > (self.swizzle or _BOX_MOST * size):
            raise ArgumentValueError(
                f"`box[-1]` must be a multiple of {_UNIT_BYTES} bytes, and no longer than the swizzle, one of "
                f"{SWIZZLES} (got {row_bytes} bytes, swizzle {self.swizzle!r}); choose another box or swizzle"
            )
        if self.fill not in ("zeros", "nan") or (self.fill == "nan" and given.dtype.kind != "f"):
            raise ArgumentValueError(
                f"`fill` must be 'zeros', or 'nan' for floats (got {self.fill!r} for {given.dtype}); leave it out"
            )

    def encoded(self, address: int) -> bytes:
        """The 128 bytes, for an array at a device's address.

        Raises ArgumentValueError: the address is no multiple of 16 bytes.
        """
        if address % _UNIT_BYTES:
            raise ArgumentValueError(
                f"`array` must begin at a multiple of {_UNIT_BYTES} bytes on the device (got {address:#x}); copy it"
            )
        given = array_shape(self.array)
        assert given is not None, "checked when it was made"
        rank, size = len(given.shape), given.dtype.itemsize
        record = np.zeros((), TENSOR_MAP_RECORD)
        record["address"], record["rank"], record["element_bytes"], record["magic"] = address, rank, size, TENSOR_MAGIC
        record["strides"][: rank - 1] = given.strides[-2::-1]
        record["extents"][:rank], record["box"][:rank] = given.shape[::-1], self.box[::-1]
        record["steps"][:rank], record["units"] = self.steps[::-1], max(self.swizzle, _UNIT_BYTES) // _UNIT_BYTES
        record["filler"] = _NANS[size] if self.fill == "nan" else 0
        return record.tobytes()


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.isnative and not dtype.hasobject and dtype.itemsize in (1, 2, 4, 8)


def _extents(name: str, given: Any, rank: int, most: int) -> tuple[int, ...]:
    """A number for each axis."""
    whole = isinstance(given, Sequence) and all(isinstance(x, int | np.integer) for x in given)
    if not whole or len(given) != rank or not all(1 <= x <= most for x in given):
        raise ArgumentValueError(
            f"`{name}` must be {rank} whole numbers from 1 to {most}, one an axis (got {given!r}); give one for each"
        )
    return tuple(int(x) for x in given)


def _check_strides(given: ArrayShape) -> None:
    inner = given.shape[-1] == 1 or given.strides[-1] == given.dtype.itemsize
    if not inner or not all(0 <= x < _STRIDE_MOST and x % _UNIT_BYTES == 0 for x in given.strides[:-1]):
        raise ArgumentValueError(
            f"`array.strides` must be multiples of {_UNIT_BYTES} bytes, and one element along the last axis (got "
            f"{given.strides}); copy it with padding"
        )
