"""The simulation of a cluster against real clusters of 1 to 4 workers on this machine.

Workers are processes with one thread each. A turn makes the same product on a new cluster of each size. Before and
after the product the script measures how fast all workers together multiply, read and write, and the simulation gets
the mean. It predicts the time of the product, and the bytes that workers read and write, which `/proc/PID/io` counts
too. If there are too few cores, processes share them: the rates show this, and steps become longer by the processor
time of reads and writes, which is measured too. "processor" is the product's processor time, against the measured
processor time of its steps, reads and writes.

    python benchmarks/simulation.py [--edge 6144] [--turns 5] [--depth 1024] [--memory 1GB] [--folder FOLDER]
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from cluster import multiply, operands, processor_s, workers

from tilewright.blocks import stores
from tilewright.blocks.planning import BlockPlan, Rates
from tilewright.blocks.simulation.events import simulate
from tilewright.blocks.simulation.records import SimulatedCluster, SimulatedProduct
from tilewright.engine import outside
from tilewright.engine.partial import Partial
from tilewright.engine.request import Request

COUNTS = (1, 2, 3, 4)
#: Seconds in which a rate is measured.
PHASE_S = 0.6
#: Empty tasks, which measure the scheduler's seconds.
TASKS = 200


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--edge", type=int, default=6144, help="rows, columns and depth")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--depth", type=int, default=1024, help="of panels along k; 0 for the plan's own")
    parser.add_argument("--memory", default="1GB", help="of a worker")
    parser.add_argument("--folder", type=Path, help="where all files lie; else the system's for temporary ones")
    options = parser.parse_args()
    seen: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
    with operands(options.folder, options.edge) as folder:
        for _ in range(options.turns):
            for count in COUNTS:
                with workers(count) as client:
                    multiply(folder, "warm", client, options.memory, None)
                    seen[count].append(turn(folder, client, options.memory, options.depth))
    columns = ("workers", "measured s", "simulated s", "measured, of it", "read, of it", "written", "processor")
    rows = {
        count: {key: measuring.Spread.of([run[key] for run in runs]) for key in runs[0]} for count, runs in seen.items()
    }
    shown = ("seconds", "simulated_s", "ratio", "read", "written", "processor")
    cells = [(f"{count}", *(row[key].stacked() for key in shown)) for count, row in rows.items()]
    title = f"float32 {options.edge:,} cubed, {options.turns} turns"
    table = measuring.table(title, columns, cells, "Medians, and the least and the most.")
    results = {"edge": options.edge, "turns": seen}
    measuring.publish(results, [table], as_json=options.json, packages=("distributed",))


def turn(folder: Path, client: Any, memory: str, depth: int) -> dict[str, float]:
    """One product, and its simulation."""
    a, b, c = (str(folder / f"full_{x}.npy") for x in "abc")
    scheduler = scheduler_s(client)
    with outside.planned(a, b, c, Request(threads=1), memory, client=client) as product:
        assert product.cluster is not None and product.plan is not None
        product.plan = replace(product.plan, depth=depth or product.plan.depth)
        seconds: list[float] = []
        product.cluster.make = timed(product.cluster.make, seconds)  # type: ignore[method-assign]
        rates = [all_rates(client, folder, product.plan)]
        before, busy_s = moved(client), processor_s(client)
        product.run()
        after, busy_s = moved(client), processor_s(client) - busy_s
        rates.append(all_rates(client, folder, product.plan))
        told = simulated(product.plan, rates, len(client.nthreads()), *scheduler)
    Path(c).unlink()
    byte_s, flop_s = (statistics.mean(getattr(x, name) for one in rates for x in one) for name in ("byte_s", "flop_s"))
    needed_s = flop_s * told.plan.sizes.flops + byte_s * (told.read_bytes + told.written_bytes)
    return {
        "seconds": seconds[0],
        "simulated_s": told.seconds,
        "ratio": seconds[0] / told.seconds,
        "read": (after[0] - before[0]) / told.read_bytes,
        "written": (after[1] - before[1]) / told.written_bytes,
        "processor": busy_s / needed_s,
        "gflops": told.world.flops_per_s / 1e9,
        "read_gb": told.world.link_bytes_per_s / 1e9,
        "write_cost": told.world.write_cost,
        "byte_s": told.world.byte_s,
        "task_s": scheduler[0],
        "back_s": scheduler[1],
        "tiles": told.plan.tiles,
        "panels": told.plan.grid[2],
        "bound_s": max(told.bounds_s.values()),
    }


@dataclass(frozen=True)
class Found(Rates):
    """A worker's rates, and its processor seconds for a byte read or written and for an operation."""

    byte_s: float = 0.0
    flop_s: float = 0.0


def simulated(
    plan: BlockPlan, measured: list[list[Found]], count: int, task_s: float, back_s: float
) -> SimulatedProduct:
    """The simulation, at the mean of the rates of all workers together before and after the product."""
    every = [rates for one in measured for rates in one]
    flops, read, write, byte_s = (
        statistics.mean(getattr(rates, name) for rates in every)
        for name in ("flops", "read_bytes", "write_bytes", "byte_s")
    )
    cores = len(os.sched_getaffinity(0))
    has_free_core = max(count, os.getloadavg()[0]) < cores
    byte_s *= 0.0 if has_free_core else max(1.0, count / cores)
    return simulate(
        plan,
        SimulatedCluster(
            count, plan.held_bytes, flops_per_s=flops, storage_bytes_per_s=2 * count * read, link_bytes_per_s=read,
            write_cost=read / write, task_s=task_s, step_s=0.0, flush_s=back_s, byte_s=byte_s,
        ),
    )  # fmt: skip


def timed(act: Callable[..., None], seconds: list[float]) -> Callable[..., None]:
    """A result, and the seconds that it takes."""

    def act_and_note(*arguments: Any) -> None:
        began = time.perf_counter()
        act(*arguments)
        seconds.append(time.perf_counter() - began)

    return act_and_note


def all_rates(client: Any, folder: Path, plan: BlockPlan) -> list[Found]:
    """Each worker's rates while the others do the same."""
    shape = plan.rows, plan.columns, plan.depth
    return list(client.run(worker_rates, str(folder), shape, time.time() + 0.2).values())


def worker_rates(folder: str, shape: tuple[int, int, int], from_s: float) -> Found:
    """Runs on each worker: steps, reads and writes as in a tile, each for a while; all workers begin together.

    `blocks.probing` takes the best of three moments; on shared cores this is one without other work.
    """
    rows, columns, depth = shape
    a, b = (stores.opened(f"{folder}/full_{x}.npy", x) for x in "ab")
    scratch = Path(folder) / f"rates_{os.getpid()}.npy"
    c = stores.created(scratch, (rows, columns), "f4", chunks_hint=(rows, columns))
    work = Partial.of(a.dtype, b.dtype, (a.shape[-2], b.shape[-1]), Request(threads=1))
    left, right = np.ones((rows, depth), a.dtype), np.ones((depth, columns), b.dtype)
    sums = np.ones((rows, columns), work.sums)

    def write() -> None:
        c.write((), slice(0, rows), slice(0, columns), sums)
        zlib.crc32(sums.view(np.uint8).data)
        c.flush()

    k = a.shape[-1]
    parts = itertools.cycle([slice(first, first + depth) for first in range(0, k - depth + 1, depth)])
    with ThreadPoolExecutor(2) as pool:

        def read() -> None:
            """Reads other panels each time, because earlier ones are in the processor's caches."""
            ks = next(parts)
            first = pool.submit(a.read, (), slice(0, rows), ks, left)
            pool.submit(b.read, (), ks, slice(0, columns), right).result()
            first.result()

        def step() -> None:
            work.add(left, right, sums, first=False)

        seconds = [a_while(act, from_s + i * PHASE_S) for i, act in enumerate((step, read, write))]
    for store in (a, b, c):
        store.close()
    scratch.unlink()
    (steps_s, steps_busy_s), (read_s, read_busy_s), (write_s, write_busy_s) = seconds
    panels, tile = left.nbytes + right.nbytes, sums.nbytes
    whole = panels * -(-k // depth) + tile
    busy_s = (read_busy_s * (whole - tile) / panels + write_busy_s) / whole
    flops = 2 * rows * columns * depth
    return Found(flops / steps_s, panels / read_s, tile / write_s, busy_s, steps_busy_s / flops)


def a_while(act: Callable[[], None], from_s: float) -> tuple[float, float]:
    """Seconds of a call, and processor seconds, repeated for most of a phase."""
    time.sleep(max(from_s - time.time(), 0.0))
    began, busy, count = time.perf_counter(), time.process_time(), 0
    while count == 0 or time.perf_counter() - began < 0.8 * PHASE_S:
        act()
        count += 1
    return (time.perf_counter() - began) / count, (time.process_time() - busy) / count


def moved(client: Any) -> tuple[int, int]:
    """Bytes that all workers have read and written by system calls on files until now."""
    found = client.run(lambda: Path("/proc/self/io").read_text(encoding="ascii"))
    counts = [dict(line.split(": ") for line in text.splitlines()) for text in found.values()]
    return sum(int(x["rchar"]) for x in counts), sum(int(x["wchar"]) for x in counts)


def scheduler_s(client: Any) -> tuple[float, float]:
    """Seconds of an empty task: among many waiting ones, and the round trip of a single one."""
    began = time.perf_counter()
    client.gather(client.map(np.negative, range(TASKS), pure=False))
    many_s = (time.perf_counter() - began) / TASKS
    alone = []
    for number in range(TASKS // 10):
        began = time.perf_counter()
        client.submit(np.negative, number, pure=False).result()
        alone.append(time.perf_counter() - began)
    return many_s, statistics.median(alone)


if __name__ == "__main__":
    main()
