"""Connected components: trees of parents that blocks join by atomics while others climb them."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ int root(const volatile int *parent, int vertex) {
    int above = parent[vertex];
    while (above != vertex) {
        vertex = above;
        above = parent[vertex];
    }
    return vertex;
}

__global__ void union_find(const int *from, const int *to, int edges, int *parent) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= edges) {
        return;
    }
    int a = root(parent, from[i]), b = root(parent, to[i]);
    while (a != b) {
        const int low = min(a, b), high = max(a, b);
        const int before = atomicMin(&parent[high], low);
        if (before == high) {
            break;
        }
        a = root(parent, before);
        b = root(parent, low);
    }
}
"""


def arguments(rng):
    ends = (rng.integers(0, 150, 110).astype(np.int32) for _ in range(2))
    return *ends, 110, np.arange(150, dtype=np.int32)


def reference(start, end, edges, parent):
    label = parent.copy()
    for _ in range(150):
        low = np.minimum(label[start], label[end])
        np.minimum.at(label, start, low)
        np.minimum.at(label, end, low)
    return {3: label}


def roots(parent):
    """The root of each vertex, whatever tree the order of joining left."""
    for _ in range(150):
        parent = parent[parent]
    return parent


KERNEL = cuda_cpp(__file__, SOURCE, "union_find")
CASES = (Case("union_find", KERNEL, 4, 32, arguments, reference, settled=roots),)
