"""A device function that calls itself, a different number of times in each thread."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ __noinline__ int ways(const int *coins, int kinds, int amount) {
    if (amount == 0) {
        return 1;
    }
    if (amount < 0 || kinds == 0) {
        return 0;
    }
    return ways(coins, kinds - 1, amount) + ways(coins, kinds, amount - coins[kinds - 1]);
}

__global__ void recursion(const int *coins, int kinds, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = ways(coins, kinds, i);
    }
}
"""


def arguments(rng):
    return np.array([2, 5, 7], np.int32), 3, np.zeros(40, np.int32), 40


def reference(coins, kinds, out, n):
    ways = np.eye(1, n, dtype=np.int64)[0]
    for coin in coins:
        for amount in range(coin, n):
            ways[amount] += ways[amount - coin]
    return {2: ways}


KERNEL = cuda_cpp(__file__, SOURCE, "recursion")
CASES = (Case("recursion", KERNEL, 1, 64, arguments, reference, unwritten=(2,)),)
