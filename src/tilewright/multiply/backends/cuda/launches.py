"""The launches of one product on a GPU, and the memory that they share: recorded first, then issued.

Some addresses are placeholders that :meth:`Launches.issue` replaces: those of operands, so that later products of the
same layouts can issue the launches again, and that of the shared memory. That memory is allocated and freed in the
stream, which a captured graph allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.backends.cuda import current, rearranging
from tilewright.multiply.backends.cuda.device import WORDS
from tilewright.multiply.backends.cuda.tensor_maps import of_driver
from tilewright.simulate.programs import Program
from tilewright.simulate.programs.array_arguments import ArrayParameter, row_major
from tilewright.simulate.tensor_maps.hardware import MAP_BYTES
from tilewright.simulate.tensor_maps.tensor_map import TensorMap

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
#: Placeholders for the addresses of the launches' own memory, of A, B and C, and of an epilogue's operands: each in the
#: middle of 2^50 bytes, since arrays with negative strides reach below their addresses.
_STARTS = tuple((2 * place + 1) << 49 for place in range(1, 13))
WORK, OPERANDS, RESULT, EPILOGUE = _STARTS[0], _STARTS[1:3], _STARTS[3], _STARTS[4:]
#: Alignment of arrays in the launches' memory; tensor maps and vectors need less.
_ALIGN = 256


class _Memory:
    """Device memory with NumPy's array interface."""

    def __init__(self, address: int, shape: Shape, strides: Shape, kind: np.dtype[Any]) -> None:
        plain = kind if kind.isbuiltin == 1 else np.dtype(f"V{kind.itemsize}")
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": plain.str,
            "version": 3,
        }


def pointer(address: int, shape: Shape, strides: Shape, kind: np.dtype[Any]) -> Array:
    """A NumPy array at a device's address, whose elements must not be accessed."""
    return np.asarray(_Memory(address, shape, strides, kind)).view(kind)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch before it is issued; without a kernel, a fill: address, value and number of words."""

    config: Any  #: cuda.core's, or the driver's call that fills.
    kernel: Any
    words: list[Any]  #: The kernel's parameters; a tensor map is encoded when its array's address is known.
    #: Placeholders among the words: index, which placeholder, offset, and whether the word is a tensor map.
    slots: tuple[tuple[int, int, int, bool], ...]


@dataclass(slots=True)
class Launches:
    """The launches, in order."""

    device: current.Current
    made: list[Launch] = field(default_factory=list)
    work_bytes: int = 0  #: Bytes of the launches' own memory.

    def room(self, shape: Shape, kind: np.dtype[Any], rows_apart: int = 1) -> Array:
        """A new row-major array whose rows start at multiples of `rows_apart` bytes."""
        strides = list(row_major(shape, kind.itemsize))
        if len(shape) > 1:
            apart = -(-strides[-2] // rows_apart) * rows_apart
            strides[:-1] = row_major((*shape[:-2], shape[-2]), apart)
        found = pointer(WORK + self.work_bytes, shape, tuple(strides), kind)
        size = shape[0] * strides[0] if shape else kind.itemsize
        self.work_bytes += -(-size // _ALIGN) * _ALIGN
        return found

    def add(self, program: Program, grid: Any, block: Any, shared_bytes: int, arguments: Sequence[Any]) -> None:
        """A launch of a kernel."""
        replaced = current.is_replaced()
        maps = iter([one if replaced else of_driver(one) for one in arguments if isinstance(one, TensorMap)])
        values = program.marshal(arguments, lambda array: int(array.ctypes.data))
        words = [
            next(maps) if len(value) == MAP_BYTES else np.frombuffer(value, WORDS[len(value)])[0] for value in values
        ]
        config = current.names().LaunchConfig(grid=grid, block=block, shmem_size=shared_bytes)
        self.made.append(Launch(config, current.loaded(program, self.device, shared_bytes), words, _slots(words)))

    def set(self, address: int, value: int, count: int, size: int = 1) -> None:
        """Set `count` words of `size` bytes: 1, 2 or 4."""
        words = [np.uint64(address), value, count]
        self.made.append(Launch(f"cuMemsetD{8 * size}Async", None, words, _slots(words[:1])))

    def rearrange(
        self, source: Array, target: Array, names: tuple[str, str, str], parts: str = "", parts_apart: int = 0
    ) -> None:
        """Copy an array to another of its shape; `names` are the dtypes of source, in between, and target.

        Elements may be written as several parts, so many bytes apart.
        """
        program = rearranging.program(*names, self.device.compute_capability, parts)
        for grid, block, arguments in rearranging.launches(source, target, parts_apart):
            self.add(program, grid, block, 0, arguments)

    def issue(self, stream: Any, at: Sequence[int] = (*OPERANDS, RESULT, *EPILOGUE)) -> None:
        """Issue the launches in a stream, with these addresses of A, B, C and of an epilogue's operands.

        Raises DeviceError: the device has no memory left, or the driver refuses a call.
        """
        core, driver, work = current.names(), None, 0
        if self.work_bytes:
            driver = current.driver()
            work = int(current.check(driver.cuMemAllocAsync(self.work_bytes, stream.handle), "allocating memory"))
        try:
            for one in self.made:
                words = _put_in(one, (work, *at))
                if one.kernel is None:
                    fill = getattr(current.driver(), one.config)
                    found = fill(int(words[0]), words[1], words[2], stream.handle)
                    current.check(found, "setting memory")
                else:
                    current.launch(core, stream, one.config, one.kernel, words)
        finally:
            if work and driver is not None:
                current.check(driver.cuMemFreeAsync(work, stream.handle), "freeing memory")


def _put_in(one: Launch, at: tuple[int, ...]) -> list[Any]:
    words = one.words.copy()
    for place, operand, offset, is_map in one.slots:
        address = at[operand] + offset
        words[place] = words[place].encoded(address) if is_map else np.uint64(address)
    return words


def _slots(words: list[Any]) -> tuple[tuple[int, int, int, bool], ...]:
    found = []
    for place, word in enumerate(words):
        is_map = isinstance(word, ArrayParameter)
        if is_map:
            address = int(word.array.ctypes.data)
        elif isinstance(word, np.uint64):
            address = int(word)
        else:
            continue
        operand = (address >> 50) - 1
        if 0 <= operand < len(_STARTS):
            found.append((place, operand, address - _STARTS[operand], is_map))
        elif is_map:
            words[place] = word.encoded(address)
    return tuple(found)
