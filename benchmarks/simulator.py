"""How much faster the simulated GPU is than Numba's own CUDA simulator, on the same Python kernel.

The kernel is S2 corrected (`tiled`), float32, on cubes. Each pair is one run of Numba's simulator, in its own process
with NUMBA_ENABLE_CUDASIM=1, and twenty launches here, of which the median counts. A launch is the whole call: arguments
copied in and out, as Numba's does. Translation is excluded and stated separately. Both products are compared with the
canonical one: ours must be equal to it; Numba's simulator rounds each product, so its result is only close.

    python benchmarks/simulator.py [--size 64] [--pairs 3] [--json]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from tilewright import simt
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue

EDGE = 16  # of tiled's tile
LAUNCHES = 20  # of ours in a pair


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--size", type=int, default=64, help="m = n = k")
    parser.add_argument("--pairs", type=int, default=3, help="Numba's simulator takes about 10 s for each at 64")
    parser.add_argument("--serve-numba", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_numba:
        serve(options.size)
        return
    with tempfile.TemporaryDirectory() as folder:  # so that the first launch translates
        os.environ["TILEWRIGHT_CACHE_DIR"] = folder
        results = compare(options.size, options.pairs)
    ours, numba, ratio = results["ours_seconds"], results["numba_seconds"], results["ratio"]
    rows = [
        ("Numba's simulator, s", numba.text()),
        ("tilewright.simt.launch, ms", ours.text(1e3)),
        ("of which running blocks, ms", results["ours_running_seconds"].text(1e3)),
        ("ratio", ratio.text(form=",.0f")),
        ("translation, once, ms", f"{results['translate_seconds'] * 1e3:.0f}"),
        ("ours equals the canonical product", results["ours_equal"]),
        ("largest difference of Numba's simulator", f"{results['numba_largest_difference']:.1e}"),
    ]
    title = f"tiled, float32, {options.size}^3, {options.pairs} pairs: median (least - most)"
    measuring.publish(results, [measuring.table(title, ("", "host time"), rows)], as_json=options.json)


def compare(size: int, pairs: int) -> dict[str, Any]:
    """Run pairs, one of Numba's simulator and twenty of ours each."""
    record = catalogue.find("tiled")
    program, shape = record.program("float32"), record.launch_rule(size, size, size)
    a, b = operands(size, size, size, "float32")
    c = np.zeros((size, size), np.float32)
    arguments = record.arguments(a, b, c)
    first = simt.launch(program, shape.grid, shape.block, arguments)
    equal = bool((c == record.reference(a, b)).all())
    whole, running, numba, ratios, difference = [], [], [], [], 0.0
    with numba_simulator(size) as run_numba:
        for _ in range(pairs):
            seconds, difference = run_numba()
            launches = [timed_launch(program, shape, arguments) for _ in range(LAUNCHES)]
            numba.append(seconds)
            whole.append(measuring.Spread.of([wall for wall, _ in launches]).median)
            running.append(measuring.Spread.of([inside for _, inside in launches]).median)
            ratios.append(seconds / whole[-1])
    return {
        "size": size,
        "ours_seconds": measuring.Spread.of(whole),
        "ours_running_seconds": measuring.Spread.of(running),
        "numba_seconds": measuring.Spread.of(numba),
        "ratio": measuring.Spread.of(ratios),
        "translate_seconds": first.translate_seconds,
        "ours_equal": equal,
        "numba_largest_difference": difference,
    }


def timed_launch(program: object, shape: catalogue.LaunchShape, arguments: tuple[object, ...]) -> tuple[float, float]:
    """Seconds of the whole call, and of running blocks."""
    start = time.perf_counter()
    run = simt.launch(program, shape.grid, shape.block, arguments)
    return time.perf_counter() - start, run.seconds


@contextmanager
def numba_simulator(size: int) -> Iterator[Callable[[], tuple[float, float]]]:
    """A process in which Numba simulates; gives a function that runs the kernel there once."""
    command = [sys.executable, str(Path(__file__)), "--serve-numba", "--size", str(size)]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        requests, answers = process.stdin, process.stdout
        assert requests is not None and answers is not None

        def run() -> tuple[float, float]:
            requests.write("run\n")
            requests.flush()
            seconds, difference = answers.readline().split()
            return float(seconds), float(difference)

        yield run


def serve(size: int) -> None:
    """In the other process: run the kernel in Numba's simulator once for each line that arrives."""
    from numba import cuda

    from tilewright.multiply.kernels.tiled import tiled

    kernel = cuda.jit(tiled("float32", EDGE))
    a, b = operands(size, size, size, "float32")
    expected = catalogue.find("tiled").reference(a, b)
    blocks = -(-size // EDGE)
    for _ in sys.stdin:
        c = np.zeros((size, size), np.float32)
        start = time.perf_counter()
        kernel[(blocks, blocks), (EDGE, EDGE)](a, b, c)
        seconds = time.perf_counter() - start
        print(seconds, float(np.abs(c - expected).max()), flush=True)


if __name__ == "__main__":
    main()
