"""A list that threads build of what `new` and `malloc` give, and take down again; assertions that hold."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
struct Node {
    int value;
    Node *next;
};

__device__ int in_use = 0;

__global__ void squares(const int *counts, int *sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    Node *head = nullptr;
    for (int value = 1; value <= counts[i]; ++value) {
        head = new Node{value, head};
        assert(head != nullptr);
        atomicAdd(&in_use, 1);
    }
    int *table = static_cast<int *>(malloc(sizeof(int) * (counts[i] + 1)));
    assert(table != nullptr && "the heap is large enough");
    table[0] = 0;
    int at = 0;
    while (head != nullptr) {
        Node *done = head;
        head = head->next;
        table[at + 1] = table[at] + done->value * done->value;
        ++at;
        delete done;
        atomicSub(&in_use, 1);
    }
    assert(at == counts[i]);
    sums[i] = table[at];
    free(table);
}
"""


def arguments(rng):
    return rng.integers(0, 9, 70).astype(np.int32), np.zeros(70, np.int32), 70


def reference(counts, sums, n):
    return {1: [sum(v * v for v in range(1, count + 1)) for count in counts]}


CASES = (Case("squares", cuda_cpp(__file__, SOURCE, "squares"), 3, 32, arguments, reference, unwritten=(1,)),)
