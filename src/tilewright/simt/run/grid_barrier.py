"""Whether the blocks of a cooperative launch wait for blocks that have ended.

A grid-wide barrier is a counter in global memory that each block adds 1 to and then watches until all have come. A
block that ends before never comes, and those that watch would do so for ever: the machine knows how many have ended,
and the counter how many wait.

Source: CUDA C++ Programming Guide, "Grid Synchronization": every thread of the grid must come to it.
"""

from __future__ import annotations

import ctypes
import threading


class GridBarrier:
    """The barrier of one launch.

    Parameters
    ----------
    address : int
        Host address of the counter, u32: how often a block has come, 0 at first.
    blocks : int
        Blocks of the grid.
    """

    def __init__(self, address: int, blocks: int) -> None:
        self.ended = 0
        self._counter = ctypes.c_uint32.from_address(address)
        self._blocks = blocks
        self._live = 0
        self._lock = threading.Lock()

    def begun(self) -> None:
        """Take note of a host thread's place for one block after the other."""
        with self._lock:
            self._live += 1

    def left(self) -> None:
        """Take note of a place that has had its last block."""
        with self._lock:
            self._live -= 1

    def is_stuck(self, handed_out: int) -> bool:
        """Whether every block has ended or waits for those that have.

        Parameters
        ----------
        handed_out : int
            Blocks that have begun, those that have ended included.
        """
        if handed_out < self._blocks:
            return False
        waiting = self._counter.value % self._blocks
        with self._lock:
            ended = self._blocks - self._live
        if not ended or waiting + ended < self._blocks:
            return False
        self.ended = ended
        return True
