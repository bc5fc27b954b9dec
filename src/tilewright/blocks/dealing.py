"""Who gets which tile next: what a cluster does and its simulation tells in advance."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator

#: Tiles that a worker has: one that it makes, and one whose first panels it reads.
AHEAD = 2
#: Tiles for each worker, at least: so the last to end is waited for a quarter of the time, and one lost is soon made.
TILES_EACH = 4


class Deal:
    """Tiles in parts of the plan's order: a worker goes through one, and so finds panels of the tile before.

    Each has a few tiles at a time and gets one for one. Who has none left of a part takes another, or the later half of
    the longest that others have.

    Parameters
    ----------
    tiles : iterable of int
        In the plan's order.
    parts : int
        How many, of about one size: as many as there are workers.

    Examples
    --------
    >>> deal = Deal(range(8), parts=2)
    >>> list(deal.to("anna")), list(deal.to("bert"))
    ([0, 1], [4, 5])
    >>> deal.ended(5)
    >>> list(deal.to("anna")), list(deal.to("bert")), deal.goes_on
    ([], [6], True)
    """

    def __init__(self, tiles: Iterable[int], parts: int = 1) -> None:
        order = list(tiles)
        self.waiting = len(order)  #: Tiles that nobody has been given.
        ends = [len(order) * i // parts for i in range(parts + 1)]
        self._whole = deque(deque(order[i:j]) for i, j in itertools.pairwise(ends) if i < j)  # nobody's yet
        self._part: dict[Hashable, deque[int]] = {}  # of each worker
        self._longest: list[tuple[int, int, deque[int]]] = []  # how long each part was when it was last looked at
        self._numbers = itertools.count()
        self._of: dict[int, Hashable] = {}  # a tile that was dealt -> for whom it was meant
        self._load: Counter[Hashable] = Counter()

    @property
    def goes_on(self) -> bool:
        """Whether tiles are waiting or being made."""
        return bool(self.waiting or self._of)

    def to(self, worker: Hashable) -> Iterator[int]:
        """Tiles that a worker gets now. The scheduler gives a dead worker's to others; they still count as its own."""
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
        """A part that is nobody's, or the later half of the longest."""
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
        """A tile is made, by whomever."""
        self._load[self._of.pop(tile)] -= 1
