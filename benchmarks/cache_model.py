"""The time of the cache model for ten million sectors, by pattern of access and GPU.

Requests of four sectors, of one line or of four, from 4,096 blocks of eight warps; a pattern says which addresses the
blocks access. The time is the processor's in `profiling.cache.simulate` alone, which first links the requests warp by
warp. Its code is compiled before, and the table states that time separately.

    python benchmarks/cache_model.py [--sectors 10000000] [--rounds 5] [--gpus t4,h100] [--json]
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import measuring
import numpy as np
from measuring import Spread

from tilewright.observe.profiling import cache
from tilewright.simulate.machine import gpu

BLOCKS, WARPS, RESIDENT, SECTORS = 4096, 8, 4, 4
Pattern = Callable[[np.random.Generator, int], np.ndarray]

#: Words of this many requests, by pattern: whole lines, or a sector of each of four.
PATTERNS: dict[str, Pattern] = {
    "every request the same 8 KB": lambda rng, n: _whole(np.arange(n) % 64),
    "random in 64 KB": lambda rng, n: _random(rng, n, 1 << 9),
    "one after the other": lambda rng, n: _whole(np.arange(n)),
    "random in 100 MB": lambda rng, n: _random(rng, n, 100 << 13),
    "random in 1 GB": lambda rng, n: _random(rng, n, 1 << 23),
}


def _whole(lines: np.ndarray) -> np.ndarray:
    """All sectors of a line a request."""
    return (lines << 4 | 15)[:, None]


def _random(rng: np.random.Generator, requests: int, lines: int) -> np.ndarray:
    """A sector of each of some random lines, which differ within a request."""
    return rng.integers(0, lines, (requests, SECTORS)) << 4 | 1 << np.arange(SECTORS)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--sectors", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gpus", default="t4,h100")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TILEWRIGHT_CACHE_DIR": folder}):
        start = time.process_time()
        cache.code()
        compiling = time.process_time() - start
    found = [
        measure(pattern, name, options.sectors // SECTORS, options.rounds)
        for pattern in PATTERNS
        for name in options.gpus.split(",")
    ]
    rows = [(f["pattern"], f["gpu"], f["seconds"].text(), f"{f['l1_hits']:.0%}", f"{f['dram']:.0%}") for f in found]
    title = f"{options.sectors:,} sectors, {options.rounds} rounds: median (least - most)"
    columns = ("what is loaded", "caches of", "seconds", "found in L1", "read from DRAM")
    caption = f"compiling the model, where its code is not kept: {compiling * 1e3:.0f} ms"
    table = measuring.table(title, columns, rows, caption)
    measuring.publish({"compile_seconds": compiling, "cases": found}, [table], as_json=options.json)


def measure(pattern: str, name: str, requests: int, rounds: int) -> dict[str, Any]:
    """One pattern against one GPU's caches."""
    rng = np.random.default_rng(0)
    warps = np.sort(rng.integers(0, BLOCKS * WARPS, requests)).astype(np.uint64)
    asked = PATTERNS[pattern](rng, requests).astype(np.uint64)
    words = np.column_stack((warps << np.uint64(24) | np.uint64(asked.shape[1]), asked))
    caches = cache.Caches.of(gpu(name), shared_bytes=0, resident_blocks=RESIDENT)
    times = []
    for _ in range(rounds):
        start = time.process_time()
        traffic = cache.simulate(
            [words.ravel()], [cache.LOAD], caches, blocks=BLOCKS, warps_per_block=WARPS, resident_blocks=RESIDENT
        )
        times.append(time.process_time() - start)
    sectors = traffic.total("sectors")
    return {
        "pattern": pattern,
        "gpu": name,
        "seconds": Spread.of(times),
        "l1_hits": traffic.total("l1_hits") / sectors,
        "dram": traffic.dram_read_bytes / cache.SECTOR_BYTES / sectors,
    }


if __name__ == "__main__":
    main()
