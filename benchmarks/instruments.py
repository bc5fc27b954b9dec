"""What instruments cost: corrected S2 with and without them, in pairs of launches one after the other.

A pair's ratio is of the host's seconds of running blocks. `whole` is what a user waits for: the whole call, with what
is made of the counts afterwards (for a profile the cache model too), over the whole call without instruments.
Arrays stay in simulated memory, and kernels are translated before.

    python benchmarks/instruments.py [--size 256] [--threads 2] [--rounds 15] [--json]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import measuring
import simt_speed

from tilewright import catalogue, machine, profiling
from tilewright.instruments import Banks, Coalescing, Divergence, Mix
from tilewright.simt.events import Instrument

#: What is measured, with the instruments of a launch.
CASES: dict[str, Callable[[], Sequence[Instrument]]] = {
    "mix": lambda: (Mix(),),
    "divergence": lambda: (Divergence(),),
    "banks": lambda: (Banks(),),
    "coalescing": lambda: (Coalescing(),),
    "coalescing, recording": lambda: (Coalescing(("global", "local"), record=True),),
    "profile": profiling.instruments,
}


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--size", type=int, default=256, help="m = n = k")
    parser.add_argument("--threads", type=int, default=2, help="host threads")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    results = measured(options.size, options.threads, options.rounds)
    measuring.publish(results, [table(results)], as_json=options.json)


def measured(size: int, threads: int, rounds: int) -> dict[str, Any]:
    """Times without instruments, and the ratios of pairs."""
    launch, verified = simt_speed.prepared(catalogue.find("tiled"), "float32", size, threads)
    gpu = machine.gpu("h100")
    for instruments in CASES.values():  # translate first
        launch(instruments())
    plain: list[float] = []
    running: dict[str, list[float]] = {name: [] for name in CASES}
    whole: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, instruments in CASES.items():
            start = time.perf_counter()
            without = launch().seconds
            between = time.perf_counter()
            run = launch(instruments())
            if name == "profile":
                profiling.of_run(run, gpu)
            end = time.perf_counter()
            plain.append(without)
            running[name].append(run.seconds / without)
            whole[name].append((end - between) / (between - start))
    return {
        "kernel": "tiled",
        "size": size,
        "threads": threads,
        "verified": verified,
        "plain_seconds": measuring.Spread.of(plain),
        "running": {name: measuring.Spread.of(values) for name, values in running.items()},
        "whole": {name: measuring.Spread.of(values) for name, values in whole.items()},
    }


def table(results: dict[str, Any]) -> Any:
    """The table of ratios."""
    rows = [(name, spread.text(), results["whole"][name].text()) for name, spread in results["running"].items()]
    title = f"{results['kernel']} at {results['size']}^3 on {results['threads']} host threads"
    plain = results["plain_seconds"].text(1e3)
    note = "" if results["verified"] else "; its product is WRONG"
    return measuring.table(
        f"{title}: {plain} ms without instruments{note}",
        ("instruments", "running, times as long", "whole, times as long"),
        rows,
        "median (least - most) of pairs",
    )


if __name__ == "__main__":
    main()
