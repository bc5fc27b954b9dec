"""Block sizes of the packed kernel: the choices ranked by estimate, and those that a tuner timed.

Block sizes do not change the bits of a product: partial sums continue in the accumulator's dtype.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tilewright.ground.native import secure_files
from tilewright.ground.native.compiler import compiler
from tilewright.ground.native.store import digest
from tilewright.ground.settings import Settings
from tilewright.multiply.backends.cpu.contexts import Blocks, KernelKey, tile_of
from tilewright.multiply.backends.cpu.layout import Layout
from tilewright.multiply.backends.cpu.microarchitectures import of_host
from tilewright.multiply.backends.ranked import Ranked
from tilewright.multiply.problem.kind import Kind

if TYPE_CHECKING:
    from tilewright.multiply.backends.tuning_db import Key

#: Choices of steps along k, and of bytes of B's packed block.
_STEPS, _PACKED_BYTES = (256, 384, 512, 1024), (256 << 10, 512 << 10, 1 << 20, 2 << 20)
#: Per second, multiply-adds of one core, and bytes that it packs or moves through its L2; measured on Zen 4. Only their
#: ratio matters (`benchmarks/ranking.py --device cpu`).
_RATE, _BYTES = 5e10, 2e10
#: Multiply-adds from which blocks are chosen: smaller products are one block.
_LARGE = 1 << 21
#: Largest share of the time that a block costs by not fitting its cache.
_SPILLED = 0.2


class Choice(NamedTuple):
    """Blocks for a product."""

    blocks: Blocks
    ranked: Ranked


def ranked(layout: Layout, key: KernelKey, size: int, threads: int) -> list[Choice]:
    """All block sizes for a product's layout and sums of `size` bytes, the fastest estimate first."""
    found: dict[tuple[int, int], Choice] = {}
    for steps in _STEPS:
        for packed_bytes in _PACKED_BYTES:
            blocks = Blocks(steps, packed_bytes)
            of = min(steps, layout.k), min(tile_of(replace(key, blocks=blocks)).nc, layout.n)
            found.setdefault(of, Choice(blocks, _estimate(layout, key, size, threads, blocks)))
    return sorted(found.values(), key=lambda one: one.ranked.seconds)


def _estimate(layout: Layout, key: KernelKey, size: int, threads: int, blocks: Blocks) -> Ranked:
    """The time of one matrix: its steps, packing and cache traffic, and blocks that exceed their cache."""
    m, n, k = layout.m, layout.n, layout.k
    tile, host = tile_of(replace(key, blocks=blocks)), of_host(compiler().cpu)
    along_k, along_n = math.ceil(k / tile.kc), math.ceil(n / threads / tile.nc)
    working = m * n * k * size / 4 / _RATE / threads
    passed = (k * n + m * k * along_n * threads + 2 * m * n * along_k) * size / _BYTES / threads
    rows = tile.mr * min(tile.kc, k) * size / host.l1_bytes
    columns = min(tile.kc, k) * min(tile.nc, n) * size / host.l2_bytes
    spilled = working * _SPILLED * (min(1.0, max(0.0, rows - 0.5)) + min(1.0, max(0.0, columns - 0.75)))
    limiter = "arithmetic" if working > passed + spilled else "packing"
    return Ranked(str(blocks), working + passed + spilled, limiter, 1.0, "estimated")


def tuned(layout: Layout, key: KernelKey, kind: Kind, size: int, threads: int) -> Blocks | None:
    """The fastest block sizes that a tuner timed for such a product; None if it timed none."""
    if layout.m * layout.n * layout.k < _LARGE:
        return None
    root = Settings.from_environ().cache_dir
    if root is None or not (root / secure_files.WINNERS).is_dir():
        return None
    from tilewright.multiply.backends import tuning_db

    times = tuning_db.kept(key_of(layout, kind, threads), root)
    known = [
        (times[str(one.blocks)].seconds, one.blocks)
        for one in ranked(layout, key, size, threads)
        if str(one.blocks) in times
    ]
    return min(known)[1] if known else None


def key_of(layout: Layout, kind: Kind, threads: int) -> Key:
    """The key under which times of a product's block sizes are kept."""
    from tilewright.multiply.backends import tuning_db

    host = compiler()
    device = f"cpu {host.cpu} {digest(host.features)[:16]}, {threads} threads"
    return tuning_db.key(device, kind, layout.m, layout.n, layout.k, "multiply/backends/cpu")
