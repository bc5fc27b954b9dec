"""How fast the simulated GPU runs S2, the tiled product in Python, as other authors write it.

The kernels differ from the catalogue's `tiled` in how they count tiles and fill edge tiles. All are launched in turns
in optimised code; `tiled` is compared with NumPy, and the others with `tiled`. Rates are the host's.

    python benchmarks/tiles_of_others.py [--size 512] [--rounds 9] [--json]
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# ruff: noqa: N803
from __future__ import annotations

import time
from typing import Any

import measuring
import numpy as np
from numba import cuda, float32

from tilewright import simt
from tilewright.ladder import operands
from tilewright.multiply.kernels.tiled import tiled

EDGE = 16


@cuda.jit
def conditional_expressions(A, B, C):
    a = cuda.shared.array((EDGE, EDGE), float32)
    b = cuda.shared.array((EDGE, EDGE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range((A.shape[1] + EDGE - 1) // EDGE):
        a[ty, tx] = A[y, tile * EDGE + tx] if y < A.shape[0] and tile * EDGE + tx < A.shape[1] else float32(0)
        b[ty, tx] = B[tile * EDGE + ty, x] if x < B.shape[1] and tile * EDGE + ty < B.shape[0] else float32(0)
        cuda.syncthreads()
        for step in range(EDGE):
            total += a[ty, step] * b[step, tx]
        cuda.syncthreads()
    if y < C.shape[0] and x < C.shape[1]:
        C[y, x] = total


@cuda.jit
def zeros_first(A, B, C):
    a = cuda.shared.array((EDGE, EDGE), float32)
    b = cuda.shared.array((EDGE, EDGE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range((A.shape[1] + EDGE - 1) // EDGE):
        a[ty, tx] = 0
        b[ty, tx] = 0
        if y < A.shape[0] and tile * EDGE + tx < A.shape[1]:
            a[ty, tx] = A[y, tile * EDGE + tx]
        if x < B.shape[1] and tile * EDGE + ty < B.shape[0]:
            b[ty, tx] = B[tile * EDGE + ty, x]
        cuda.syncthreads()
        for step in range(EDGE):
            total += a[ty, step] * b[step, tx]
        cuda.syncthreads()
    if y < C.shape[0] and x < C.shape[1]:
        C[y, x] = total


@cuda.jit
def unguarded(A, B, C):
    a = cuda.shared.array((EDGE, EDGE), float32)
    b = cuda.shared.array((EDGE, EDGE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range(A.shape[1] // EDGE):
        a[ty, tx] = A[y, tile * EDGE + tx]
        b[ty, tx] = B[tile * EDGE + ty, x]
        cuda.syncthreads()
        for step in range(EDGE):
            total += a[ty, step] * b[step, tx]
        cuda.syncthreads()
    C[y, x] = total


def main() -> None:
    options = measuring.arguments_of_speed(__doc__, size=512, rounds=9).parse_args()
    size, edges = options.size, -(-options.size // EDGE)
    kernels = {"tiled (the catalogue's)": cuda.jit(tiled("float32", EDGE))}
    kernels |= {kernel.py_func.__name__: kernel for kernel in (conditional_expressions, zeros_first)}
    if size % EDGE == 0:
        kernels["unguarded"] = unguarded
    a, b = operands(size, size, size, "float32")
    limits = simt.Limits(threads=options.threads)
    product = np.zeros((size, size), np.float32)
    simt.launch(kernels["tiled (the catalogue's)"], (edges, edges), (EDGE, EDGE), [a, b, product], limits=limits)
    assert np.allclose(product, a @ b, atol=1e-3)
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    for turn in range(options.rounds + 1):
        for name, kernel in kernels.items():
            c = np.zeros((size, size), np.float32)
            start = time.process_time()
            simt.launch(kernel, (edges, edges), (EDGE, EDGE), [a, b, c], limits=limits)
            if turn:  # the first launch compiles
                seconds[name].append(time.process_time() - start)
            assert np.array_equal(c, product), name
    rates = {n: measuring.Spread.of([2e-9 * size**3 * options.threads / s for s in t]) for n, t in seconds.items()}
    ours = rates["tiled (the catalogue's)"].median
    rows: list[tuple[Any, ...]] = [(n, r.stacked(1, ",.3g"), f"{r.median / ours:.2f}") for n, r in rates.items()]
    title = f"S2 at {size}^3 by processor time on {options.threads} host threads"
    table = measuring.table(title, ("kernel", "host\nGFLOPS", "of ours"), rows, "median, least-most")
    measuring.publish({"size": size, "host_gflops": rates}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
