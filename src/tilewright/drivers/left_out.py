"""Launches that a benchmark has timed by some of their blocks.

What such a launch would write is seldom looked at. Where somebody does look, it runs whole before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Launch:
    kernel: str
    values: tuple[bytes, ...]
    writes: set[int]  #: Addresses of allocations.
    reads: frozenset[int]
    run: Callable[[], object]


class LeftOut:
    """The launches of one simulated GPU of which a part ran, and whose results are still in memory, in order.

    What they read stays in memory with them. Methods that drop launches give the allocations that were freed meanwhile
    and that nothing needs any more.
    """

    def __init__(self) -> None:
        self._launches: list[_Launch] = []
        self._needed: Counter[int] = Counter()
        self._freed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._launches)

    def add(
        self,
        kernel: str,
        values: Sequence[bytes],
        writes: Collection[int],
        uses: Iterable[int],
        run: Callable[[], object],
    ) -> None:
        """Keep a launch that writes these allocations until they are asked for; `uses` are all that it was passed."""
        if writes:
            one = _Launch(kernel, tuple(values), set(writes), frozenset(uses) - frozenset(writes), run)
            self._launches.append(one)
            self._needed.update(one.reads)

    def keeps(self, address: int) -> bool:
        """Whether an allocation that is to be freed must stay, since a launch may still read it."""
        if self._needed[address]:
            self._freed.add(address)
        return address in self._freed

    def writes(self, addresses: Collection[int]) -> bool:
        """Whether any of these allocations is one that a launch would have written."""
        return any(not one.writes.isdisjoint(addresses) for one in self._launches)

    def reads(self, addresses: Collection[int]) -> bool:
        """Whether a launch would still read any of these allocations."""
        return any(self._needed[address] for address in addresses)

    def repeated(self, kernel: str, values: Sequence[bytes]) -> list[int]:
        """Drop a launch that is made again, for it would write the same."""
        return self._drop([one for one in self._launches if one.kernel == kernel and one.values == tuple(values)])

    def freed(self, address: int) -> list[int]:
        """Drop launches whose results nobody can see any more."""
        for one in self._launches:
            one.writes.discard(address)
        return self._drop([one for one in self._launches if not one.writes])

    def complete(self) -> list[int]:
        """Run all of them whole, in order."""
        launches = self._launches.copy()
        for one in launches:
            one.run()
        return self._drop(launches)

    def _drop(self, dropped: Sequence[_Launch]) -> list[int]:
        self._launches = [one for one in self._launches if not any(one is other for other in dropped)]
        self._needed.subtract(address for one in dropped for address in one.reads)
        found = [address for address in self._freed if not self._needed[address]]
        self._needed = +self._needed
        self._freed.difference_update(found)
        return found
