"""Compiled for debugging: a structure is copied twice and passed by value before one of its members is read.

The copies read what was never written, its padding in the clean twin too; that is no use. A use is found where it is.
"""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
struct Mixed {
    double weight;
    int count;
    unsigned char flag : 1;
    unsigned char kind : 6;
};

__device__ __noinline__ double weighted(Mixed mixed) {
    return mixed.weight * mixed.count + mixed.kind;  // finds: TW203
}

__global__ void weigh(double *out) {
    Mixed first;
    first.weight = 2;
    first.flag = 0;
    first.kind = 3;
#ifdef COUNTED
    first.count = threadIdx.x;
#endif
    Mixed second = first, third;
    third = second;
    out[threadIdx.x] = weighted(third);
}
"""


def arguments(rng):
    return (np.zeros(32),)


def reference(out):
    return {0: 2.0 * np.arange(32) + 3}


UNSET, SET = (cuda_cpp(__file__, SOURCE, "weigh", "-G", *options) for options in ((), ("-DCOUNTED",)))
CASES = (
    Case("member_unset_in_copy", UNSET, 1, 32, arguments, defective=True),
    Case("padding_unset_in_copy", SET, 1, 32, arguments, reference),
)
