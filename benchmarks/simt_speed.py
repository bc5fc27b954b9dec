"""How fast the simulated GPU runs the ladder's kernels on the host; `instruments.py` measures the cost of instruments.

GFLOPS here are the host's: 2 m n k divided by the host's seconds of running blocks. They say nothing of any GPU.
Every product is compared with the record's reference first; a kernel that fails is not timed. Kernels take turns, so
that another process on the host slows all of them alike.

    python benchmarks/simt_speed.py [--size 512] [--threads 2] [--rounds 9] [--all] [--hosts own,avx2,sse] [--json]

`--hosts` names vector instructions to compile for: this processor's own, or those of one without AVX-512, or without
AVX. All of them, and NumPy's product, take turns too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import measuring
import narrow_hosts
import numpy as np

from tilewright import simt
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue

KERNELS = ("tiled", "results_8")
Launch = Callable[..., simt.Run]


def main() -> None:
    parser = measuring.arguments_of_speed(__doc__, size=512, rounds=9)
    parser.add_argument("--all", action="store_true", help="every GPU kernel of the catalogue, in every dtype")
    options = parser.parse_args()
    chosen = [r for r in catalogue.records() if r.backend == "gpu" and (options.all or r.name in KERNELS)]
    hosts = options.hosts.split(",")
    kernels = speeds(chosen, options.size, options.threads, options.rounds, every_dtype=options.all, hosts=hosts)
    results = {"size": options.size, "threads": options.threads, "kernels": kernels}
    measuring.publish(results, [speed_table(results)], as_json=options.json)


def speeds(
    records: Sequence[catalogue.Record],
    size: int,
    threads: int,
    rounds: int,
    *,
    every_dtype: bool,
    hosts: Sequence[str] = ("own",),
) -> list[dict[str, Any]]:
    """Time records in turns, with no instrument, and NumPy's product of the same size among them."""
    found = []
    for host in hosts:
        narrow_hosts.use_host(setattr, host)
        for record in records:
            for dtype in record.dtypes if every_dtype else ("float32",):
                launch, verified = prepared(record, dtype, size, threads)
                row = {
                    "name": record.name,
                    "source": record.source,
                    "dtype": dtype,
                    "host": host,
                    "runs": [],
                    "processor": [],
                }
                found.append(row | {"verified": verified, "launch": launch})
    a, b = operands(size, size, size, "float32")
    numpy_seconds = []
    for _ in range(rounds):
        for row in found:
            if row["verified"]:
                narrow_hosts.use_host(setattr, row["host"])
                start = time.process_time()
                row["runs"].append(row["launch"]())
                row["processor"].append(time.process_time() - start)
        start = time.perf_counter()
        a @ b
        numpy_seconds.append(time.perf_counter() - start)
    narrow_hosts.use_host(setattr, "own")
    return [*(_summed(row, size, threads) for row in found), _numpy_row(size, numpy_seconds)]


def _numpy_row(size: int, seconds: list[float]) -> dict[str, Any]:
    """The row of NumPy's own product, which shows how quiet the host was."""
    rates = measuring.Spread.of([2e-9 * size**3 / s for s in seconds])
    row = {"name": f"NumPy {np.__version__}", "source": "", "dtype": "float32", "host": "own", "verified": True}
    return row | {"seconds": measuring.Spread.of(seconds), "host_gflops": rates}


def _summed(row: dict[str, Any], size: int, threads: int) -> dict[str, Any]:
    """A row with the times of its runs; processor time, as if every thread always had its own core."""
    runs, processor = row.pop("runs"), row.pop("processor")
    del row["launch"]
    if runs:
        row["warp_instructions"] = runs[0].warp_instructions
        row["seconds"] = measuring.Spread.of([run.seconds for run in runs])
        row["host_gflops"] = measuring.Spread.of([2e-9 * size**3 / run.seconds for run in runs])
        rates = [2e-9 * size**3 * threads / seconds for seconds in processor if seconds]
        row["processor_gflops"] = measuring.Spread.of(rates)
        row["warp_instructions_per_second"] = measuring.Spread.of([run.warp_instructions / run.seconds for run in runs])
    return row


def prepared(record: catalogue.Record, dtype: str, size: int, threads: int) -> tuple[Launch, bool]:
    """A function that launches a kernel on arrays that stay in simulated memory, and whether its product is right."""
    a, b = operands(size, size, size, dtype)
    c = np.zeros((size, size), dtype)
    program, shape = record.program(dtype), record.launch_rule(size, size, size)
    limits = simt.Limits(threads=threads)
    memory = simt.Memory()
    device = {id(x): memory.array(x) for x in (a, b, c)}
    arguments = [device.get(id(x), x) for x in record.arguments(a, b, c)]

    def launch(instruments: Sequence[Any] = ()) -> simt.Run:
        return simt.launch(program, shape.grid, shape.block, arguments, shape.shared_bytes, instruments, limits)

    launch()
    return launch, record.wrong_elements(device[id(c)].view(), a, b) == 0


def speed_table(results: dict[str, Any]) -> Any:
    """The table of kernels."""
    figures = {
        "seconds": (1e3, ",.3g"),
        "host_gflops": (1, ",.3g"),
        "processor_gflops": (1, ",.3g"),
        "warp_instructions_per_second": (1e-6, ",.0f"),
    }
    rows = []
    for row in results["kernels"]:
        facts = (row["source"], row["dtype"], "" if row["host"] == "own" else row["host"])
        kernel = "\n".join((row["name"], " ".join(filter(None, facts)), *["WRONG PRODUCT"] * (not row["verified"])))
        rows.append((kernel, *(row[name].stacked(*form) if name in row else "" for name, form in figures.items())))
    return measuring.table(
        f"The simulator at {results['size']}^3 on {results['threads']} host threads, no instrument",
        ("kernel", "ms", "host\nGFLOPS", "by processor\ntime", "million\ninstr./s"),
        rows,
        "median, least-most; rates of the simulator on this host, not of a GPU",
    )


if __name__ == "__main__":
    main()
