"""One launch for a batch against one for each of its products: predicted times on a simulated GPU.

Run from the root of the repository::

    python benchmarks/batches.py --gpu h100 128x64x128 --batch 128 --dtype float32 --dtype float16

For each dtype (halves with `order="fast"`) and each of the first kernels by estimate that take a batch: the estimated
and the predicted time of the batch in one launch, and the predicted time of as many launches of one product, by the
kernel that is first for one. A kernel's first prediction takes seconds to tens of seconds. Times include a launch's.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import machine
from tilewright.machine import Gpu
from tilewright.multiply.backends import ranking
from tilewright.multiply.backends.estimates import Candidate
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind


def predicted(one: Candidate, batch: int, extents: tuple[int, int, int], gpu: Gpu) -> float:
    """Seconds of one launch of a kernel for a batch."""
    m, n, k = extents
    lead = (1, batch) if batch > 1 else ()
    a, b = (np.zeros((*lead, *shape), element(one.dtype).numpy) for shape in ((m, k), (k, n)))
    c = np.zeros((*lead, m, n), element(one.made).numpy)
    shape = one.record.launch_rule(m, n, k, batch)
    program: Any = one.program(gpu.compute_capability, batch=batch > 1)
    given = one.record.arguments(a, b, c)
    return tw.predict(program, shape.grid, shape.block, given, shared_bytes=shape.shared_bytes, gpu=gpu.key).seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="?", default="128x64x128", help="MxKxN")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--dtype", action="append")
    parser.add_argument("--few", type=int, default=2, help="kernels to predict")
    asked = parser.parse_args()
    gpu, (m, k, n) = machine.gpu(asked.gpu), map(int, asked.shape.split("x"))
    for name in asked.dtype or ["float32", "float16"]:
        kind = Kind(*[name] * 3, element(name).accumulator, order="fast" if element(name).bytes == 2 else "canonical")
        alone, many = (ranking.chosen(kind, m, n, k, gpu, gpu.compute_capability, batch=x) for x in (1, asked.batch))
        each = predicted(alone.best, 1, (m, n, k), gpu)
        print(f"{name}: {asked.batch} launches of {alone.best.record.name}: {1e6 * asked.batch * each:.1f} us")
        for one, told in zip(many.candidates[: asked.few], many.ranking, strict=False):
            if "batch" in one.record.takes:
                seconds = predicted(one, asked.batch, (m, n, k), gpu)
                print(f"  {told.name:20} estimated {1e6 * told.seconds:7.1f} us, predicted {1e6 * seconds:7.1f} us")


if __name__ == "__main__":
    main()
