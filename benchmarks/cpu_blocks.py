"""Blocks of the CPU engine: the ranking by estimate against the measured times of all.

Run from the root of the repository, on an idle host::

    python benchmarks/cpu_blocks.py --dtype float32 1000x1000x1000

For each product: how much longer than the best of all the first by estimate takes, and the quickest of the first five.
"""

from __future__ import annotations

import argparse

from tilewright.problem.dtypes import dtype
from tilewright.problem.kind import Kind
from tilewright.rates.cpu_blocks import Bench

SHAPES = ("512x512x512", "1000x1000x1000", "2048x512x2048", "300x4000x600")
_FEW = 5


def main() -> None:
    """Print a row for each product."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--all", action="store_true", help="Each choice's times too.")
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="MxNxK")
    options = parser.parse_args()
    name = dtype(options.dtype)
    kind = Kind(name.name, name.name, name.product, name.accumulator)
    for text in options.shapes:
        m, n, k = map(int, text.split("x"))
        bench = Bench((m, n, k), kind)
        times = [one.seconds for one in bench.measured(bench.choices)]
        over = [100 * (seconds / min(times) - 1) for seconds in (times[0], min(times[:_FEW]))]
        print(f"{text:<16}{name.name:<10}first {over[0]:5.1f} %   of five {over[1]:5.1f} %   of {len(times)}")
        for one, seconds in zip(bench.choices, times, strict=True) if options.all else ():
            print(f"    {one.blocks!s:<36}{1e3 * one.ranked.seconds:9.3f} ms estimated {1e3 * seconds:9.3f} ms")


if __name__ == "__main__":
    main()
