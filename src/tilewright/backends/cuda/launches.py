"""The launches of one product on a GPU, with memory of its own between them: noted first, then made.

Addresses in them may stand for others, which :meth:`Launches.issue` puts in: those of operands whose layouts are
multiplied again and again, and that of the memory which the launches share. This is taken and given back in the
stream, as a graph that is captured allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.backends.cuda import current, rearranging
from tilewright.backends.cuda.device import WORDS
from tilewright.backends.cuda.tensor_maps import of_driver
from tilewright.gpu.map_encoding import UNIT_BYTES
from tilewright.gpu.map_hardware import MAP_BYTES
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.programs import Program
from tilewright.programs.host_arrays import ArrayParameter, row_major

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
#: Addresses that stand for those of A, B and C, of the launches' own memory, and of an epilogue's operands: no array
#: reaches from one to the next.
OPERANDS, RESULT, WORK = (1 << 50, 2 << 50), 3 << 50, 4 << 50
EPILOGUE = tuple(place << 50 for place in range(5, 13))
_STARTS = (*OPERANDS, RESULT, WORK, *EPILOGUE)
#: What arrays in the launches' memory begin at multiples of: a tensor map's, and a vector's, is less.
_ALIGN = 256


class _Memory:
    """Device memory, as NumPy asks for the host's."""

    def __init__(self, address: int, shape: Shape, strides: Shape, kind: np.dtype[Any]) -> None:
        plain = kind if kind.isbuiltin == 1 else np.dtype(f"V{kind.itemsize}")
        self.__array_interface__ = {
            "data": (address, False), "shape": shape, "strides": strides, "typestr": plain.str, "version": 3,
        }  # fmt: skip


def pointer(address: int, shape: Shape, strides: Shape, kind: np.dtype[Any]) -> Array:
    """An array of NumPy's at a device's address, whose elements must not be touched."""
    return np.asarray(_Memory(address, shape, strides, kind)).view(kind)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch before it is made; without a kernel, bytes that are set: their address, their value, how many."""

    config: Any
    kernel: Any
    words: list[Any]  #: The kernel's parameters; a tensor map is its array's, and encoded when its address is known.
    #: Which words are addresses that stand for others: place, which of the addresses that stand, and offset.
    slots: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class Launches:
    """The launches, in order."""

    device: current.Current
    made: list[Launch] = field(default_factory=list)
    work_bytes: int = 0  #: Memory of their own.
    align: int = 1  #: What addresses of operands must be multiples of.

    def room(self, shape: Shape, kind: np.dtype[Any], rows_apart: int = 1) -> Array:
        """A new array, row-major, whose rows begin at multiples of so many bytes."""
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
        if any(isinstance(one, ArrayParameter) for one in words):
            self.align = UNIT_BYTES
        config = current.names().LaunchConfig(grid=grid, block=block, shmem_size=shared_bytes)
        self.made.append(Launch(config, current.loaded(program, self.device, shared_bytes), words, _slots(words)))

    def set(self, address: int, value: int, count: int) -> None:
        """Set bytes."""
        words = [np.uint64(address), value, count]
        self.made.append(Launch(None, None, words, _slots(words[:1])))

    def rearrange(self, source: Array, target: Array, names: tuple[str, str, str]) -> None:
        """Copy an array to another of its shape: `names` are the dtypes of the one, between, and of the other."""
        program = rearranging.program(*names, self.device.compute_capability)
        lead = max(0, source.ndim - 3)
        for i in np.ndindex(source.shape[:lead]):
            grid, block, arguments = rearranging.launch(source[i], target[i])
            self.add(program, grid, block, 0, arguments)

    def issue(
        self, stream: Any, at: tuple[int, ...] = (*OPERANDS, RESULT), epilogue: tuple[int, ...] = EPILOGUE
    ) -> None:
        """Make them in a stream; addresses of A, B, C and an epilogue's operands replace those that stand for them.

        Raises DeviceError: the driver has no memory, or refuses a call.
        """
        core, driver = current.names(), None
        work = 0
        if self.work_bytes:
            driver = current.driver()
            work = int(current.check(driver.cuMemAllocAsync(self.work_bytes, stream.handle), "taking memory"))
        try:
            for one in self.made:
                words = _put_in(one, (*at, work, *epilogue))
                if one.kernel is None:
                    found = current.driver().cuMemsetD8Async(int(words[0]), words[1], words[2], stream.handle)
                    current.check(found, "setting memory")
                else:
                    current.launch(core, stream, one.config, one.kernel, words)
        finally:
            if work and driver is not None:
                current.check(driver.cuMemFreeAsync(work, stream.handle), "giving memory back")


def _put_in(one: Launch, at: tuple[int, ...]) -> list[Any]:
    words = one.words.copy()
    for place, operand, offset in one.slots:
        address = at[operand] + offset
        words[place] = words[place].encoded(address) if isinstance(words[place], ArrayParameter) else np.uint64(address)
    return words


def _slots(words: list[Any]) -> tuple[tuple[int, int, int], ...]:
    found = []
    for place, word in enumerate(words):
        if isinstance(word, ArrayParameter):
            address = int(word.array.ctypes.data)
        elif isinstance(word, np.uint64):
            address = int(word)
        else:
            continue
        operand = (address >> 50) - 1
        if 0 <= operand < len(_STARTS):
            found.append((place, operand, address - _STARTS[operand]))
        elif isinstance(word, ArrayParameter):
            words[place] = word.encoded(address)
    return tuple(found)
