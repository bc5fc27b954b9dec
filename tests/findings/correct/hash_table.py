"""A hash table with open addressing: the hash wraps in 32 bits on purpose, slots are claimed by compare-and-swap."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ unsigned hashed(unsigned key) {
    key ^= key >> 16;
    key *= 0x85ebca6bu;
    key ^= key >> 13;
    key *= 0xc2b2ae35u;
    return key ^ key >> 16;
}

__global__ void hash_table(const unsigned *keys, int count, unsigned *slots, unsigned *counts, unsigned capacity) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    for (unsigned at = hashed(keys[i]) % capacity;; at = (at + 1) % capacity) {
        const unsigned before = atomicCAS(&slots[at], 0u, keys[i]);
        if (before == 0 || before == keys[i]) {
            atomicAdd(&counts[at], 1u);
            break;
        }
    }
}
"""


def arguments(rng):
    keys = rng.integers(1, 60, 200).astype(np.uint32) * np.uint32(7919)
    return keys, 200, np.zeros(97, np.uint32), np.zeros(97, np.uint32), 97


def reference(keys, count, slots, counts, capacity):
    found, times = np.unique(keys, return_counts=True)
    return {2: np.pad(found, (97 - found.size, 0)), 3: np.pad(np.sort(times), (97 - found.size, 0))}


KERNEL = cuda_cpp(__file__, SOURCE, "hash_table")
CASES = (Case("hash_table", KERNEL, 4, 64, arguments, reference, settled=np.sort),)
