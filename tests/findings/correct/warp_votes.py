"""Votes, matches and shuffles in every direction, by whole warps and by the lanes that took a branch."""

import numpy as np
from case import Case
from numba import cuda

FULL = 0xFFFFFFFF


@cuda.jit
def warp_votes(x, out):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    value = x[i]
    out[0, i] = cuda.ballot_sync(FULL, value > 3)
    out[1, i] = cuda.match_any_sync(FULL, value)
    out[2, i] = cuda.any_sync(FULL, value == 7) + 2 * cuda.all_sync(FULL, value < 8)
    out[3, i] = cuda.shfl_sync(FULL, value, 31 - lane) + 10 * cuda.shfl_xor_sync(FULL, value, 5)
    if lane % 2 == 0:
        out[4, i] = cuda.ballot_sync(0x55555555, value > 3)
    else:
        out[4, i] = cuda.popc(cuda.activemask())


def arguments(rng):
    return rng.integers(0, 8, 64).astype(np.int32), np.zeros((5, 64), np.uint32)


def reference(x, out):
    w = x.reshape(2, 32)
    bits = np.int64(1) << np.arange(32)
    ballot = np.repeat(((w > 3) * bits).sum(axis=1), 32)
    match = ((w[:, :, None] == w[:, None, :]) * bits).sum(axis=2).ravel()
    some = np.repeat((w == 7).any(axis=1) + 2 * (w < 8).all(axis=1), 32)
    moved = (w[:, ::-1] + 10 * w[:, np.arange(32) ^ 5]).ravel()
    odd = np.where(np.arange(64) % 2, 16, ballot & 0x55555555)
    return {1: [ballot, match, some, moved, odd]}


CASES = (Case("warp_votes", warp_votes, 1, 64, arguments, reference, unwritten=(1,)),)
