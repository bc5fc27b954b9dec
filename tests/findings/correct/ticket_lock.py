"""Mutual exclusion by tickets: who draws a number waits until it is served."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void ticket_lock(unsigned *next, volatile unsigned *serving, int *log, int *length) {
    if (threadIdx.x == 0) {
        const unsigned ticket = atomicAdd(next, 1u);
        while (*serving != ticket) {
        }
        __threadfence();
        const int at = *length;
        log[at] = 100 * int(ticket) + at;
        *length = at + 1;
        __threadfence();
        *serving = ticket + 1;
    }
}
"""


def arguments(rng):
    return np.zeros(1, np.uint32), np.zeros(1, np.uint32), np.zeros(9, np.int32), np.zeros(1, np.int32)


def reference(turn, serving, log, length):
    return {0: [9], 1: [9], 2: 101 * np.arange(9), 3: [9]}


KERNEL = cuda_cpp(__file__, SOURCE, "ticket_lock")
CASES = (Case("ticket_lock", KERNEL, 9, 64, arguments, reference, unwritten=(2,)),)
