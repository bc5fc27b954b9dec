"""Whether `tilewright compare` flags code that did not change, and finds code that became slower.

Each sweep is its own process. Pairs of sweeps of unchanged code must not be flagged; pairs whose second sweep
multiplies more rows than requested must be.

    python benchmarks/comparing.py [--pairs 20] [--slowed 1.5] [--sizes 64,256] [--against numpy] [--json]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from tilewright.show.rates import store, sweeping
from tilewright.show.rates.compare import Comparison, compare


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--slowed", type=float, default=1.5, help="rows of the slowed product over those asked for")
    parser.add_argument("--contenders", default="unchanged,slowed")
    parser.add_argument("--sizes", default="64,256")
    parser.add_argument("--against", default="numpy")
    parser.add_argument("--sweep", type=Path, help="only make a sweep, into this file")
    options = parser.parse_args()
    if options.sweep is not None:
        sweep(options)
        return
    rows, verdicts = [], []
    for name, factor in {"unchanged": 1.0, "slowed": options.slowed}.items():
        if name not in options.contenders.split(","):
            continue
        found = [pair(options, factor) for _ in range(options.pairs)]
        flagged = sum(bool(one.regressed) for one in found)
        counted = Counter(f"{point.new.point.m}: {point.verdict}" for one in found for point in one.points)
        rows.append((name, f"{flagged} of {len(found)}", ", ".join(f"{k} {v}" for k, v in sorted(counted.items()))))
        verdicts.append({"contender": name, "flagged": flagged, "pairs": len(found), "verdicts": counted})
    table = measuring.table("Pairs of sweeps that compare calls slower", ("contender", "flagged", "points"), rows)
    measuring.publish({"pairs": verdicts}, [table], as_json=options.json)


def pair(options: Any, factor: float) -> Comparison:
    """Two sweeps in their own processes; the second is slowed."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{name}.jsonl" for name in ("old", "new")]
        for path, slowed in zip(files, (1.0, factor), strict=True):
            given = ["--sweep", path, "--slowed", slowed, "--sizes", options.sizes, "--against", options.against]
            line = [sys.executable, __file__, *map(str, given)]
            subprocess.run(line, check=True, stdout=subprocess.PIPE)
        return compare(*map(store.read, files))


def sweep(options: Any) -> None:
    """`tilewright bench`, with a slowed `tw.matmul`."""
    from tilewright.cli.main import main as tilewright

    matmul = sweeping.matmul

    def slowed(a: Any, b: Any) -> Any:
        more = np.resize(a, (round(options.slowed * len(a)), a.shape[1]))
        return matmul(more, b)[: len(a)]

    if options.slowed > 1:
        sweeping.matmul = slowed
    words = ["--sizes", options.sizes, "--against", options.against, "--output", str(options.sweep)]
    sys.argv = ["tilewright", "bench", *words]
    tilewright()


if __name__ == "__main__":
    main()
