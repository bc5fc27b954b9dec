"""Estimates the work of a large launch from some of its blocks.

Blocks at one kind of place (a corner of the grid, an edge, the inside) do similar work. A few of each kind run, chosen
with a fixed seed, and represent the others. For the kind with most blocks, as many blocks as a multiprocessor holds run
together and share its first level: once those that it gets when all multiprocessors are first filled, once those that
follow there. Traffic from memory follows from the sectors that neighbours share
(:mod:`tilewright.observe.prediction.footprint`).

All blocks must run if blocks wait for others, print, or change global memory atomically; and if blocks of one kind
differ, because their work depends on data.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.observe.instruments.coalescing import CoalescingResult
from tilewright.observe.prediction import workload
from tilewright.observe.prediction.footprint import Footprint
from tilewright.observe.prediction.workload import Requests, Workload
from tilewright.observe.profiling import cache, caching, instruments, of_run
from tilewright.observe.profiling.counts import SECTOR_BYTES
from tilewright.observe.profiling.record import Extent, Profile
from tilewright.observe.profiling.units import written_back
from tilewright.simulate.machine import WARP_LANES, Gpu
from tilewright.simulate.observer import BlocksAlone, Part

#: Largest relative difference between the counts of two similar blocks.
_ALIKE = 0.05
#: Most attempts to find blocks of one multiprocessor that are all of one kind.
_TRIED = 64

#: Ranges of block indices along each axis.
_Place = tuple[range, range, range]


@dataclass(frozen=True, slots=True)
class Care:
    """How many blocks represent a launch."""

    least_blocks: int = 512  #: Grids with fewer blocks run whole,
    most_part: float = 1 / 8  #: and so do those of which more than this fraction would run.
    each: int = 2  #: Blocks of each kind of place that run,
    compared: int = 6  #: and of the most frequent kind, to compare their counts.
    following: int = 8  #: Blocks that run one after the other on a multiprocessor that holds one at a time.


#: For a prediction that the user requested.
CAREFUL = Care()


@dataclass(frozen=True, slots=True)
class Sampled:
    """A launch, estimated from some of its blocks."""

    seen: Profile  #: Of the blocks that represent most others.
    work: Workload  #: Of the whole launch.
    blocks: int  #: Number of blocks that ran.

    @property
    def note(self) -> str:
        """A sentence on how many blocks were counted, and for which others they stand."""
        return (
            f"counted in {self.blocks:,} of {self.work.blocks:,} blocks, which represent the others at their kind of "
            "place: corners, edges, inside; `all_blocks` counts all"
        )


def sampled(alone: BlocksAlone, gpu: Gpu, care: Care = CAREFUL) -> Sampled | None:
    """The work of a launch from some of its blocks; None if all of them must run.

    Raises KernelError: a block failed.
    """
    grid = alone.launch.grid
    if math.prod(grid) < care.least_blocks or not alone.allowed(instruments()):
        return None
    return _sampled(_Ran(alone, gpu), sorted(_places(grid), key=_size, reverse=True), random.Random(0), care)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks that ran together."""

    counts: Profile | None  #: None if they ran only to find the sectors that they share.
    kinds: tuple[int, ...]  #: For the cache model, the kind of each access.
    requests: tuple[cache.Words, ...]  #: Copies, because a launch's memory for them is large; blocks count from 0.
    known: bool  #: Whether the requests are complete, and no block changed global memory atomically.

    @property
    def profile(self) -> Profile:
        """Their counts."""
        assert self.counts is not None, "blocks are counted before their neighbours are looked at"
        return self.counts


class _Ran:
    """Blocks that ran, by index."""

    def __init__(self, alone: BlocksAlone, gpu: Gpu) -> None:
        self.grid, self.gpu = alone.launch.grid, gpu
        self.block_warps = -(-math.prod(alone.launch.block) // WARP_LANES)
        self.blocks = 0
        self._alone = alone
        self._known: dict[Part, _Blocks] = {}

    @property
    def arrays_bytes(self) -> int:
        """The size of all arrays of the launch; 0 if unknown."""
        arrays = [one for one in self._alone.launch.arguments if one.address]
        known = {one.address: math.prod(one.shape) * one.dtype.itemsize for one in arrays if one.dtype is not None}
        return sum(known.values()) if len(known) == len({one.address for one in arrays}) else 0

    def part(self, part: Part, *, counted: bool = True) -> _Blocks:
        """The blocks of a part, run together; earlier results are reused."""
        if part not in self._known:
            launch, run = self._alone.launch, self._alone.run(part, instruments())
            which: dict[str, Any] = {"launch": launch.index, "launched_at": launch.source_line}
            counts = of_run(run, self.gpu, shared_bytes=launch.shared_bytes, **which) if counted else None
            asked: CoalescingResult = run.results["coalescing"]
            assert asked.requests is not None
            atomics, blocks = asked.total("atomic", "requests"), caching.blocks_of(part, run.grid)
            self._known[part] = _Blocks(
                counts,
                tuple(caching.kind(row.site) for row in asked.rows),
                tuple(caching.numbered(buffer, blocks, self.block_warps) for buffer in asked.requests.buffers),
                asked.requests.complete and not atomics,
            )
            self.blocks += part.count
        return self._known[part]

    def one(self, place: Sequence[int], *, counted: bool = True) -> _Blocks:
        """The block at an index of the grid."""
        return self.part(Part(_number(place, self.grid)), counted=counted)


def _sampled(ran: _Ran, places: Sequence[_Place], choice: random.Random, care: Care) -> Sampled | None:
    """The work, by kinds of places; the first kind has most blocks."""
    seen = ran.one(_some(places[0], 1, choice)[0]).profile
    resident = seen.occupancy.occupancy.active_blocks if seen.occupancy else 0
    several = (
        sum(min(_size(place), care.each) for place in places)
        + care.compared
        + max(2 * resident, care.following)
        + 2 ** len(ran.grid)
    )
    if not resident or several > care.most_part * math.prod(ran.grid):
        return None
    parts: list[tuple[Profile, float]] = []
    differing = 0.0
    for place in places:
        inside = place is places[0]
        ones = [ran.one(at) for at in _some(place, care.compared if inside else care.each, choice)]
        if not all(one.known for one in ones):
            return None
        differing += _size(place) / math.prod(ran.grid) * _difference([one.profile for one in ones])
        parts += [] if inside else [(one.profile, _size(place) / len(ones)) for one in ones]
    for step, count, share in _fillings(ran, resident, care.following):
        together = _together(places[0], ran.grid, count, step, choice)
        seen = ran.part(together).profile
        parts.append((seen, _size(places[0]) / together.count * share))
    if differing > _ALIKE:
        return None
    works = [(workload.of_profile(profile, resident), weight) for profile, weight in parts]
    work = _served(_merged(works), ran)
    return Sampled(seen, work, ran.blocks)


def _places(grid: Extent) -> Iterator[_Place]:
    """Kinds of places: the first, the inner or the last blocks along each axis."""
    along = [[range(1), range(1, extent - 1), range(max(1, extent - 1), extent)] for extent in grid]
    x, y, z = ([part for part in parts if part] for parts in along)
    yield from itertools.product(x, y, z)


def _size(place: _Place) -> int:
    return math.prod(map(len, place))


def _some(place: _Place, many: int, choice: random.Random) -> list[Extent]:
    """Some blocks of a kind, at most as many as it has."""
    x, y, z = place
    chosen = choice.sample(range(_size(place)), min(many, _size(place)))
    return [(x[i % len(x)], y[i // len(x) % len(y)], z[i // len(x) // len(y)]) for i in chosen]


def _number(place: Sequence[int], grid: Extent) -> int:
    x, y, z = place
    return x + grid[0] * (y + grid[1] * z)


def _fillings(ran: _Ran, resident: int, following: int) -> Iterator[tuple[int, int, float]]:
    """Groups of blocks that may share a multiprocessor's first level: step, number, and the fraction they represent.

    Multiprocessors first take blocks in turn; later, one whose blocks have ended takes the next in order, as in
    :mod:`tilewright.observe.profiling.cache`. If it holds one block at a time, its next one comes after those of all
    others.
    """
    blocks, multiprocessors = math.prod(ran.grid), ran.gpu.multiprocessors
    first = min(1.0, resident * multiprocessors / blocks)
    if resident == 1:
        yield multiprocessors, min(following, -(-blocks // multiprocessors)), 1.0
    else:
        yield multiprocessors, resident, first
    if resident > 1 > first:
        yield 1, resident, 1 - first


def _together(place: _Place, grid: Extent, most: int, step: int, choice: random.Random) -> Part:
    """Blocks of one kind at equal steps, as many of the wanted ones as there are."""

    def of_kind(number: int) -> bool:
        at = number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
        return all(one in axis for one, axis in zip(at, place, strict=True))

    best = Part(_number(_some(place, 1, choice)[0], grid))
    for _ in range(_TRIED):
        first = _number(_some(place, 1, choice)[0], grid)
        numbers = range(first % step if step > 1 else first, math.prod(grid), step)[:most]
        count = sum(1 for _ in itertools.takewhile(of_kind, numbers))
        if count > best.count:
            best = Part(numbers[0], count, step)
    return best


def _difference(profiles: Sequence[Profile]) -> float:
    """The largest relative difference between the counts of some blocks."""
    counts = [(one.totals.warp_instructions, one.traffic.l1_bytes, one.traffic.shared_bytes) for one in profiles]
    columns: list[tuple[int, ...]] = list(zip(*counts, strict=True))
    return max((max(column) - min(column)) / max(1, *column) for column in columns)


def _merged(parts: Sequence[tuple[Workload, float]]) -> Workload:
    """The work of a launch from parts, each with the number of blocks that one of its blocks represents."""
    sites: dict[int, list[tuple[Requests, float]]] = {}
    for work, weight in parts:
        for line, site in work.sites.items():
            sites.setdefault(line, []).append((site, weight))
    return replace(parts[0][0], sites=MappingProxyType({line: _mean(found) for line, found in sorted(sites.items())}))


def _mean(sites: Sequence[tuple[Requests, float]]) -> Requests:
    """An average of one instruction as warps execute it; each request has the weight of how often it was made."""
    requests = sum(weight * site.requests for site, weight in sites)

    def mean(name: str) -> float:
        if not requests:
            return float(getattr(sites[0][0], name))
        return sum(weight * site.requests * float(getattr(site, name)) for site, weight in sites) / requests

    return Requests(
        executed=sum(weight * site.executed for site, weight in sites),
        wavefronts=mean("wavefronts"),
        ideal_wavefronts=mean("ideal_wavefronts"),
        sectors=mean("sectors"),
        lines=mean("lines"),
        ideal_sectors=mean("ideal_sectors"),
        l2_sectors=mean("l2_sectors"),
        requests=requests,
        loads=any(site.loads for site, _ in sites),
        ptx=sites[0][0].ptx,
    )


def _served(work: Workload, ran: _Ran) -> Workload:
    """The work with its traffic from memory, from the sectors that neighbouring blocks share."""
    corner = [max(0, min((extent - 1) // 2, extent - 2)) for extent in ran.grid]
    if ran.grid[0] == math.prod(ran.grid):  # not for groups of tiles, whose ends are at unknown powers of two
        corner[0] = min(ran.grid[0] // 2 + 5, ran.grid[0] - 1)

    @functools.cache  # loads and stores make the same call
    def traffic(places: tuple[Extent, ...]) -> cache.Traffic:
        at = ([first + step for first, step in zip(corner, place, strict=True)] for place in places)
        return _traffic([ran.one(one, counted=False) for one in at], work, ran.gpu)

    loaded = Footprint.of_neighbours(ran.grid, lambda some: traffic(tuple(some)).dram_read_bytes)
    stored = Footprint.of_neighbours(ran.grid, lambda some: SECTOR_BYTES * _dirtied(traffic(tuple(some))))
    l2_bytes, filling = ran.gpu.l2_bytes, work.resident_blocks * ran.gpu.multiprocessors
    asked, wrote = (SECTOR_BYTES * work.l2_sectors(loads=loads) for loads in (True, False))
    loads, stores = loaded.union(ran.grid), stored.union(ran.grid)
    read = loaded.read(ran.grid, filling, l2_bytes, stored)
    if 0 < ran.arrays_bytes <= l2_bytes:  # memory delivers each byte once, to the block that asks first
        read = min(read, ran.arrays_bytes)
    fetched = min(1.0, read / asked) if asked else 0.0
    written = min(1.0, written_back(ran.gpu, loads + stores, stores) / wrote) if wrote else 0.0
    return work.served(fetched, written)


def _dirtied(traffic: cache.Traffic) -> int:
    return traffic.written_sectors + traffic.dirty_sectors


def _traffic(ran: Sequence[_Blocks], work: Workload, gpu: Gpu) -> cache.Traffic:
    """The traffic of blocks that ran one by one, in caches that evict nothing of so few blocks."""
    buffers = [
        caching.numbered(buffer, np.zeros(1, np.int64), work.block_warps, number)
        for number, one in enumerate(ran)
        for buffer in one.requests
    ]
    caches = cache.Caches(1, gpu.unified_bytes, gpu.l2_bytes)
    return cache.simulate(
        buffers, ran[0].kinds, caches, blocks=len(ran), warps_per_block=work.block_warps, resident_blocks=1
    )
