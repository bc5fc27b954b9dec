"""Processor sharing by virtual time: the start and end of a transfer cost O(log n) with n in progress."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable


class SharedBandwidth:
    """Storage whose rate is divided evenly among the transfers in progress, up to the rate of a link each.

    All transfers have the same rate. So on a clock that counts the bytes that each has moved (virtual time), the order
    of their ends does not change when others arrive. Source: Kleinrock, Time-shared Systems: A Theoretical Treatment
    (1967), processor sharing; Demers, Keshav, Shenker, Analysis and Simulation of a Fair Queueing Algorithm (1989),
    virtual time.

    Examples
    --------
    >>> disk, ended = SharedBandwidth(100.0, 80.0), []
    >>> _ = disk.begin(0.0, 100.0, lambda: ended.append("long")), disk.begin(0.0, 50.0, lambda: ended.append("short"))
    >>> disk.next_s, disk.pop()()
    (1.0, None)
    >>> disk.next_s, disk.pop()(), ended
    (1.625, None, ['short', 'long'])
    """

    def __init__(self, bytes_per_s: float, link_bytes_per_s: float) -> None:
        self._rate, self._link = bytes_per_s, link_bytes_per_s
        self._now_s, self._moved = 0.0, 0.0  # real time, and virtual time: bytes moved by a transfer since the start
        self._count = 0  # of transfers so far
        self._ends: list[tuple[float, int]] = []  # a heap: virtual time of the end, and number of the transfer
        self._going: dict[int, Callable[[], None]] = {}  # a transfer -> the function called at its end

    @property
    def next_s(self) -> float:
        """Time of the next end of a transfer, if none starts before; infinite without transfers."""
        while self._ends and self._ends[0][1] not in self._going:
            heapq.heappop(self._ends)
        return self._now_s + (self._ends[0][0] - self._moved) / self._each if self._ends else math.inf

    @property
    def _each(self) -> float:
        return min(self._link, self._rate / len(self._going))

    def begin(self, now_s: float, count: float, then: Callable[[], None]) -> int:
        """Start a transfer of `count` bytes; return its number."""
        self._advance(now_s)
        self._count += 1
        self._going[self._count] = then
        heapq.heappush(self._ends, (self._moved + count, self._count))
        return self._count

    def drop(self, now_s: float, number: int) -> None:
        """Cancel a transfer in progress, without calling its function."""
        self._advance(now_s)
        del self._going[number]

    def pop(self) -> Callable[[], None]:
        """End the next transfer, at its time; return its function."""
        self._now_s = self.next_s
        self._moved, number = heapq.heappop(self._ends)
        return self._going.pop(number)

    def _advance(self, now_s: float) -> None:
        if self._going:
            self._moved += (now_s - self._now_s) * self._each
        self._now_s = now_s
