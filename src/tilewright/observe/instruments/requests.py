"""The sectors that warps request, in the form that the cache model reads.

Each host thread writes into a chunk of the launch's memory and takes another when that is full. One host thread runs a
warp, so the requests of a warp are in order. If no chunk is left, later requests are dropped and `complete` is False.
:mod:`tilewright.observe.profiling.cache` defines the form of a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.header import header
from tilewright.observe.instruments.areas import areas
from tilewright.simulate.events import Facts

_FORM = header(Path(__file__).with_name("requests.h")).numbers
LINE_BYTES, LINE_SECTORS, SECTOR_BYTES = (
    _FORM[f"TW_{name}"] for name in ("LINE_BYTES", "LINE_SECTORS", "SECTOR_BYTES")
)
_RECORDING = header(Path(__file__).with_name("recording.h"))
_HEAD = _RECORDING.structs["tw_requests"].dtype
_CHUNK_WORDS = _RECORDING.numbers["TW_CHUNK_WORDS"]
#: Most memory for one launch's requests; the host allocates it as it is written.
MOST_BYTES = 1 << 30
#: Sector numbers of local memory start here, above those of global memory.
LOCAL_SECTORS = 1 << 40

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a launch."""

    #: The argument of :func:`tilewright.observe.profiling.cache.simulate`; sites are rows of the instrument's result.
    buffers: tuple[Words, ...]
    complete: bool  #: False if they did not all fit.


def area(facts: Facts, most_bytes: int = MOST_BYTES) -> Words:
    """Memory for a launch's requests."""
    chunks = max(1, most_bytes // (8 * _CHUNK_WORDS))
    threads = facts.block[0] * facts.block[1] * facts.block[2]
    while True:
        try:
            memory = areas().take(_HEAD.itemsize + 8 * (chunks + 1) * _CHUNK_WORDS, clear=False).view(np.uint64)
            break
        except OSError:  # a host that limits address space to its memory
            if chunks == 1:
                raise
            chunks //= 2
    head = _head(memory)
    head[:] = np.zeros(1, _HEAD)
    head["chunks"], head["warps"] = chunks, -(-threads // 32)
    head["local"] = LINE_SECTORS * -(-facts.layout.local_bytes // 4)  # one word of all lanes is a line
    return memory


def _head(memory: Words) -> npt.NDArray[np.void]:
    """The record at the start of a launch's memory."""
    return memory[: _HEAD.itemsize // 8].view(_HEAD)


def requests(memory: Words, rows: int) -> Requests:
    """The requests that were recorded during a launch; the instrument has `rows` rows."""
    head = _head(memory)[0]
    chunks = memory[_HEAD.itemsize // 8 + _CHUNK_WORDS :].reshape(-1, _CHUNK_WORDS)
    taken = chunks[: min(int(head["taken"]), int(head["chunks"]))]
    buffers = tuple(chunk[1 : int(chunk[0])] for chunk in taken)
    return Requests(buffers, not head["lost"] and rows <= _FORM["TW_REQUEST_SITES"])
