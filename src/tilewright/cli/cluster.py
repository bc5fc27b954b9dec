"""`tilewright cluster`: simulate a product larger than memory on Dask clusters."""

from __future__ import annotations

import itertools
from typing import Annotated

from tilewright.cli.options import Names, Text, option
from tilewright.errors import ArgumentValueError

#: Clusters of one call: a simulation takes seconds for ten thousand workers.
_MOST = 32
#: Their numbers of workers by default.
_WORKERS = (1, 10, 100, 1000, 10000)


def cluster(
    sizes: Annotated[Names, option("--sizes", "1000000")] = None,
    dtypes: Annotated[Names, option("--dtypes", "float32")] = None,
    workers: Annotated[Names, option("--workers", "1,10,100,1000,10000")] = None,
    layers: Annotated[Names, option("--layers", "1")] = None,
    memory: Annotated[str, option("--memory")] = "16GB",
    gflops: Annotated[str, option("--gflops")] = "300",
    storage: Annotated[str, option("--storage")] = "20GB/s",
    link: Annotated[str, option("--link")] = "1.25GB/s",
    task: Annotated[str, option("--task")] = "5",
    failures: Annotated[Text, option("--failures", "nothing fails")] = None,
    spread: Annotated[str, option("--spread")] = "0",
    seed: Annotated[str, option("--seed")] = "0",
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Simulate a product on a Dask cluster of any number of workers: time, bytes and bottleneck.

    Tiles, their order and their assignment are those of `tilewright matmul --dask`. A single cluster is shown in
    detail.
    """
    from tilewright.blocks.simulation.clusters import simulated_cluster
    from tilewright.cli import values
    from tilewright.report import clusters as report, console, records, terminal

    more = {
        "flops_per_s": 1e9 * values.decimal("--gflops", gflops, "300"),
        "storage_bytes_per_s": float(values.rate("--storage", storage)),
        "link_bytes_per_s": float(values.rate("--link", link)),
        "task_s": 1e-3 * values.decimal("--task", task, "5"),
        "spread": 0.01 * values.decimal("--spread", spread.removesuffix("%"), "5"),
        "seed": values.whole("--seed", seed, 0, "0"),
    }
    if failures is not None:
        more["failure_s"] = 3600 * values.decimal("--failures", failures, "1000")
    shape = values.only_size(sizes, (1_000_000,) * 3)
    dtype = values.only_dtype(dtypes) or "float32"
    counts = values.numbers("--workers", workers, "1,10,100", 100_000) or _WORKERS
    parts = values.numbers("--layers", layers, "1,4,16", 100_000) or (1,)
    if (wanted := len(counts) * len(parts)) > _MOST:
        raise ArgumentValueError(f"--workers and --layers must name at most {_MOST} clusters (got {wanted})")
    found = [
        simulated_cluster(shape, count, memory, dtype=dtype, layers=each, **more)
        for count, each in itertools.product(counts, parts)
    ]
    if json:
        console.document("cluster", {"clusters": [report.document(one) for one in found]})
    elif len(found) == 1:
        terminal.show(records.blocks(found[0]), console.output())
    else:
        terminal.show(report.blocks(found), console.output())
