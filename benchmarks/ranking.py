"""How good the first choices are: the ranking by estimate against the times of all kernels, tiles or block sizes.

Run from the root of the repository::

    python benchmarks/ranking.py --device simulated:h100 --dtype float32 1024x1024x1024 256x256x256
    python benchmarks/ranking.py --device cpu 512x512x512
    python benchmarks/ranking.py --device opencl 512x512x512

For each product: how much longer the first by estimate takes than the best of all, and how much longer the best of the
first five. On a simulated GPU times are predicted; a kernel's first prediction takes about ten seconds, and `--keep
FILE` keeps predicted times from run to run. On other devices all are measured in turns: half of the turns choose the
best of all and of the first five, and the other half compares these two, sample by sample, so that choosing by noise
does not count. The table has the median and quartiles of these ratios.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.ladder import operands
from tilewright.multiply.backends import inventory
from tilewright.multiply.backends.protocol import Choices
from tilewright.multiply.problem.dtypes import dtype
from tilewright.multiply.problem.kind import Kind
from tilewright.show.rates.tuner import FEW, predicted
from tilewright.show.rates.turns import Ready, Spread, turns

#: Large, small, few rows, many steps.
SHAPES = ("1024x1024x1024", "4096x4096x1024", "256x256x256", "64x4096x512", "16x16x2048")


def predicted_all(opened: Any, choices: Choices, extents: tuple[int, int, int], keep: Path | None) -> dict[int, float]:
    """Seconds of each kernel that the model has a time of."""
    kept = json.loads(keep.read_text()) if keep and keep.exists() else {}
    for one in choices.candidates:
        key = f"{opened.gpu.key} {one.dtype} {'x'.join(map(str, extents))} {one.record.name}"
        if key not in kept:
            try:
                kept[key] = 1e6 * predicted(one, extents, opened.gpu).seconds
            except TilewrightError as error:
                print(f"  {one.record.name}: not predicted ({error})")
                kept[key] = None
            if keep:
                keep.write_text(json.dumps(kept, indent=1))
    times = [kept[f"{opened.gpu.key} {one.dtype} {'x'.join(map(str, extents))} {one.record.name}"]
             for one in choices.candidates]  # fmt: skip
    return {at: 1e-6 * us for at, us in enumerate(times) if us is not None}


def measured(choices: Choices, extents: tuple[int, int, int], name: str, samples: int) -> np.ndarray:
    """Seconds of each choice (rows) in each turn; choices five times as slow as the best have none."""
    assert choices.prepare is not None
    a, b = operands(*extents, name)
    runs: list[Any] = [choices.prepare(at, a, b) for at in range(len(choices.ranking))]
    ready = [Ready(run, run, run if run() is not None else None) for run in runs]
    least = np.array(turns(ready, 3).samples).min(axis=1)
    near = [at for at in range(len(ready)) if least[at] < 5 * least.min()]
    found = np.full((len(ready), samples), np.inf)
    found[near] = turns([ready[at] for at in near], samples).samples
    return found


def compared(found: np.ndarray, one: Sequence[int]) -> Spread:
    """How much longer the best of some choices takes than the best of all, by the turns that did not choose them."""
    chosen, judged = found[:, ::2], found[:, 1::2]
    medians = np.median(chosen, axis=1)
    best, some = int(np.argmin(medians)), min(one, key=lambda at: medians[at])
    return Spread.of(list(judged[some] / judged[best] - 1))


def main() -> None:
    """Print a row for each product."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="simulated:h100")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--order", default="canonical")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--all", action="store_true", help="the times of each choice too")
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="MxNxK")
    options = parser.parse_args()
    opened: Any = inventory.for_plans(options.device)
    name = dtype(options.dtype)
    kind = Kind(name.name, name.name, name.product, name.accumulator, order=options.order)
    print(f"{opened.name}, {name.name}, {options.order}")
    print(f"{'m x n x k':<18}{'first over best':>24}{'of five over best':>24}  of all  best")
    for text in options.shapes:
        m, n, k = map(int, text.split("x"))
        choices = opened.choices(kind, (m, n, k))
        if choices.prepare is None:
            times = predicted_all(opened, choices, (m, n, k), options.keep)
            found = np.array([[times.get(at, np.inf)] * 2 for at in range(len(choices.ranking))])
        else:
            found = measured(choices, (m, n, k), kind.a, options.samples)
        timed = [at for at in range(len(found)) if np.isfinite(found[at, 0]) or choices.prepare is not None]
        first, few = (compared(found, timed[:count]) for count in (1, FEW))
        row = "".join(f"{f'{100 * x.median:.1f} ({100 * x.low:.1f} - {100 * x.high:.1f}) %':>24}" for x in (first, few))
        best = choices.ranking[int(np.argmin(np.median(found, axis=1)))].name
        print(f"{text:<18}{row}{len(timed):>8}  {best}", flush=True)
        for one, seconds in zip(choices.ranking, found, strict=True) if options.all else ():
            print(f"    {one.name:<52}{1e3 * one.seconds:9.3f} ms estimated {1e3 * np.median(seconds):9.3f} ms")


if __name__ == "__main__":
    main()
