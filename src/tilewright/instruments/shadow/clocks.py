"""Clocks of warps and lanes, kept by what happens at barriers: `clocks.c`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tilewright.instruments.shadow.cells import BLOCK, BLOCK_BYTES, CLOCK_SHIFT
from tilewright.native.bitcode import bitcode
from tilewright.simt.events import EventKind, Handler

_ORDERING = (EventKind.ARRIVE, EventKind.RELEASE, EventKind.SYNC, EventKind.EXIT, EventKind.FENCE)
_PART = bitcode(Path(__file__).with_name("clocks.c"))


def handler(kind: EventKind) -> Handler | None:
    """The handler of an event that orders accesses; None for one that does not."""
    return Handler(f"tw_shadow_{kind.value}", needs=(_PART,)) if kind in _ORDERING else None


def initial(lanes_at: int) -> bytes:
    """The clocks of a block that begins, up to where its cells do: every clock 1, and nothing of it known.

    `lanes_at` is the byte offset of the clocks of its lanes, 0 where there are none.
    """
    area = np.zeros(BLOCK_BYTES, np.uint8)
    clocks = area[BLOCK["clocks"] : BLOCK["known"]].view(np.uint64)
    clocks[0::2], clocks[1::2] = 1, 1 << CLOCK_SHIFT
    area[BLOCK["known"] : BLOCK["inbox"]].view(np.uint32)[:] = 1
    area[BLOCK["whole"] : BLOCK["rounds"]].view(np.uint64)[:] = 1
    area.view(np.uint64)[BLOCK["lanes_at"] // 8] = lanes_at
    return area.tobytes()
