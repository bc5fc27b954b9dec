"""Arrays with unused bytes after each row, so that an index beyond a row is an error even inside the array.

A Python kernel takes arrays of any strides, so it can be compiled for arrays with gaps. If it cannot (because
it requires contiguous memory), it is launched with the original arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.simulate.programs.host_arrays import ArrayParameter, flat, shares
from tilewright.simulate.programs.program import DEFAULT_CC, Program, program_for
from tilewright.simulate.row_gaps import RowGaps, suits
from tilewright.simulate.run.memory import DeviceArray


class SpacedArray:
    """The layout of an array with gaps; as an argument it represents the array itself."""

    def __init__(self, source: Any) -> None:
        self.source = source  #: The user's array.
        #: Type, extents, strides and writability of the array with gaps.
        self.dtype: np.dtype[Any] = source.dtype
        self.shape: tuple[int, ...] = source.shape
        self.readonly = isinstance(source, np.ndarray) and not source.flags.writeable
        self.rows = RowGaps(self.shape, self.dtype.itemsize)
        self.strides = self.rows.strides
        self.span_bytes = self.rows.span_bytes  #: Bytes from its first to its last, with the last gap.

    def elements(self, memory: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The elements, as a view of the bytes of the whole span."""
        return np.ndarray(self.shape, self.dtype, memory.data, 0, self.strides)


def spaced(kernel: Any, args: Sequence[Any], cc: tuple[int, int] = DEFAULT_CC) -> tuple[Program, list[Any]]:
    """A kernel compiled for arrays with gaps, and such arguments; both unchanged if that is not possible.

    Raises CompileError, ArgumentTypeError: as :func:`tilewright.simulate.programs.program.program_for`.
    """
    if not isinstance(kernel, Program):
        made: dict[int, SpacedArray] = {}  # an array that is passed twice stays one array
        apart = [_suits(arg) and not _shares(arg, args) for arg in args]
        changed = [
            made.setdefault(id(arg), SpacedArray(arg)) if fits else arg for arg, fits in zip(args, apart, strict=True)
        ]
        if made:
            try:
                return program_for(kernel, changed, cc), changed
            except CompileError:
                pass
    return program_for(kernel, args, cc), list(args)


def _shares(arg: Any, args: Sequence[Any]) -> bool:
    """Whether another argument refers to its elements or its allocation: then it stays as it is."""
    if any(isinstance(other, ArrayParameter) and other.array is arg for other in flat(args)):
        return True
    if isinstance(arg, np.ndarray):
        return any(isinstance(other, np.ndarray) and other is not arg and shares(arg, other) for other in flat(args))
    if not isinstance(arg, DeviceArray):
        return False
    extent = arg.memory.extent(arg.address)
    others = (other for other in flat(args) if isinstance(other, DeviceArray) and other is not arg)
    return any(other.memory is arg.memory and other.memory.extent(other.address) == extent for other in others)


def _suits(arg: Any) -> bool:
    """Whether an argument is a C-contiguous array with rows."""
    if not isinstance(arg, np.ndarray | DeviceArray) or arg.dtype.hasobject:
        return False
    contiguous = isinstance(arg, DeviceArray) or arg.flags.c_contiguous
    return contiguous and suits(arg.shape, arg.dtype.itemsize)
