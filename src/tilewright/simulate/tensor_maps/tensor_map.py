"""Tensor maps: the description of a tensor in global memory, and of its boxes, for bulk copies.

Source: CUDA driver API, cuTensorMapEncodeTiled, whose rules apply here; PTX ISA, section 5.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.simulate.programs.array_arguments import ArrayParameter, ArrayShape, array_shape
from tilewright.simulate.tensor_maps.encoding import (
    AXES_MOST,
    BOX_MOST,
    STEP_MOST,
    STRIDE_MOST,
    SWIZZLES,
    TYPES,
    UNIT_BYTES,
    Encoding,
)


@dataclass(frozen=True, eq=False)
class TensorMap(ArrayParameter):
    """A tensor map of an array: an argument for a kernel's 128-byte parameter, or for an array of 16 `uint64`.

    Parameters
    ----------
    array : array of 1 to 5 dimensions
        The last (innermost) axis is contiguous; other strides are multiples of 16 bytes. The launch treats it as an
        array argument: the kernel's writes are copied back to it.
    box : sequence of int
        Extents of one copy, in the order of the array's axes: 1 to 256 each; the last one spans 16 bytes or a
        multiple of that.
    swizzle : {0, 32, 64, 128}, optional
        Bytes of shared memory within which units of 16 bytes are permuted. A row of the box is at most that long.
    steps : sequence of int, optional
        Element strides: on each axis, one of so many elements of the box is copied, 1 to 8; on the last axis 1.
    fill : {"zeros", "nan"}, optional
        The value of elements outside the array.

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        A rule is violated.

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
        """Check the rules, so that a launch cannot violate them."""
        given = array_shape(self.array)
        if given is None or not 1 <= len(given.shape) <= AXES_MOST or 0 in given.shape or not _is_plain(given.dtype):
            came = type(self.array).__name__ if given is None else f"{given.dtype.str} of shape {given.shape}"
            raise ArgumentTypeError(
                f"`array` must have 1 to {AXES_MOST} dimensions, none empty, and numbers of 1, 2, 4 or 8 bytes in the "
                f"host's byte order (got {came}); reshape or convert it"
            )
        rank, size = len(given.shape), given.dtype.itemsize
        object.__setattr__(self, "box", _extents("box", self.box, rank, BOX_MOST))
        object.__setattr__(self, "steps", _extents("steps", self.steps or (1,) * rank, rank, STEP_MOST))
        _check_strides(given)
        row_bytes = self.box[-1] * size
        if self.swizzle not in SWIZZLES:
            raise ArgumentValueError(f"`swizzle` must be one of {SWIZZLES} (got {self.swizzle!r}); choose one of them")
        if row_bytes % UNIT_BYTES or row_bytes > (self.swizzle or BOX_MOST * size):
            raise ArgumentValueError(
                f"`box[-1]` must be a multiple of {UNIT_BYTES} bytes, and no longer than the swizzle "
                f"(got {row_bytes} bytes, swizzle {self.swizzle!r}); choose another box or swizzle"
            )
        if self.fill not in ("zeros", "nan") or (self.fill == "nan" and (given.dtype.kind != "f" or size == 1)):
            raise ArgumentValueError(
                f"`fill` must be 'zeros', or 'nan' for floats (got {self.fill!r} for {given.dtype}); leave it out"
            )

    def encoded(self, address: int) -> bytes:
        """The 128 bytes, for an array at this device address.

        Raises ArgumentValueError: the address is no multiple of 16 bytes.
        """
        if address % UNIT_BYTES:
            raise ArgumentValueError(
                f"`array` must begin at a multiple of {UNIT_BYTES} bytes on the device (got {address:#x}); copy it"
            )
        return self.encoding(address).encoded()

    def encoding(self, address: int) -> Encoding:
        """The fields of the map, for an array at this device address."""
        given = array_shape(self.array)
        assert given is not None, "checked when it was made"
        name = given.dtype.name.upper()  # the driver's type names are NumPy's, where NumPy has the type
        return Encoding(
            name if name in TYPES else f"UINT{8 * given.dtype.itemsize}",
            address,
            given.shape[::-1],
            given.strides[-2::-1],
            self.box[::-1],
            self.steps[::-1],
            self.swizzle,
            self.fill == "nan",
        )


@dataclass(frozen=True, eq=False)
class ImageMap(ArrayParameter):
    """A tensor map of images, for copies of pixels (`im2col`): an argument like :class:`TensorMap`.

    Parameters
    ----------
    array : array of 3 to 5 dimensions
        Images, then one to three spatial axes, then channels; the rules of `TensorMap` apply.
    channels, pixels : int
        Extents of one copy: at most 256 channels of at most 1,024 pixels.
    low, high : sequence of int
        Corners of the spatial box from which pixels are copied, relative to an image's first and last pixel: -1 and
        1 extend it by one pixel. One number for each spatial axis.
    swizzle, steps, fill
        As for `TensorMap`; `steps` has one number for each axis of the array.

    Raises ArgumentValueError, ArgumentTypeError: a rule is violated.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.zeros((2, 8, 8, 16), np.float16)
    >>> ImageMap(images, channels=16, pixels=32, low=(-1, -1), high=(-1, -1)).pixels
    32
    """

    shape = (16,)

    array: npt.NDArray[Any]
    channels: int
    pixels: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    swizzle: int = 0
    steps: tuple[int, ...] = ()
    fill: str = "zeros"

    def __post_init__(self) -> None:
        """Check the rules, so that a launch cannot violate them."""
        rank = len(getattr(self.array, "shape", ()))
        TensorMap(self.array, (1,) * (rank - 1) + (self.channels,), self.swizzle, self.steps, self.fill)
        for name, given in (("low", self.low), ("high", self.high)):
            object.__setattr__(self, name, _extents(name, given, max(rank - 2, 0), 1 << 15, -(1 << 15)))
        object.__setattr__(self, "pixels", *_extents("pixels", (self.pixels,), 1, 1 << 10))
        if rule := self.encoding(0).broken_rule():
            raise ArgumentValueError(f"ImageMap: {rule}; choose others")

    def encoding(self, address: int) -> Encoding:
        """The fields of the map, for an array at this device address."""
        whole = TensorMap(self.array, (1,) * (len(self.array.shape) - 1) + (self.channels,), self.swizzle, self.steps)
        return replace(
            whole.encoding(address),
            nans=self.fill == "nan",
            low=self.low[::-1],
            high=self.high[::-1],
            pixels=self.pixels,
        )

    def encoded(self, address: int) -> bytes:
        """The 128 bytes, for an array at this device address.

        Raises ArgumentValueError: the address is no multiple of 16 bytes.
        """
        return self.encoding(address).encoded()


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.isnative and not dtype.hasobject and dtype.itemsize in (1, 2, 4, 8)


def _extents(name: str, given: Any, rank: int, most: int, least: int = 1) -> tuple[int, ...]:
    """One number for each axis."""
    whole = isinstance(given, Sequence) and all(isinstance(x, int | np.integer) for x in given)
    if not whole or len(given) != rank or not all(least <= x <= most for x in given):
        raise ArgumentValueError(
            f"`{name}` must be {rank} whole numbers from {least} to {most}, one per axis (got {given!r}); pass them"
        )
    return tuple(int(x) for x in given)


def _check_strides(given: ArrayShape) -> None:
    inner = given.shape[-1] == 1 or given.strides[-1] == given.dtype.itemsize
    if not inner or not all(0 <= x < STRIDE_MOST and x % UNIT_BYTES == 0 for x in given.strides[:-1]):
        raise ArgumentValueError(
            f"`array.strides` must be multiples of {UNIT_BYTES} bytes, and one element along the last axis (got "
            f"{given.strides}); copy it with padding"
        )
