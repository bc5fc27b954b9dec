"""How good the first choice of a kernel is: the ranking by estimate against the predicted times of all kernels.

Run from the root of the repository::

    python benchmarks/ranking.py --gpu h100 --dtype float32 1024x1024x1024 256x256x256

For each product: the first kernel by estimate, how much longer it takes than the quickest of all, and how much longer
the quickest of the first five takes; both by :mod:`tilewright.prediction`. A kernel's first prediction compiles and
translates it, which takes about ten seconds; `--keep FILE` keeps predicted times from run to run.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tilewright import machine
from tilewright.backends.ranking import Candidate, chosen
from tilewright.errors import TilewrightError
from tilewright.machine import Gpu
from tilewright.prediction.products import Product, predict_product
from tilewright.problem.dtypes import dtype
from tilewright.problem.kind import Kind

#: Large, small, few rows, many steps.
SHAPES = ("1024x1024x1024", "4096x4096x1024", "256x256x256", "64x4096x512", "16x16x2048")
_FEW = 5


def predicted(one: Candidate, m: int, n: int, k: int, gpu: Gpu) -> float | None:
    """Microseconds, or None if the model has no time for a kernel."""
    try:
        found = predict_product(one.record, Product(m, n, k, one.dtype), gpu, changes=False)
    except TilewrightError as error:
        print(f"  {one.record.name}: not predicted ({error})")
        return None
    return 1e6 * found.seconds


def main() -> None:
    """Print a row for each product."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--order", default="canonical")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="MxNxK")
    options = parser.parse_args()
    gpu, name = machine.gpu(options.gpu), dtype(options.dtype)
    kept: dict[str, float | None] = {}
    if options.keep and options.keep.exists():
        kept = json.loads(options.keep.read_text())
    kind = Kind(name.name, name.name, name.product, name.accumulator, order=options.order)
    print(f"{gpu.name}, {name.name}, {options.order}")
    print(f"{'m x n x k':<18}{'first':<22}{'over best':>10}{'of five':>9}  {'best':<22}{'kernels':>8}{'ranked in':>11}")
    for text in options.shapes:
        m, n, k = map(int, text.split("x"))
        start = time.perf_counter()
        order = chosen(kind, m, n, k, gpu, gpu.compute_capability).candidates
        ranked_ms, times = 1e3 * (time.perf_counter() - start), []
        for one in order:
            key = f"{gpu.key} {one.dtype} {text} {one.record.name}"
            if key not in kept:
                kept[key] = predicted(one, m, n, k, gpu)
                if options.keep:
                    options.keep.write_text(json.dumps(kept, indent=1))
            if (us := kept[key]) is not None:
                times.append((us, one.record.name))
        best = min(times)
        first, few = times[0], min(times[:_FEW])
        over, of_few = (f"{100 * (us / best[0] - 1):.0f} %" for us, _ in (first, few))
        print(
            f"{text:<18}{first[1]:<22}{over:>10}{of_few:>9}  {best[1]:<22}{len(times):>8}  ranked in {ranked_ms:.1f} ms"
        )


if __name__ == "__main__":
    main()
