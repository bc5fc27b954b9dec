"""Simulations of ways to place tiles of a product larger than memory on workers.

A float32 product of a million cubed, workers of 16 GB, 300 GFLOPS and a link of 1.25 GB/s. The cluster uses the
C-stationary way, with at least four tiles a worker. The others are one tile a worker; 2.5-D with k in layers, whose
sums are added in the end; and panels that workers pass to each other, with all links together as the storage. Nothing
is measured, so the figures are the same everywhere.

    python benchmarks/placement.py [--edge 1000000] [--json]
"""

from __future__ import annotations

from dataclasses import replace

import measuring

from tilewright.blocks.planning import Sizes
from tilewright.blocks.simulation.clusters import planned
from tilewright.blocks.simulation.events import simulate
from tilewright.blocks.simulation.records import SimulatedCluster, SimulatedProduct
from tilewright.machine.sizes import duration_text, size_text

WORKERS, STORAGE = (100, 1000, 10_000), {"20 GB/s": 2e10, "1 TB/s": 1e12}
#: Layers, and tiles of a worker, or layers of them.
WAYS = {"C-stationary": (1, 4), "one tile each": (1, 1), "4 layers": (4, 4), "16 layers": (16, 4)}


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--edge", type=int, default=10**6, help="rows, columns and depth")
    options = parser.parse_args()
    edge = options.edge
    sizes, rows, results = Sizes((edge, edge, edge), (4, 4), 4, 4), [], []
    for workers in WORKERS:
        for name, rate in STORAGE.items():
            world = SimulatedCluster(workers, storage_bytes_per_s=rate)
            found = {way: told(sizes, world, *asked) for way, asked in WAYS.items()}
            passing = replace(world, storage_bytes_per_s=world.link_bytes_per_s * workers)
            found["panels handed on"] = told(sizes, passing, 1, 4)
            rows.append([f"{workers:,}", name, *map(text, found.values())])
            results += [
                {"workers": workers, "storage": rate, "way": way, "seconds": one.seconds, "read_bytes": one.read_bytes}
                for way, one in found.items()
            ]
    columns = ("workers", "storage", *WAYS, "panels handed on")
    table = measuring.table(f"float32 {edge:,} cubed", columns, rows, "Time, and bytes read.")
    measuring.publish({"edge": edge, "ways": results}, [table], as_json=options.json)


def told(sizes: Sizes, world: SimulatedCluster, layers: int, tiles_each: int) -> SimulatedProduct:
    """A simulation of one way."""
    return simulate(planned(sizes, world, layers, tiles_each), world, layers)


def text(found: SimulatedProduct) -> str:
    """Its time and the bytes read."""
    return f"{duration_text(found.seconds)}\n{size_text(found.read_bytes)}"


if __name__ == "__main__":
    main()
