"""Who gets which tile next: what a cluster does and its simulation tells in advance."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator

#: Tiles that a worker has: one that it makes, and one that it begins when that is done.
AHEAD = 2
#: Tiles for each worker, at least: so the last to end is waited for a quarter of the time, and one lost is soon made.
TILES_EACH = 4


class Deal:
    """Tiles in the order of the plan; each worker has a few, neighbours where it has none, and gets one for one.

    Examples
    --------
    >>> deal = Deal(range(6))
    >>> list(deal.to("anna")), list(deal.to("bert"))
    ([0, 1], [2, 3])
    >>> deal.ended(2)
    >>> list(deal.to("anna")), list(deal.to("bert")), deal.goes_on
    ([], [4], True)
    """

    def __init__(self, tiles: Iterable[int]) -> None:
        self.waiting = deque(tiles)
        self._of: dict[int, Hashable] = {}  # a tile that was dealt -> for whom it was meant
        self._load: Counter[Hashable] = Counter()

    @property
    def goes_on(self) -> bool:
        """Whether tiles are waiting or being made."""
        return bool(self.waiting or self._of)

    def to(self, worker: Hashable) -> Iterator[int]:
        """Tiles that a worker gets now. Those of one that dies go to whom the scheduler likes, and stay its load."""
        while self.waiting and self._load[worker] < AHEAD:
            tile = self.waiting.popleft()
            self._of[tile] = worker
            self._load[worker] += 1
            yield tile

    def ended(self, tile: int) -> None:
        """A tile is made, by whomever."""
        self._load[self._of.pop(tile)] -= 1
