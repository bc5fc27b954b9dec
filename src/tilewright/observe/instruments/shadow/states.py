"""The state of every byte of global memory: free, allocated, written, freed, constant, or a gap between rows.

It exists as long as that memory, across launches, because a launch may read what an earlier one wrote.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

from tilewright.errors import OutOfMemoryError
from tilewright.ground.native import pages
from tilewright.observe.instruments.areas import KEPT_BYTES_MAX, areas
from tilewright.observe.instruments.shadow.cells import FREE, FREED, READABLE, WRITABLE
from tilewright.simulate.events import GLOBAL_BASE
from tilewright.simulate.machine.host_memory import refused


class States:
    """One byte of state for each byte of a device's global memory; pages exist only where memory is used.

    >>> states = States(1 << 20)
    >>> states.allocated(GLOBAL_BASE, 64)
    >>> states.host_wrote(GLOBAL_BASE, 16)
    >>> states.written(GLOBAL_BASE, 64).tolist().count(True)
    16
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.size_bytes = capacity_bytes  #: The capacity.
        self._bytes = areas().take(capacity_bytes + mmap.PAGESIZE)
        self._known_blocks: dict[int, int] = {}  # heap -> from where on its blocks are known
        self._lazy = capacity_bytes > KEPT_BYTES_MAX and pages.DISCARDS  # a filled mapping is not used again

    @property
    def host_address(self) -> int:
        """Host address of the state of the byte at GLOBAL_BASE."""
        return self._bytes.ctypes.data

    def allocated(self, address: int, size_bytes: int, zone_bytes: int = 0) -> None:
        """Mark bytes as allocated and not written.

        Freed bytes in the zone after them become free: no allocation owns them any more.

        Raises OutOfMemoryError: the host has less memory than that.
        """
        if not self._lazy and (why := refused(size_bytes)):
            raise OutOfMemoryError(f"a check keeps a byte for each byte of GPU memory, so {why}; allocate less")
        self._fill(address, size_bytes, WRITABLE)
        zone = self._part(address + size_bytes, zone_bytes)
        zone[zone == FREED] = FREE

    def freed(self, address: int, size_bytes: int) -> None:
        """Mark bytes as freed."""
        self._fill(address, size_bytes, FREED)

    def is_freed(self, address: int) -> bool:
        """Whether the byte at an address was freed, and not allocated since."""
        return bool((self._part(address, 1) == FREED).any()) if address >= GLOBAL_BASE else False

    def host_wrote(self, address: int, size_bytes: int) -> None:
        """Mark bytes as written by the host."""
        self._part(address, size_bytes)[:] |= READABLE

    def constant(self, address: int, size_bytes: int) -> None:
        """Mark bytes that kernels may only read."""
        self._part(address, size_bytes)[:] = READABLE

    def heap(self, address: int, size_bytes: int, taken_bytes: int, mark: int) -> int:
        """Mark as free what no block of a heap has; returns where the blocks that are known begin.

        Blocks among the `taken_bytes` of a new heap are not known. `mark` is the address of a byte by whose state a
        heap is known again: once it is, only handlers change the heap's states.
        """
        if self._part(mark, 1)[0] != FREE:
            self._known_blocks[address] = address + taken_bytes
            self._fill(address + taken_bytes, size_bytes - taken_bytes, FREE)
            self._fill(mark, 1, FREE)
        return self._known_blocks.get(address, address + size_bytes)

    def held(self, address: int, size_bytes: int) -> npt.NDArray[np.uint8]:
        """A copy of the states of some bytes."""
        return self._part(address, size_bytes).copy()

    def copied(self, size_bytes: int) -> States:
        """States of their own for the first bytes, with what these have."""
        made = States(size_bytes)
        made._bytes[:size_bytes] = self._bytes[:size_bytes]
        made._known_blocks = dict(self._known_blocks)
        return made

    def put_back(self, address: int, states: npt.NDArray[np.uint8]) -> None:
        """Restore the states of some bytes."""
        self._part(address, states.size)[:] = states

    @property
    def bytes_(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The states, from GLOBAL_BASE on."""
        return self._bytes

    def written(self, address: int, size_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of the bytes have been written."""
        part: np.ndarray[tuple[int], np.dtype[np.bool_]] = (self._part(address, size_bytes) & READABLE).astype(np.bool_)
        return part

    def _fill(self, address: int, size_bytes: int, state: int) -> None:
        part = self._part(address, size_bytes)
        if self._lazy:
            pages.fill(part.ctypes.data, part.size, state)
        else:
            part[:] = state

    def _part(self, address: int, size_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        start = address - GLOBAL_BASE
        return self._bytes[start : start + size_bytes]
