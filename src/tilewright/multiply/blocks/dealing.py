"""Assigns tiles to workers."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator

#: Tiles that a worker holds: one that it makes, and one whose first panels it reads.
AHEAD = 2
#: Least tiles for each worker: the wait for the last worker is then at most a quarter of the time, and a lost tile is
#: soon made again.
TILES_EACH = 4


class Deal:
    """Tiles in parts of the plan's order: a worker goes through one part, so panels of the last tile can be reused.

    A worker holds a few tiles at a time, and gets a new one for each that it ends. When its part is empty it takes a
    free part, or the later half of the longest part of another worker.

    `tiles`: in the plan's order. `parts`: number of parts of about equal size: one for each worker.

    >>> deal = Deal(range(8), parts=2)
    >>> list(deal.to("anna")), list(deal.to("bert"))
    ([0, 1], [4, 5])
    >>> deal.ended(5)
    >>> list(deal.to("anna")), list(deal.to("bert")), deal.goes_on
    ([], [6], True)
    """

    def __init__(self, tiles: Iterable[int], parts: int = 1) -> None:
        order = list(tiles)
        self.waiting = len(order)  #: Tiles that no worker has yet.
        ends = [len(order) * i // parts for i in range(parts + 1)]
        self._whole = deque(deque(order[i:j]) for i, j in itertools.pairwise(ends) if i < j)  # parts of no worker yet
        self._part: dict[Hashable, deque[int]] = {}  # the part of each worker
        self._longest: list[tuple[int, int, deque[int]]] = []  # the last known length of each part
        self._numbers = itertools.count()
        self._of: dict[int, Hashable] = {}  # an assigned tile -> its worker
        self._load: Counter[Hashable] = Counter()

    @property
    def goes_on(self) -> bool:
        """Whether tiles are waiting or in progress."""
        return bool(self.waiting or self._of)

    def to(self, worker: Hashable) -> Iterator[int]:
        """The tiles that a worker gets now. Tiles of a dead worker go to others, but still count as its own."""
        while self.waiting and self._load[worker] < AHEAD:
            part = self._part.get(worker)
            if not part:
                part = self._part[worker] = self._taken()
            tile = part.popleft()
            self.waiting -= 1
            self._of[tile] = worker
            self._load[worker] += 1
            yield tile

    def _taken(self) -> deque[int]:
        """A free part, or the later half of the longest."""
        part = self._whole.popleft() if self._whole else self._half()
        heapq.heappush(self._longest, (-len(part), next(self._numbers), part))
        return part

    def _half(self) -> deque[int]:
        while True:
            length, number, part = self._longest[0]
            if -length == len(part):
                break
            heapq.heapreplace(self._longest, (-len(part), number, part))
        half = [part.pop() for _ in range(-(-len(part) // 2))]
        return deque(reversed(half))

    def ended(self, tile: int) -> None:
        """Note that a tile is made, by any worker."""
        self._load[self._of.pop(tile)] -= 1
