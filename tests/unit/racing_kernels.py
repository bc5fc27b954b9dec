"""Kernels with a race, each with its clean twin: `mended` says which line the twin adds a barrier after."""

from __future__ import annotations

from numba import cuda, float32, int32

T = 64


@cuda.jit
def by_for(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(0, a.size, T):  # loop
        tile[t] = a[k + t]  # write
        cuda.syncthreads()
        for i in range(8):  # inner
            total += tile[(t + 8 * i) % T]  # read
    c[t] = total


@cuda.jit
def by_for_mended(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(0, a.size, T):
        tile[t] = a[k + t]
        cuda.syncthreads()
        for i in range(8):
            total += tile[(t + 8 * i) % T]
        cuda.syncthreads()
    c[t] = total


@cuda.jit
def by_while(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    k = 0
    while k < a.size:  # loop
        tile[t] = a[k + t]  # write
        cuda.syncthreads()
        total += tile[T - 1 - t]  # read
        k += T
    c[t] = total


@cuda.jit
def by_while_mended(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    k = 0
    while k < a.size:
        tile[t] = a[k + t]
        cuda.syncthreads()
        total += tile[T - 1 - t]
        cuda.syncthreads()
        k += T
    c[t] = total


@cuda.jit
def unrolled(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(4):  # loop
        tile[t] = a[k * T + t]  # write
        cuda.syncthreads()
        total += tile[T - 1 - t]  # read
    c[t] = total


@cuda.jit
def unrolled_mended(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(4):
        tile[t] = a[k * T + t]
        cuda.syncthreads()
        total += tile[T - 1 - t]
        cuda.syncthreads()
    c[t] = total


@cuda.jit
def double_buffered(a, c):
    tile = cuda.shared.array((2, T), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    tile[0, t] = a[t]
    cuda.syncthreads()
    for k in range(1, a.size // T):  # loop
        total += tile[(k - 1) % 2, T - 1 - t]  # read
        tile[k % 2, t] = a[k * T + t]  # write
    cuda.syncthreads()
    c[t] = total + tile[1, T - 1 - t]


@cuda.jit
def double_buffered_mended(a, c):
    tile = cuda.shared.array((2, T), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    tile[0, t] = a[t]
    cuda.syncthreads()
    for k in range(1, a.size // T):
        total += tile[(k - 1) % 2, T - 1 - t]
        tile[k % 2, t] = a[k * T + t]
        cuda.syncthreads()
    c[t] = total + tile[1, T - 1 - t]


@cuda.jit(device=True)
def load(tile, a, k):
    t = cuda.threadIdx.x
    tile[t] = a[k + t]


@cuda.jit(device=True)
def turned(tile):
    return tile[T - 1 - cuda.threadIdx.x]


@cuda.jit
def called(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(0, a.size, T):  # loop
        load(tile, a, k)  # write
        cuda.syncthreads()
        total += turned(tile)  # read
    c[t] = total


@cuda.jit
def called_mended(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(0, a.size, T):
        load(tile, a, k)
        cuda.syncthreads()
        total += turned(tile)
        cuda.syncthreads()
    c[t] = total


@cuda.jit
def straight(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    if t < T - 4:  # if
        tile[t] = a[t]
    else:
        tile[t] = 0  # write
    c[t] = tile[T - 1 - t]  # read


@cuda.jit
def straight_mended(a, c):
    tile = cuda.shared.array(T, float32)
    t = cuda.threadIdx.x
    if t < T - 4:
        tile[t] = a[t]
    else:
        tile[t] = 0
    cuda.syncthreads()
    c[t] = tile[T - 1 - t]


@cuda.jit
def tree(a, c):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    part[t] = a[t]
    part[t + T] = a[t + T]
    cuda.syncthreads()
    stride = T
    while stride > 0:  # loop
        if t < stride:  # if
            part[t] += part[t + stride]  # write
        stride //= 2
    if t == 0:
        c[0] = part[0]


@cuda.jit
def tree_mended(a, c):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    part[t] = a[t]
    part[t + T] = a[t + T]
    cuda.syncthreads()
    stride = T
    while stride > 0:
        if t < stride:
            part[t] += part[t + stride]
        cuda.syncthreads()
        stride //= 2
    if t == 0:
        c[0] = part[0]


@cuda.jit
def histogram(a, c):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    bins[t % 8] += 1  # write
    cuda.syncthreads()
    if t < 8:
        c[t] = bins[t]


@cuda.jit
def histogram_mended(a, c):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, t % 8, 1)
    cuda.syncthreads()
    if t < 8:
        c[t] = bins[t]
