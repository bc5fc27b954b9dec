"""How fast the simulated GPU runs the ladder's kernels on the host; `instruments.py` tells what instruments cost.

GFLOPS here are the host's: 2 m n k divided by the host's seconds of running blocks. They say nothing of any GPU.
Every product is compared with the record's reference first; a kernel that fails is not timed. Kernels take turns, so
that another process on the host slows all of them alike.

    python benchmarks/simt_speed.py [--size 512] [--threads 2] [--rounds 9] [--all] [--json]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import measuring
import numpy as np

from tilewright import catalogue, simt
from tilewright.ladder import operands

KERNELS = ("tiled", "results_8")
Launch = Callable[..., simt.Run]


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--size", type=int, default=512, help="m = n = k")
    parser.add_argument("--threads", type=int, default=2, help="host threads")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--all", action="store_true", help="every GPU kernel of the catalogue, in every dtype")
    options = parser.parse_args()
    chosen = [r for r in catalogue.records() if r.backend == "gpu" and (options.all or r.name in KERNELS)]
    kernels = speeds(chosen, options.size, options.threads, options.rounds, every_dtype=options.all)
    results = {"size": options.size, "threads": options.threads, "kernels": kernels}
    measuring.publish(results, [speed_table(results)], as_json=options.json)


def speeds(
    records: Sequence[catalogue.Record], size: int, threads: int, rounds: int, *, every_dtype: bool
) -> list[dict[str, Any]]:
    """Time records in turns, with no instrument."""
    found = []
    for record in records:
        for dtype in record.dtypes if every_dtype else ("float32",):
            launch, verified = prepared(record, dtype, size, threads)
            row = {"name": record.name, "source": record.source, "dtype": dtype, "verified": verified, "runs": []}
            found.append(row | {"launch": launch})
    for _ in range(rounds):
        for row in found:
            if row["verified"]:
                row["runs"].append(row["launch"]())
    for row in found:
        runs = row.pop("runs")
        del row["launch"]
        if runs:
            row["warp_instructions"] = runs[0].warp_instructions
            row["seconds"] = measuring.Spread.of([run.seconds for run in runs])
            row["host_gflops"] = measuring.Spread.of([2e-9 * size**3 / run.seconds for run in runs])
            row["warp_instructions_per_second"] = measuring.Spread.of(
                [run.warp_instructions / run.seconds for run in runs]
            )
    return found


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
        return simt.launch(program, shape.grid, shape.block, arguments, instruments=instruments, limits=limits)

    launch()
    return launch, bool((device[id(c)].view() == record.reference(a, b)).all())


def speed_table(results: dict[str, Any]) -> Any:
    """The table of kernels."""
    rows = []
    for row in results["kernels"]:
        figures = ("", "", "", "")
        if "seconds" in row:
            figures = (
                row["seconds"].text(1e3),
                row["host_gflops"].text(),
                f"{row['warp_instructions']:,}",
                row["warp_instructions_per_second"].text(1e-6, ",.0f"),
            )
        rows.append((row["name"], row["source"], row["dtype"], "yes" if row["verified"] else "NO", *figures))
    return measuring.table(
        f"The simulator at {results['size']}^3 on {results['threads']} host threads, no instrument",
        ("kernel", "source", "dtype", "verified", "ms", "host GFLOPS", "warp instr.", "M instr./s"),
        rows,
        "median (least - most); rates of the simulator on this host, not of a GPU",
    )


if __name__ == "__main__":
    main()
