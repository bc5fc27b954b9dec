"""The grid barrier of a cooperative launch, and a test for blocks that wait for ever.

The barrier is a word in global memory, at byte 4 of the workspace that the driver gives to such a launch. The first
block adds 2^31 less the number of the other blocks, and each of those adds 1. So the top bit changes when all blocks
have arrived, and the blocks wait for that change. A block that ends earlier never arrives, so the others would wait
for ever. To detect this, the simulated GPU counts the blocks that have ended, and the word counts those that wait.

Source: CUDA C++ Programming Guide, "Grid Synchronization": every thread of the grid must reach it; CUDA,
cooperative_groups/details/sync.h (`sync_grids`).
"""

from __future__ import annotations

import ctypes
import threading

from tilewright.simulate.run.memory import Memory

#: Bytes of a workspace, and the offset of the barrier in it.
WORKSPACE_BYTES, _BARRIER_AT = 8, 4
_TOP_BIT = 1 << 31


class GridBarrier:
    """The barrier of one launch.

    `workspace` is the device address of `WORKSPACE_BYTES` in `memory`, which the constructor clears.
    """

    def __init__(self, memory: Memory, workspace: int, blocks: int) -> None:
        self.workspace = workspace
        self.ended = 0
        words = memory.view(workspace, WORKSPACE_BYTES)
        words[:] = 0
        self._word = ctypes.c_uint32.from_address(words.ctypes.data + _BARRIER_AT)
        self._blocks = blocks
        self._live = 0
        self._lock = threading.Lock()

    def entered(self, count: int = 1) -> None:
        """Add `count` slots of a host thread, each of which runs one block after another."""
        with self._lock:
            self._live += count

    def left(self, count: int = 1) -> None:
        """Remove `count` slots, after their last block."""
        with self._lock:
            self._live -= count

    def is_stuck(self, handed_out: int) -> bool:
        """Whether every block has ended or waits for those that have.

        `handed_out` is the number of blocks that have started, including those that have ended.
        """
        if handed_out < self._blocks:
            return False
        came = self._word.value % _TOP_BIT
        waiting = came if came < self._blocks else came - (_TOP_BIT - self._blocks)  # the first block is among them
        with self._lock:
            ended = self._blocks - self._live
        if not ended or waiting + ended < self._blocks:
            return False
        self.ended = ended
        return True
