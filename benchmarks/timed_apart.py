"""Rates of `tilewright bench` against those of Python's `timeit`, which shares no code with it.

Pairs of processes take turns, so other load slows both; the ratio of a pair is bench's median time over
timeit's. Cold caches have no counterpart in timeit.

    python benchmarks/timed_apart.py [--sizes 16,64,256,512] [--dtypes float32,int8] [--pairs 9] [--threads 1] [--json]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import measuring
from measuring import Spread

CONTENDERS = {"matmul": "tw.matmul", "numpy": "np.matmul"}
#: Prints the median seconds of a product; arguments are the function, the extent and the dtype.
TIMEIT = """
import statistics, sys, timeit
import numpy as np, tilewright as tw
multiply, n, dtype = eval(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
random = np.random.default_rng(7)
a, b = ((100 * random.uniform(-1, 1, (n, n))).astype(dtype) for _ in range(2))
timer = timeit.Timer("multiply(a, b)", globals=globals())
number, seconds = timer.autorange()
count = max(1, round(0.001 * number / seconds))
print(statistics.median(timer.repeat(101, count)) / count)
"""


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--sizes", default="16,64,256,512")
    parser.add_argument("--dtypes", default="float32,int8")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", default="1")
    options = parser.parse_args()
    os.environ["TILEWRIGHT_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = options.threads
    rows: list[dict[str, Any]] = []
    for dtype in options.dtypes.split(","):
        for size in options.sizes.split(","):
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTENDERS}
            for _ in range(options.pairs):
                ours = bench(size, dtype)
                for name, function in CONTENDERS.items():
                    found[name].append((ours[name], timed(function, size, dtype)))
            for name, pairs in found.items():
                ratio = Spread.of([mine / theirs for mine, theirs in pairs])
                times = [Spread.of(one) for one in zip(*pairs, strict=True)]
                rows.append({"contender": name, "dtype": dtype, "size": size, "times": times, "ratio": ratio})
    columns = ("contender", "dtype", "size", "bench, us", "timeit, us", "bench / timeit")
    cells = [
        (row["contender"], row["dtype"], row["size"], *(t.text(1e6) for t in row["times"]), row["ratio"].text())
        for row in rows
    ]
    table = measuring.table(f"Time of a product, {options.pairs} pairs: median (least - most)", columns, cells)
    measuring.publish({"rows": rows}, [table], as_json=options.json)


def bench(size: str, dtype: str) -> dict[str, float]:
    """Seconds by contender."""
    words = ["bench", "--sizes", size, "--dtypes", dtype, "--json"]
    found = json.loads(output([sys.executable, "-m", "tilewright", *words]))["rates"]
    return {rate["contender"]: rate["seconds"] for rate in found}


def timed(function: str, size: str, dtype: str) -> float:
    """Seconds by timeit."""
    return float(output([sys.executable, "-c", TIMEIT, function, size, dtype]))


def output(line: list[str]) -> str:
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
