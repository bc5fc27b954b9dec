"""Stores to tensor memory, and a relaxed arrival that tells others of them without a fence between."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool fenced>
__global__ void relaxed(float *out) {
    __shared__ alignas(8) unsigned long long all;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(in_shared(&all)) : "memory");
    BEGIN;
    STORE(own, 1.0f);
    STORED;
    if (fenced) asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    asm volatile("mbarrier.arrive.relaxed.cta.shared.b64 _, [%0];" ::"r"(in_shared(&all)) : "memory");  // finds: TW420
    AWAIT_AT(all, );
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    RESULT(out, own);
    FREE;
}
"""

CASES = on_b200(__file__, SOURCE, "relaxed<false>", "relaxed<true>", 1)
