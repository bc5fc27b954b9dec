"""A pointer that a loop has moved is given to `free`, which needs the one that malloc returned."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void squares(int *out, int n, int moved) {
    int *first = static_cast<int *>(malloc(n * sizeof(int)));
    if (first == nullptr) return;
    int *p = first, sum = 0;
    for (int i = 0; i < n; ++i) *p++ = i * i;
    for (int i = 0; i < n; ++i) sum += first[i];
    out[threadIdx.x] = sum;
    free(moved ? p - n / 2 : p - n);  // finds: TW111
}
"""


def arguments(moved):
    return lambda rng: (np.zeros(32, np.int32), 8, moved)


def reference(out, n, moved):
    return {0: [sum(i * i for i in range(n))] * 32}


KERNEL = cuda_cpp(__file__, SOURCE, "squares")
CASES = (
    Case("freed_in_the_middle", KERNEL, 1, 32, arguments(1), defective=True),
    Case("freed_at_the_start", KERNEL, 1, 32, arguments(0), reference),
)
