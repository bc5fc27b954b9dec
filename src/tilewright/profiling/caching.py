"""Where the sectors that a launch asked for were found, by the cache model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.instruments.coalescing import CoalescingResult, CoalescingRow
from tilewright.machine import WARP_LANES, Gpu
from tilewright.profiling import cache
from tilewright.profiling.counts import Served
from tilewright.profiling.record import Extent
from tilewright.simt.events import Site

#: Forms of loads that pass the first level by. Source: PTX ISA, "Cache Operators" and "Memory Consistency Model".
_PAST_L1 = ("cg", "cv", "volatile", "relaxed", "acquire", "mmio")
_KINDS = {"store": cache.STORE, "atomic": cache.ATOMIC}


def kind(site: Site) -> int:
    """The cache model's kind of an access.

    Examples
    --------
    >>> from tilewright.simt.events import EventKind
    >>> kind(Site(EventKind.ACCESS, 1, "", "ld.global.cg.f32", access="load")) == cache.LOAD_L2
    True
    """
    if site.access in _KINDS:
        return _KINDS[site.access]
    return cache.LOAD_L2 if any(part in _PAST_L1 for part in site.opcode.split(".")) else cache.LOAD


def served(
    found: CoalescingResult, gpu: Gpu, grid: Extent, block: Extent, *, shared_bytes: int, resident_blocks: int
) -> tuple[tuple[Served, ...], int]:
    """Where each row's sectors were found, and the sectors that were written to the second level.

    Parameters
    ----------
    found : CoalescingResult
        With its requests.
    gpu : Gpu
    grid, block : (int, int, int)
    shared_bytes : int
        Of a block, in all.
    resident_blocks : int
        Blocks that a multiprocessor holds.
    """
    assert found.requests is not None
    traffic = cache.simulate(
        found.requests.buffers,
        [kind(row.site) for row in found.rows],
        cache.Caches.of(gpu, shared_bytes=shared_bytes, resident_blocks=resident_blocks),
        blocks=math.prod(grid),
        warps_per_block=-(-math.prod(block) // WARP_LANES),
        resident_blocks=resident_blocks,
    )
    return _rows(found.rows, traffic), traffic.written_sectors + traffic.dirty_sectors


def _rows(rows: Sequence[CoalescingRow], traffic: cache.Traffic) -> tuple[Served, ...]:
    """Each row's outcomes by name."""
    names = [name for name in cache.OUTCOMES if name not in ("requests", "sectors")]
    return tuple(Served(**{name: traffic.of(index, name) for name in names}) for index, _ in enumerate(rows))
