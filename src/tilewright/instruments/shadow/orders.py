"""Which blocks and warps fences and atomics have ordered: asked only where a race would otherwise be reported.

A fence, and then a strong write (atomic, volatile, relaxed or stronger), releases what a warp did and knows of before
the fence. A strong read of that place takes it over. A barrier hands on what its block knows. A kernel without fences
orders nothing this way.

Source: PTX ISA, 8.8 (release and acquire patterns), 8.9 (causality order). Taken wider than written: a strong read
acquires without a fence after it, places are joined over all their writes, and what a thread fenced before a barrier
is released by any thread behind it, as programs do that fence, synchronise and let one thread raise a flag.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict

from tilewright.instruments.shadow.cells import READS as _READS
from tilewright.instruments.shadow.cells import SEVERAL_WARPS, STRONG, THREAD_MAX, WARPS_MAX, WHO_MASK
from tilewright.instruments.shadow.cells import WRITES as _WRITES

ASK, ACCESS, FENCE, ARRIVE, RELEASE = range(5)
#: Further bits of an access's `how`: it releases by itself, and its address is one of shared memory.
RELEASES, SHARED = 16, 256

_Clocks = dict[int, list[int]]
_ALL = -1
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_int64,) * 6)


class Orders:
    """What each warp of a launch knows of other warps through memory."""

    def __init__(self) -> None:
        self._knows: dict[tuple[int, int], _Clocks] = defaultdict(dict)
        self._releases: dict[tuple[int, int], _Clocks] = {}
        self._places: dict[tuple[int, int], _Clocks] = defaultdict(dict)
        self._blocks: dict[int, _Clocks] = defaultdict(dict)
        self._released: dict[int, _Clocks] = defaultdict(
            dict
        )  # by fences before a barrier, with the block's next write
        self._seen: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        self._lock = threading.Lock()
        self._function = FUNCTION(self._call)

    @property
    def address(self) -> int:
        """Host address of the function that handlers call: (what, block, warp, a, b, c)."""
        return ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _call(self, what: int, number: int, warp: int, a: int, b: int, c: int) -> int:
        with self._lock:
            if what != RELEASE:
                self._take_over((number, warp))
            if what == ASK:
                return int(self._ordered((number, warp), a, b & WHO_MASK, c))
            if what == ACCESS:
                self._access((number, warp), a, b, c)
            elif what == FENCE:
                self._releases[number, warp] = self._all_of((number, warp), c)
            elif what == ARRIVE:
                _join(self._blocks[number], self._all_of((number, warp), c))
                _join(self._released[number], self._releases.get((number, warp), {}))
            else:
                _join(self._knows[number, warp], self._blocks[number])
                if self._released[number]:
                    _join(self._releases.setdefault((number, warp), {}), self._released[number])
        return 0

    def _ordered(self, here: tuple[int, int], block: int, who: int, clock: int) -> bool:
        known = self._knows[here]
        if block == _ALL:  # reads by blocks that are not kept
            return any(other != here[0] for other in known)
        clocks = known.get(block)
        if clocks is None:
            return False
        if who == SEVERAL_WARPS:
            return clock < max(clocks)
        return clock < clocks[who % WARPS_MAX if who >= THREAD_MAX else who >> 5]

    def _access(self, here: tuple[int, int], address: int, how: int, clock: int) -> None:
        place = (address, here[0] if how & SHARED else _ALL)
        if how & _READS:
            self._seen[here].add(place)
        if how & RELEASES:
            self._releases[here] = self._all_of(here, clock)
        if how & _WRITES and how & STRONG and here in self._releases:
            _join(self._places[place], self._releases[here])

    def _take_over(self, here: tuple[int, int]) -> None:
        """Acquire from the places that were read before now: an access is told of before it sees what is there."""
        for place in self._seen.pop(here, ()):
            _join(self._knows[here], self._places.get(place, {}))

    def _all_of(self, here: tuple[int, int], clock: int) -> _Clocks:
        """What a warp knows, and what it did itself up to a clock."""
        block, warp = here
        found = {other: list(clocks) for other, clocks in self._knows[here].items()}
        own = found.setdefault(block, [0] * WARPS_MAX)
        own[warp] = max(own[warp], clock + 1)
        return found


def _join(into: _Clocks, other: _Clocks) -> None:
    for block, clocks in other.items():
        mine = into.get(block)
        into[block] = list(clocks) if mine is None else [max(pair) for pair in zip(mine, clocks, strict=True)]
