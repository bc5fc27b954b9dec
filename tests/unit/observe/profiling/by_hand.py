"""Well-known kernels whose memory traffic can be calculated by hand; see `test_by_hand.py`."""

from __future__ import annotations

from typing import Any

from numba import cuda, float32, float64, int32


def transpose_naive(a: Any, out: Any) -> None:
    x, y = cuda.grid(2)
    out[x, y] = a[y, x]  # move


def through_tile(element: Any, pitch: int) -> Any:
    """A transpose through a tile whose rows are `pitch` elements apart."""

    def transpose(a: Any, out: Any) -> None:
        tile = cuda.shared.array((32, pitch), element)
        x, y = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        tile[ty, tx] = a[y, x]
        cuda.syncthreads()
        out[cuda.blockIdx.x * 32 + ty, cuda.blockIdx.y * 32 + tx] = tile[tx, ty]  # move

    return transpose


transpose_tile = through_tile(float32, 32)
transpose_padded = through_tile(float32, 33)
transpose_doubles = through_tile(float64, 32)


def reduction(a: Any, out: Any) -> None:
    s = cuda.shared.array(256, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t] = a[i]
    cuda.syncthreads()
    step = 128
    while step:
        if t < step:  # part
            s[t] += s[t + step]  # add
        cuda.syncthreads()
        step //= 2
    if t == 0:  # last
        out[cuda.blockIdx.x] = s[0]


def stencil(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    if 0 < i < a.size - 1:
        out[i] = a[i - 1] + a[i] + a[i + 1]  # sum


def histogram(keys: Any, out: Any) -> None:
    s = cuda.shared.array(256, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, keys[i], 1)  # count
    cuda.syncthreads()
    cuda.atomic.add(out, t, s[t])  # total


def strided(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = a[8 * i]  # copy


def in_place(a: Any) -> None:
    i = cuda.grid(1)
    a[i] = 2 * a[i]  # double
