"""The cost of instruments: corrected S2, or another kernel, with and without them, in pairs of launches in a row.

A pair's ratio is of the host's seconds of running blocks. `whole` is what a user waits for: the whole call, with the
evaluation of the counts (for a profile the cache model too), over the whole call without instruments. A second ratio is
of processor time of all threads, which other load on the host disturbs less. Arrays stay in simulated memory, kernels
are translated and optimised before, and instruments reuse memory of earlier launches.

With `--checks`, what a check costs in processor time: `tilewright.check` of NumPy arrays over `simt.launch` of them,
for the named kernels of the catalogue, or all of float32 that compute this size.

    python benchmarks/instruments.py [--kernel tiled] [--size 256] [--threads 2] [--rounds 15] [--json]
    python benchmarks/instruments.py --checks all [--size 512] [--threads 2] [--rounds 3] [--json]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import measuring
import numpy as np
import simt_speed

from tilewright import check, machine, profiling, simt
from tilewright.checking import Checks
from tilewright.instruments import Banks, Coalescing, Divergence, Mix
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.simt import Run
from tilewright.simulate.events import GLOBAL_BASE, Instrument
from tilewright.simulate.observer import Launch

#: The measured commands, with the instruments of a launch.
CASES: dict[str, Callable[[], Sequence[Instrument]]] = {
    "mix": lambda: (Mix(),),
    "divergence": lambda: (Divergence(),),
    "banks": lambda: (Banks(),),
    "coalescing": lambda: (Coalescing(),),
    "coalescing, recording": lambda: (Coalescing(("global", "local"), record=True),),
    "profile": profiling.instruments,
    "check": lambda: (),  # of a launch, see `checked`
}
#: What `check` may read and write here: all of it counts as written by the host.
CHECKED_BYTES = 64 << 20


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--kernel", default="tiled", help="of the catalogue, in its first dtype")
    parser.add_argument("--size", type=int, default=256, help="m = n = k")
    parser.add_argument("--threads", type=int, default=2, help="host threads")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--checks", default="", help="check of these kernels over their launch: names with commas, all")
    options = parser.parse_args()
    if options.checks:
        found = every_check(options.checks, options.size, options.threads, options.rounds)
        measuring.publish({"kernels": found}, [check_table(found, options.size)], as_json=options.json)
        return
    results = measured(options.kernel, options.size, options.threads, options.rounds)
    measuring.publish(results, [table(results)], as_json=options.json)


def measured(kernel: str, size: int, threads: int, rounds: int) -> dict[str, Any]:
    """Times without instruments, and the ratios of pairs."""
    record = catalogue.find(kernel)
    launch, verified = simt_speed.prepared(record, record.dtypes[0], size, threads)
    gpu = machine.gpu("h100")
    example = launch()
    for name, instruments in CASES.items():  # translate first
        launch(checked(example) if name == "check" else instruments())
    plain: list[float] = []
    running: dict[str, list[float]] = {name: [] for name in CASES}
    whole: dict[str, list[float]] = {name: [] for name in CASES}
    processor: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, instruments in CASES.items():
            start = now()
            without = launch().seconds
            stop = now()
            alone = stop[0] - start[0], stop[1] - start[1]
            given = checked(example) if name == "check" else instruments()
            between = now()
            run = launch(given)
            if name == "profile":
                profiling.of_run(run, gpu)
            end = now()
            plain.append(without)
            running[name].append(run.seconds / without)
            whole[name].append((end[0] - between[0]) / alone[0])
            processor[name].append((end[1] - between[1]) / alone[1])
    return {
        "kernel": kernel,
        "size": size,
        "threads": threads,
        "verified": verified,
        "plain_seconds": measuring.Spread.of(plain),
        "running": {name: measuring.Spread.of(values) for name, values in running.items()},
        "whole": {name: measuring.Spread.of(values) for name, values in whole.items()},
        "processor": {name: measuring.Spread.of(values) for name, values in processor.items()},
    }


def every_check(names: str, size: int, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Processor seconds of a launch and of its check, and the ratios of pairs, for each named float32 kernel."""
    found = []
    for record in catalogue.records() if names == "all" else map(catalogue.find, names.split(",")):
        if record.backend != "gpu" or "float32" not in record.dtypes:
            continue
        if not simt_speed.prepared(record, "float32", size, threads)[1]:
            continue
        a, b = operands(size, size, size, "float32")
        c, shape = np.zeros((size, size), np.float32), record.launch_rule(size, size, size)
        program, limits = record.program("float32"), simt.Limits(threads=threads)
        given = program, shape.grid, shape.block, record.arguments(a, b, c)
        seconds: dict[str, list[float]] = {"launch": [], "check": []}
        for turn in range(rounds + 1):  # the first translates
            start = time.process_time()
            simt.launch(*given, shared_bytes=shape.shared_bytes, limits=limits)
            between = time.process_time()
            check(*given, shared_bytes=shape.shared_bytes, limits=limits)
            if turn:
                seconds["launch"].append(between - start)
                seconds["check"].append(time.process_time() - between)
        ratios = [b / a for a, b in zip(seconds["launch"], seconds["check"], strict=True)]
        spreads = {name: measuring.Spread.of(values) for name, values in (*seconds.items(), ("ratio", ratios))}
        found.append({"name": record.name, "source": record.source, **spreads})
    return found


def check_table(found: list[dict[str, Any]], size: int) -> Any:
    """The table of `every_check`."""
    rows = [
        (row["name"], row["source"], row["launch"].text(1e3), row["check"].text(1e3), row["ratio"].text())
        for row in found
    ]
    return measuring.table(
        f"check at {size}^3: processor time",
        ("kernel", "written in", "launch, ms", "check, ms", "times as long"),
        rows,
        "median (least - most) of pairs",
    )


def checked(example: Run) -> Sequence[Instrument]:
    """The instruments of `check` for one more launch of a kernel."""
    checks = Checks()
    checks.started(CHECKED_BYTES)
    checks.allocated(GLOBAL_BASE, CHECKED_BYTES)
    checks.host_wrote(GLOBAL_BASE, CHECKED_BYTES)
    return checks.instruments(Launch(example.program.name, example.program, example.grid, example.block, 0))


def now() -> tuple[float, float]:
    """Seconds on the clock, and of processor time."""
    return time.perf_counter(), time.process_time()


def table(results: dict[str, Any]) -> Any:
    """The table of ratios."""
    ways = ("running", "whole", "processor")
    rows = [(name, *(results[way][name].text() for way in ways)) for name in results["running"]]
    title = f"{results['kernel']} at {results['size']}^3 on {results['threads']} host threads"
    plain = results["plain_seconds"].text(1e3)
    note = "" if results["verified"] else "; its product is WRONG"
    return measuring.table(
        f"{title}: {plain} ms without instruments{note}",
        ("times as long", "running", "whole", "whole, processor time"),
        rows,
        "median (least - most) of pairs",
    )


if __name__ == "__main__":
    main()
