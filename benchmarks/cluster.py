"""Two workers of a Dask cluster against the sum of their rates: twice that of one alone, on the same tiles.

Workers are processes of this machine with one thread each. A cluster of one and a cluster of two take turns on one
float32 product of .npy files; a process without a cluster, of one thread, is the third. Each runs alone on the machine,
after a small product. "processor" is what workers and driver used for the product. The bar is
90 % of the sum.

On a machine with no more cores than workers, a lone worker reads and writes on cores that two workers would share.
With --core-each every worker is bound to its own core, also when it is alone.

    python benchmarks/cluster.py [--edge 16384] [--turns 3] [--memory 2GB] [--core-each] [--folder FOLDER] [--json]
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import measuring
import numpy as np

from tilewright.multiply.blocks.planning import BlockPlan
from tilewright.multiply.blocks.stores import created
from tilewright.multiply.engine import outside
from tilewright.multiply.engine.request import Request

#: Rows and columns of a product that makes workers compile what they need.
WARM = 512
#: Workers of each contender; 0 is a process without a cluster.
COUNTS = {"1 worker": 1, "2 workers": 2, "no cluster": 0}
ROWS_AT_ONCE = 1024


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--edge", type=int, default=16384, help="rows, columns and depth")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--memory", default="2GB", help="of a worker")
    parser.add_argument("--core-each", action="store_true", help="hold each worker to one core of its own")
    parser.add_argument("--folder", type=Path, help="where all files lie; else the system's for temporary ones")
    options = parser.parse_args()
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in COUNTS}
    with operands(options.folder, options.edge) as folder:
        with workers(2) as client:
            plan = tiles(folder, client, options.memory)
        for _ in range(options.turns):
            for name, count in COUNTS.items():
                with workers(count) if count else contextlib.nullcontext() as client:
                    if options.core_each and client is not None:
                        hold_to_cores(client)
                    multiply(folder, "warm", client, options.memory, None)
                    seen[name].append(multiply(folder, "full", client, options.memory, plan))
    alone, both = ([x["seconds"] for x in seen[f"{name}"]] for name in ("1 worker", "2 workers"))
    of_sum = measuring.Spread.of([a / (2 * b) for a, b in zip(alone, both, strict=True)])
    columns = ("who", "GFLOPS", "seconds", "processor s")
    rows = {
        name: {key: measuring.Spread.of([run[key] for run in runs]) for key in runs[0]} for name, runs in seen.items()
    }
    cells = [
        (name, row["gflops"].text(), row["seconds"].text(), row["processor_s"].text()) for name, row in rows.items()
    ]
    down, across, panels = plan.grid
    of = f"{plan.rows:,} x {plan.columns:,}, {panels} panels along k"
    title = f"float32 {options.edge:,} cubed in {down} x {across} tiles of {of}"
    caption = f"Two workers reach {of_sum.text(100)} % of the sum of their rates, turn by turn."
    results = {"edge": options.edge, "grid": plan.grid, "rows": rows, "of_sum": of_sum}
    table = measuring.table(title, columns, cells, caption)
    measuring.publish(results, [table], as_json=options.json, packages=("distributed",))


@contextlib.contextmanager
def workers(count: int) -> Iterator[Any]:
    """A client with this many workers."""
    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
            host="127.0.0.1", local_directory=folder,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield client


def hold_to_cores(client: Any) -> None:
    """Bind each worker to its own core."""
    for core, worker in zip(sorted(os.sched_getaffinity(0)), client.scheduler_info()["workers"], strict=False):
        client.run(hold_process, core, workers=[worker])


def hold_process(core: int) -> None:
    """Bind all threads of this process, and those that they start, to a core."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


@contextlib.contextmanager
def operands(within: Path | None, edge: int) -> Iterator[Path]:
    """A temporary folder with the operands of the products, the small ones first."""
    with tempfile.TemporaryDirectory(dir=within) as place:
        folder = Path(place)
        for name, size in (("warm", WARM), ("full", edge)):
            for operand in "ab":
                save(folder / f"{name}_{operand}.npy", size)
        yield folder


def save(path: Path, edge: int) -> None:
    """A matrix of random numbers."""
    random = np.random.default_rng(0)
    store = created(path, (edge, edge), "f4", chunks_hint=(edge, edge))
    for first in range(0, edge, ROWS_AT_ONCE):
        rows = slice(first, min(first + ROWS_AT_ONCE, edge))
        store.write((), rows, slice(0, edge), random.random((rows.stop - first, edge), dtype=np.float32))
    store.flush()
    store.close()


def tiles(folder: Path, client: Any, memory: str) -> BlockPlan:
    """The plan for a cluster, which all contenders use."""
    a, b, c = (str(folder / f"full_{name}.npy") for name in "abc")
    with outside.planned(a, b, c, Request(), memory, client=client) as product:
        assert product.plan is not None
        return product.plan


def multiply(folder: Path, name: str, client: Any, memory: str, plan: BlockPlan | None) -> dict[str, float]:
    """One product: its seconds, its rate, and seconds of processors."""
    a, b, c = (str(folder / f"{name}_{x}.npy") for x in "abc")
    with outside.planned(a, b, c, Request(threads=1), memory, client=client) as product:
        product.plan = plan or product.plan
        before, began = processor_s(client), time.time()
        product.run()
        seconds, used = time.time() - began, processor_s(client) - before
        assert product.plan is not None
        flops = product.plan.sizes.flops
    Path(c).unlink()
    return {"seconds": seconds, "gflops": flops / seconds / 1e9, "processor_s": used}


def processor_s(client: Any) -> float:
    """Processor seconds of this process and of the workers until now."""
    return time.process_time() + (0.0 if client is None else sum(client.run(time.process_time).values()))


if __name__ == "__main__":
    main()
