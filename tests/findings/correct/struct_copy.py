"""Structures with padding: fields are set one by one, and whole structures copied, padding and all."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
struct Item {
    signed char kind;
    int weight;
};

__global__ void struct_copy(const Item *items, Item *lightest) {
    __shared__ Item best[64];
    const int t = threadIdx.x;
    best[t].kind = items[t].kind;
    best[t].weight = items[t].weight;
    for (int half = 32; half > 0; half /= 2) {
        __syncthreads();
        if (t < half && best[t + half].weight < best[t].weight) {
            best[t] = best[t + half];
        }
    }
    if (t == 0) {
        *lightest = best[0];
    }
}
"""
ITEM = np.dtype([("kind", np.int8), ("weight", np.int32)], align=True)


def arguments(rng):
    items = np.zeros(64, ITEM)
    items["kind"] = rng.integers(-9, 9, 64)
    items["weight"] = rng.permutation(64)
    return items, np.zeros(1, ITEM)


def reference(items, lightest):
    return {1: items[items["weight"] == 0]}


KERNEL = cuda_cpp(__file__, SOURCE, "struct_copy")
CASES = (Case("struct_copy", KERNEL, 1, 64, arguments, reference, unwritten=(1,)),)
