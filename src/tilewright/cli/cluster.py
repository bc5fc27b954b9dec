"""`tilewright cluster`: simulate a product larger than memory on Dask clusters."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

import typer

from tilewright.cli.options import option
from tilewright.errors import ArgumentValueError

#: Clusters of one call: a simulation takes seconds for ten thousand workers.
_MOST = 32


def _option(metavar: str, text: str) -> Any:
    return option(metavar, text)


def cluster(
    extents: Annotated[str, _option("M,N,K", "C is M by N, A is M by K, B is K by N.")] = "1000000,1000000,1000000",
    workers: Annotated[str, _option("NUMBERS", "Numbers of workers, a row each.")] = "1,10,100,1000,10000",
    memory: Annotated[str, _option("SIZE", "Memory of a worker, for tiles and panels.")] = "16GB",
    dtype: Annotated[str, _option("DTYPE", "Dtype of all three matrices.")] = "float32",
    layers: Annotated[str, _option("NUMBERS", "Parts into which k is split among workers (2.5-D); a row each.")] = "1",
    gflops: Annotated[str, _option("NUMBER", "Rate of a worker.")] = "300",
    storage: Annotated[str, _option("RATE", "Storage bandwidth of all workers together.")] = "20GB/s",
    link: Annotated[str, _option("RATE", "Network bandwidth of a worker, each way.")] = "1.25GB/s",
    task: Annotated[str, _option("MS", "Milliseconds per tile in client and scheduler.")] = "5",
    failures: Annotated[str | None, option("HOURS", "Mean life of a worker.", "nothing fails")] = None,
    spread: Annotated[str, _option("PERCENT", "Standard deviation of the workers' rates.")] = "0",
    seed: Annotated[str, _option("NUMBER", "Seed of failures and rates.")] = "0",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
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
    shape = values.extents("--extents", extents)
    rows = list(itertools.product(_numbers("--workers", workers), _numbers("--layers", layers)))
    if len(rows) > _MOST:
        raise ArgumentValueError(f"--workers and --layers must name at most {_MOST} clusters (got {len(rows)})")
    found = [simulated_cluster(shape, count, memory, dtype=dtype, layers=parts, **more) for count, parts in rows]
    if json:
        console.document({"clusters": [report.document(one) for one in found]})
    elif len(found) == 1:
        terminal.show(records.blocks(found[0]), console.output())
    else:
        terminal.show(report.blocks(found), console.output())


def _numbers(option: str, text: str) -> list[int]:
    from tilewright.cli import values

    return [values.whole(option, part.strip(), 1, "1,10,100", 100_000) for part in text.split(",")]
