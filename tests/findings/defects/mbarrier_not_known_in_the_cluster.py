"""Another block uses an mbarrier after a relaxed arrival, which does not make its initialisation visible."""

from case import Case, copied, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

template <bool fenced>
__global__ void __cluster_dims__(2, 1, 1) counted(const int *x, int *out) {
    __shared__ uint64_t bar;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) {
        INIT(&bar, 1);
        if (fenced) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    COME("relaxed");
    GO_ON();
    if (t == 32) ARRIVE_THERE("release", &bar);  // finds: TW406
    AWAIT(&bar, 0);
    out[i] = x[i];
    synchronise_cluster();
}
"""


CASES = (
    Case("init_not_known", cuda_cpp(__file__, SOURCE, "counted<false>"), 4, 64, numbers(256), defective=True),
    Case("init_known", cuda_cpp(__file__, SOURCE, "counted<true>"), 4, 64, numbers(256), copied),
)
