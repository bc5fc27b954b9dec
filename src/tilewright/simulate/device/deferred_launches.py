"""Launches that a benchmark has timed with only some of their blocks.

The results of such a launch are seldom read. If they are, the whole launch runs first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Launch:
    kernel: str
    values: tuple[bytes, ...]
    writes: set[int]  #: Addresses of the allocations that it writes.
    reads: frozenset[int]
    run: Callable[[], object]


class LeftOut:
    """The partly run launches of one simulated GPU whose results are still in memory, in order.

    Their inputs stay in memory too. Methods that drop launches return the allocations that were freed in the meantime
    and are no longer needed.
    """

    def __init__(self) -> None:
        self.launches: list[_Launch] = []  #: Those that have not run completely, in order.
        self._needed: Counter[int] = Counter()
        self._freed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.launches)

    def add(
        self,
        kernel: str,
        values: Sequence[bytes],
        writes: Collection[int],
        uses: Iterable[int],
        run: Callable[[], object],
    ) -> None:
        """Keep a launch until its results are read; `writes` are the allocations that it writes, `uses` all of them."""
        if writes:
            one = _Launch(kernel, tuple(values), set(writes), frozenset(uses) - frozenset(writes), run)
            self.launches.append(one)
            self._needed.update(one.reads)

    def keeps(self, address: int) -> bool:
        """Whether a freed allocation must stay, because a launch may still read it."""
        if self._needed.get(address):
            self._freed.add(address)
        return address in self._freed

    def writes(self, addresses: Collection[int]) -> bool:
        """Whether a pending launch writes any of these allocations."""
        return any(not one.writes.isdisjoint(addresses) for one in self.launches)

    def reads(self, addresses: Collection[int]) -> bool:
        """Whether a pending launch reads any of these allocations."""
        return any(self._needed[address] for address in addresses)

    def repeated(self, kernel: str, values: Sequence[bytes]) -> list[int]:
        """Drop a launch that is made again, because it writes the same."""
        return self._drop([one for one in self.launches if one.kernel == kernel and one.values == tuple(values)])

    def freed(self, address: int) -> list[int]:
        """Drop launches whose results can no longer be read."""
        for one in self.launches:
            one.writes.discard(address)
        return self._drop([one for one in self.launches if not one.writes])

    def complete(self) -> list[int]:
        """Run all of them completely, in order."""
        launches = self.launches.copy()
        for one in launches:
            one.run()
        return self._drop(launches)

    def _drop(self, dropped: Sequence[_Launch]) -> list[int]:
        self.launches = [one for one in self.launches if not any(one is other for other in dropped)]
        self._needed.subtract(address for one in dropped for address in one.reads)
        found = [address for address in self._freed if not self._needed[address]]
        self._needed = +self._needed
        self._freed.difference_update(found)
        return found
