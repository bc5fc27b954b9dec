"""S2 as published: shared-memory tiles with every defect of the original. A specimen: do not use it.

Its defects (numba issues 7324, 5620, 6884), each of which a checker must find:

- the exit guard joins its tests with `and` where `or` was meant, so edge threads read and write out of bounds;
- with `or`, the early return would leave threads missing at the barrier;
- edge tiles are not filled, so shapes that are no multiple of 16 are wrong;
- the k loop runs `gridDim.x` times, which says how many rows C has, not how many columns A has;
- tiles are indexed `[tx, ty]` with tx fastest, so neighbouring lanes stride through global and shared memory;
- the sum is float64, and the tiles are float32 whatever the operands are.

It is right only where m, n and k are multiples of 16 and k equals m.
"""

from typing import Any

from numba import cuda, float32

TPB = 16


def tiled_published(A: Any, B: Any, C: Any) -> None:
    """Multiply A (m, k) by B (k, n) into C (m, n); blocks of (16, 16), grid (ceil(m / 16), ceil(n / 16))."""
    sA = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    sB = cuda.shared.array(shape=(TPB, TPB), dtype=float32)

    x, y = cuda.grid(2)

    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    steps = cuda.gridDim.x

    if x >= C.shape[0] and y >= C.shape[1]:
        return

    total = 0.0
    for i in range(steps):
        sA[tx, ty] = A[x, ty + i * TPB]
        sB[tx, ty] = B[tx + i * TPB, y]

        cuda.syncthreads()

        for j in range(TPB):
            total += sA[tx, j] * sB[j, ty]

        cuda.syncthreads()

    C[x, y] = total
