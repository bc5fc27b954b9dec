"""The levels that serve the sectors of a launch, by the cache model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tilewright.observe.instruments.coalescing import CoalescingResult, CoalescingRow
from tilewright.observe.profiling import cache
from tilewright.observe.profiling.counts import Served
from tilewright.observe.profiling.record import Extent
from tilewright.simulate.events import Site
from tilewright.simulate.machine import WARP_LANES, Gpu
from tilewright.simulate.observer import Part

#: Modifiers of loads that go past the first level. Source: PTX ISA, "Cache Operators" and "Memory Consistency Model".
_PAST_L1 = ("cg", "cv", "volatile", "relaxed", "acquire", "mmio")
#: A request's header: the warp above these bits, the number of words that follow in the lowest ones.
_WARP_SHIFT, _LENGTH = 24, 0xFF
_KINDS = {"store": cache.STORE, "atomic": cache.ATOMIC}


def kind(site: Site) -> int:
    """The cache model's kind of an access.

    >>> from tilewright.simulate.events import EventKind
    >>> kind(Site(EventKind.ACCESS, 1, "", "ld.global.cg.f32", access="load")) == cache.LOAD_L2
    True
    """
    if site.access in _KINDS:
        return _KINDS[site.access]
    return cache.LOAD_L2 if any(part in _PAST_L1 for part in site.opcode.split(".")) else cache.LOAD


def served(
    found: CoalescingResult,
    gpu: Gpu,
    grid: Extent,
    block: Extent,
    *,
    shared_bytes: int,
    resident_blocks: int,
    part: Part | None = None,
    cluster: Extent | None = None,
) -> tuple[tuple[Served, ...], int]:
    """The levels that serve the sectors of each row, and the number of sectors written to the second level.

    `found`: with the kept requests. `shared_bytes`: of a block, static and dynamic. `resident_blocks`: blocks that a
    multiprocessor holds at once. `part`: the clusters that ran, if not all; one multiprocessor runs their blocks in
    turn. `cluster`: blocks of a cluster along each axis.
    """
    assert found.requests is not None
    warps = -(-math.prod(block) // WARP_LANES)
    buffers = found.requests.buffers
    caches = cache.Caches.of(gpu, shared_bytes=shared_bytes, resident_blocks=resident_blocks)
    blocks = math.prod(grid)
    if part is not None:
        ran = blocks_of(part, grid, cluster)
        buffers, blocks = tuple(numbered(buffer, ran, warps) for buffer in buffers), len(ran)
        caches = replace(caches, multiprocessors=1)
    traffic = cache.simulate(
        buffers,
        [kind(row.site) for row in found.rows],
        caches,
        blocks=blocks,
        warps_per_block=warps,
        resident_blocks=resident_blocks,
    )
    return _rows(found.rows, traffic), traffic.written_sectors + traffic.dirty_sectors


def blocks_of(part: Part, grid: Extent, cluster: Extent | None = None) -> npt.NDArray[np.int64]:
    """The indices of a part's blocks in the grid, x first, in ascending order.

    >>> blocks_of(Part(4, 2, step=2), (10, 1, 1)).tolist()
    [4, 6]
    >>> blocks_of(Part(1), (4, 2, 1), (2, 2, 1)).tolist()
    [2, 3, 6, 7]
    """
    sizes = cluster or (1, 1, 1)
    clusters = part.first + part.step * np.arange(part.count)
    corners = np.unravel_index(clusters, [extent // size for extent, size in zip(grid, sizes, strict=True)][::-1])
    inside = np.indices(sizes[::-1]).reshape(3, -1)
    places = [c[:, None] * size + i for c, size, i in zip(corners, sizes[::-1], inside, strict=True)]
    return np.sort(np.ravel_multi_index(tuple(places), grid[::-1]), axis=None)


def numbered(buffer: cache.Words, ran: npt.NDArray[np.int64], warps: int, first: int = 0) -> cache.Words:
    """The requests of the blocks that ran, with `warps` warps each and the blocks renumbered from `first`.

    >>> asked = np.array([9 << 24 | 1, 2 << 4 | 15, 13 << 24 | 2, 9 << 24, 2], np.uint64)
    >>> [int(word >> 24) for word in numbered(asked, np.array([4, 6]), warps=2)[[0, 2]]]
    [1, 3]
    """
    found, heads = buffer.copy(), _heads(buffer)
    block, warp = np.divmod(found[heads] >> np.uint64(_WARP_SHIFT), np.uint64(warps))
    block = np.uint64(first) + np.searchsorted(ran, block.astype(np.int64)).astype(np.uint64)
    rest = found[heads] & np.uint64((1 << _WARP_SHIFT) - 1)
    found[heads] = block * np.uint64(warps) + warp << np.uint64(_WARP_SHIFT) | rest
    return found


def _heads(buffer: cache.Words) -> npt.NDArray[np.intp]:
    """The places where requests begin: each header says how many words follow. Each step doubles the known headers."""
    end = len(buffer)
    jump = np.append(np.minimum(np.arange(end) + 1 + (buffer & np.uint64(_LENGTH)).astype(np.intp), end), end)
    heads = np.zeros(min(1, end), np.intp)
    while True:
        further = jump[heads]
        more = further[further < end]
        if not len(more):
            return heads
        heads, jump = np.concatenate((heads, more)), jump[jump]


def _rows(rows: Sequence[CoalescingRow], traffic: cache.Traffic) -> tuple[Served, ...]:
    """The outcomes of each row, by name."""
    names = [name for name in cache.OUTCOMES if name not in ("requests", "sectors")]
    return tuple(Served(**{name: traffic.of(index, name) for name in names}) for index, _ in enumerate(rows))
