"""Estimated times of ways to place the tiles of a float32 product larger than memory on the workers of a Dask cluster.

Nothing is measured: the plan of `tilewright.multiply.blocks.planning` states bytes and steps, and the time is the
longest of four bounds. Workers multiply and read at given rates, share the storage, and get tasks from one scheduler.
Failures, work stealing and disks that slow down with many readers are left out.

`matmul(..., client=client)` uses the first way: at least four tiles for each worker. The others are one tile for each
worker; 2.5-D, with k in layers whose partial sums go through storage and are added at the end, which changes the bits;
and panels that workers pass to each other, so that all links together replace the storage.

    python benchmarks/placement.py [--edge 1000000] [--workers 1,100,10000] [--memory 16GB] [--storage 20GB/s]
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import measuring

from tilewright.multiply.blocks.dealing import TILES_EACH
from tilewright.multiply.blocks.planning import Rates, Sizes, plan
from tilewright.simulate.machine.sizes import duration_text, size_bytes, size_text

#: How `matmul(..., client=client)` places tiles.
USED = f"{TILES_EACH} tiles each"
#: Layers of k, tiles of a worker, and whether panels are passed on.
WAYS = {
    USED: (1, TILES_EACH, False),
    "1 tile each": (1, 1, False),
    "4 layers": (4, TILES_EACH, False),
    "panels passed on": (1, TILES_EACH, True),
}
ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Cluster:
    """Workers, the storage they share, and the rates of each. `benchmarks/cluster.py` multiplies on real ones."""

    workers: int
    memory_bytes: int = 16_000_000_000  #: Of a worker, for tiles and panels.
    storage_bytes_per_s: float = 2e10  #: Of all workers together.
    link_bytes_per_s: float = 1.25e9  #: Of a worker, each way.
    flops_per_s: float = 3e11  #: Of a worker.
    task_s: float = 5e-3  #: Of client and scheduler for each task, one at a time: 4 to 5 ms were measured on two cores.


@dataclass(frozen=True)
class Estimate:
    """Bytes between workers and storage, and the seconds that each part needs if evenly shared."""

    tiles: int
    read_bytes: int
    written_bytes: int
    least_bytes: int
    bounds_s: dict[str, float]

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.bounds_s, key=lambda name: self.bounds_s[name])

    @property
    def seconds(self) -> float:
        """The time that it takes."""
        return self.bounds_s[self.limit]


def estimate(
    extents: tuple[int, int, int], cluster: Cluster, layers: int, tiles_each: int, passed_on: bool
) -> Estimate:
    """Time and traffic of one way: each layer is planned as a product of its own, for its share of the workers."""
    m, n, k = extents
    links = cluster.link_bytes_per_s * cluster.workers
    rate = links if passed_on else min(cluster.storage_bytes_per_s, links)
    depth, workers = -(-k // layers), -(-cluster.workers // layers)
    sizes = Sizes((m, n, depth), (ELEMENT_BYTES, ELEMENT_BYTES), ELEMENT_BYTES, ELEMENT_BYTES, workers=workers)
    rates = Rates(cluster.flops_per_s, rate, rate)
    found = plan(sizes, cluster.memory_bytes, rates, least_tiles=-(-tiles_each * cluster.workers // layers))
    sums = m * n * ELEMENT_BYTES * (layers - 1)  # written by all layers but one, and read by that
    read, written = found.read_bytes * k // depth + sums, found.written_bytes + sums
    each = -(-found.tiles * layers // cluster.workers)  # a worker with one tile less waits for the others
    bounds_s = {
        "arithmetic": each * 2 * m * n * k / (found.tiles * layers) / cluster.flops_per_s,
        "storage": (read + written) / (links if passed_on else cluster.storage_bytes_per_s),
        "links": max(read, written) / links,
        "scheduler": found.tiles * layers * cluster.task_s,
    }
    return Estimate(found.tiles * layers, read, written, least_bytes(extents, cluster), bounds_s)


def least_bytes(extents: tuple[int, int, int], cluster: Cluster) -> int:
    """Lower bound of reads and writes in any order, if all workers do an equal share of the arithmetic.

    Of ``F = m n k / P`` multiplications a worker with memory for S elements moves at least ``2 F / sqrt(S) - 2 S``
    elements, and at least ``3 F**(2/3)``, since its memory is empty at start and end. Source: Irony, Toledo, Tiskin,
    Communication lower bounds for distributed-memory matrix multiplication (2004); Ballard et al., Strong scaling of
    matrix multiplication algorithms and memory-independent communication lower bounds (2012).
    """
    m, n, k = extents
    memory, each = cluster.memory_bytes // ELEMENT_BYTES, m * n * k / cluster.workers
    least = max(2 * each / math.sqrt(memory) - 2 * memory, 3 * each ** (2 / 3))
    return ELEMENT_BYTES * max(m * k + k * n + m * n, int(cluster.workers * least))


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--edge", type=int, default=10**6, help="rows, columns and depth")
    parser.add_argument("--workers", default="1,100,1000,10000")
    for name, given in (("memory", "16GB"), ("storage", "20GB/s"), ("link", "1.25GB/s")):
        parser.add_argument(f"--{name}", default=given)
    options = parser.parse_args()
    given = {name: getattr(options, name).removesuffix("/s") for name in ("memory", "storage", "link")}
    rates = [size_bytes(f"--{name}", text) for name, text in given.items()]
    rows, ways, results = [], [], []
    for workers in map(int, options.workers.split(",")):
        found = {name: estimate((options.edge,) * 3, Cluster(workers, *rates), *way) for name, way in WAYS.items()}
        used = found[USED]
        over = (used.read_bytes + used.written_bytes) / used.least_bytes
        row = f"{used.tiles:,}", duration_text(used.seconds), size_text(used.read_bytes), f"{over:.2f}", used.limit
        rows.append((f"{workers:,}", *row))
        cells = (f"{duration_text(one.seconds)}\n{size_text(one.read_bytes)}" for one in found.values())
        ways.append((f"{workers:,}", *cells))
        results += [{"workers": workers, "way": name, "seconds": x.seconds, **asdict(x)} for name, x in found.items()]
    title = f"float32 {options.edge:,} cubed, {options.memory} a worker, storage of {options.storage}"
    columns = ("workers", "tiles", "time", "read", "of the least", "limited by")
    tables = [
        measuring.table(title, columns, rows, "Of the least: bytes moved, over those that no order goes below."),
        measuring.table("Ways to place the tiles", ("workers", *WAYS), ways, "Time, and bytes read."),
    ]
    measuring.publish({"edge": options.edge, "ways": results}, tables, as_json=options.json)


if __name__ == "__main__":
    main()
