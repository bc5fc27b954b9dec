"""Products of Dask arrays: `tilewright.matmul` against `dask.array.matmul`, by memory, processor time and tasks.

    python benchmarks/dask_arrays.py [--edge 8192] [--chunks 1024 2048] [--turns 3] [--folder FOLDER] [--json]

Each product runs in its own process, or with a cluster of two workers of one thread; the two take turns. Operands are
float32, in zarr or of `dask.array.random`; the product goes to zarr, nothing is compressed. "added" is the peak of
memory during the product, less the memory before it, of all processes together: VmHWM, which the system counts. BLAS
has one thread, as Dask advises; the threaded scheduler has two.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import measuring
import numpy as np
import zarr
from cluster import workers

import tilewright as tw

WHO = {"dask.array": da.matmul, "tilewright": tw.matmul}
SOURCES, SCHEDULERS = ("zarr", "random"), ("threads", "cluster")
#: Rows and columns of a product that makes processes load and compile what they need.
WARM = 512
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--edge", type=int, default=8192, help="rows, columns and depth")
    parser.add_argument("--chunks", type=int, nargs="+", default=[1024, 2048], help="rows and columns of a chunk")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where zarr's arrays lie; else the system's for temporary ones")
    parser.add_argument(
        "--one", nargs=5, metavar="X", help="who, source, scheduler, chunk, folder: one product, as JSON"
    )
    options = parser.parse_args()
    if options.one:
        print(json.dumps(product(*options.one[:3], int(options.one[3]), Path(options.one[4]), options.edge)))
        return
    seen: dict[tuple[Any, ...], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        for chunk in options.chunks:
            for name in "ab":
                save(Path(place) / f"{name}{chunk}.zarr", options.edge, chunk)
        cases = list(itertools.product(options.chunks, SOURCES, SCHEDULERS, WHO))
        for _, case in itertools.product(range(options.turns), cases):
            seen.setdefault(case, []).append(run(case, place, options.edge))
    results = [
        {"chunk": case[0], "operands": case[1], "scheduler": case[2], "who": case[3]}
        | {key: measuring.Spread.of([x[key] for x in runs]) for key in runs[0]}
        for case, runs in seen.items()
    ]
    columns = ("chunks", "operands", "scheduler", "who", "added MiB", "peak MiB", "processor s", "seconds", "tasks")
    cells = [
        (
            f"{x['chunk']:,}", x["operands"], x["scheduler"], x["who"], x["added_bytes"].stacked(2**-20),
            x["peak_bytes"].stacked(2**-20, ",.0f"), x["processor_s"].stacked(), x["seconds"].stacked(),
            f"{x['tasks'].median:,.0f}",
        )
        for x in results
    ]  # fmt: skip
    table = measuring.table(f"float32 {options.edge:,} cubed", columns, cells)
    measuring.publish({"runs": results}, [table], as_json=options.json, packages=("dask", "distributed", "zarr"))


def run(case: tuple[Any, ...], folder: str, edge: int) -> dict[str, float]:
    """One product, by a process of its own."""
    chunk, source, scheduler, who = case
    command = [sys.executable, __file__, "--edge", str(edge), "--one", who, source, scheduler, str(chunk), folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | _ONE_THREAD)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def save(path: Path, edge: int, chunk: int) -> None:
    """An array of random numbers in zarr."""
    target = new(path, edge, chunk)
    random = np.random.default_rng(0)
    for first in range(0, edge, chunk):
        rows = target[first : first + chunk].shape[0]
        target[first : first + chunk] = random.random((rows, edge), dtype=np.float32)


def new(path: Path, edge: int, chunk: int) -> Any:
    return zarr.create_array(
        str(path), shape=(edge, edge), chunks=(chunk, chunk), dtype="float32", compressors=None, overwrite=True
    )


def operands(source: str, chunk: int, folder: Path, edge: int) -> list[Any]:
    if source == "zarr":
        return [da.from_zarr(str(folder / f"{name}{chunk}.zarr")) for name in "ab"]
    return [da.random.default_rng(n).random((edge, edge), chunks=chunk, dtype=np.float32) for n in range(2)]


def product(who: str, source: str, scheduler: str, chunk: int, folder: Path, edge: int) -> dict[str, float]:
    """Time and memory of one product."""
    matmul = WHO[who]
    with scheduled(scheduler) as client:
        for warm in range(2):  # the first call compiles, so the second is quicker
            small = [da.random.default_rng(warm).random((WARM, WARM), chunks=WARM // 2, dtype=np.float32)] * 2
            matmul(*small).compute()
        target = new(folder / "c.zarr", edge, chunk)
        before = each(client, forget_most)
        used, began = sum(each(client, time.process_time)), time.perf_counter()
        stored = da.store(matmul(*operands(source, chunk, folder, edge)), target, lock=False, compute=False)
        (graph,) = dask.optimize(stored)
        stored.compute()
        seconds, used = time.perf_counter() - began, sum(each(client, time.process_time)) - used
        peaks = each(client, most_bytes)
    return {
        "added_bytes": sum(peaks) - sum(before),
        "peak_bytes": sum(peaks),
        "processor_s": used,
        "seconds": seconds,
        "tasks": len(graph.__dask_graph__()),
    }


@contextlib.contextmanager
def scheduled(scheduler: str) -> Iterator[Any]:
    """Dask's scheduler: a client's workers, or threads of this process, which has no client."""
    if scheduler == "threads":
        with dask.config.set(scheduler="threads", num_workers=2):
            yield None
        return
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with workers(2) as client, client.as_current(), dask.config.set(scheduler=client):
        yield client


def each(client: Any, ask: Any) -> list[Any]:
    """Answers of this process and of the workers."""
    return [ask(), *([] if client is None else client.run(ask).values())]


def forget_most() -> int:
    """Reset the system's peak of memory; returns the bytes in memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return most_bytes()


def most_bytes() -> int:
    """The peak of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
