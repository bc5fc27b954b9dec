"""A second cache model in plain Python, written from its specification: slow lists in the order of use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Request = tuple[int, list[int]]  # site, sectors


class Lines:
    """One cache: for each set its lines, the one used last at the end, with their valid and dirty sectors."""

    def __init__(self, sets: int, ways: int) -> None:
        self.ways = ways
        self.sets: list[list[tuple[int, set[int], set[int]]]] = [[] for _ in range(sets)]
        self.written = 0

    def use(self, sector: int, *, write: bool = False) -> bool:
        number = sector // 4
        lines = self.sets[number % len(self.sets)]
        at = next((i for i, line in enumerate(lines) if line[0] == number), None)
        if at is None:
            if len(lines) == self.ways:
                self.written += len(lines.pop(0)[2])
            line: tuple[int, set[int], set[int]] = (number, set(), set())
        else:
            line = lines.pop(at)
        hit = sector in line[1]
        line[1].add(sector)
        if write:
            line[2].add(sector)
        lines.append(line)
        return hit

    def forget(self, sector: int) -> None:
        for line in self.sets[sector // 4 % len(self.sets)]:
            line[1].discard(sector)

    def dirty(self) -> int:
        return sum(len(line[2]) for lines in self.sets for line in lines)


class Plain:
    """A launch: `warps[block][warp]` is a list of requests."""

    def __init__(self, multiprocessors: int, l1: tuple[int, int], l2: tuple[int, int]) -> None:
        self.first = [Lines(*l1) for _ in range(multiprocessors)]
        self.second, self.shadow = Lines(*l2), Lines(1, l2[0] * l2[1])
        self.touched: set[int] = set()
        self.counts: Counter[tuple[int, str]] = Counter()

    def run(self, warps: Sequence[Sequence[list[Request]]], kinds: Sequence[str], resident: int) -> None:
        waiting = [[list(warp) for warp in block] for block in warps if any(block)]
        places: list[list[list[list[Request]]]] = [[] for _ in self.first]
        for _ in range(resident):
            for place in places:
                if waiting:
                    place.append(waiting.pop(0))
        while any(any(block) for place in places for block in place):
            for number, place in enumerate(places):
                turn = [(at, warp) for at, block in enumerate(place) for warp in block if warp]
                for at, warp in turn:
                    self.request(number, kinds, *warp.pop(0))
                    if not any(place[at]) and waiting:
                        place[at] = waiting.pop(0)

    def request(self, multiprocessor: int, kinds: Sequence[str], site: int, sectors: list[int]) -> None:
        self.counts[site, "requests"] += 1
        for sector in sectors:
            self.counts[site, "sectors"] += 1
            self.counts[site, self.outcome(self.first[multiprocessor], kinds[site], sector)] += 1

    def outcome(self, first: Lines, kind: str, sector: int) -> str:
        if kind == "LOAD" and first.use(sector):
            return "l1_hits"
        if kind == "ATOMIC":
            first.forget(sector)
        new = sector not in self.touched
        self.touched.add(sector)
        hit = self.second.use(sector, write=kind in ("STORE", "ATOMIC"))
        would_hit = self.shadow.use(sector)
        if hit:
            return "l2_hits"
        if kind == "STORE":
            return "l2_allocated"
        return "dram_compulsory" if new else "dram_conflict" if would_hit else "dram_capacity"
