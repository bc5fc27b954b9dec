"""A bulk copy brings to global memory what another block of the cluster has stored, and no proxy fence came between."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

enum { NONE, THERE, HERE };

template <int fenced>
__global__ void __cluster_dims__(2, 1, 1) stored_there(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    synchronise_cluster();
    STORE_THERE(&tile[t], x[i]);
    if (fenced == THERE) asm volatile("fence.proxy.async;" ::: "memory");
    synchronise_cluster();
    if (fenced == HERE) FENCE_PROXY;
    __syncthreads();
    if (t == 0) {
        STORE_BULK(out + blockIdx.x * 64, tile, 256);  // finds: TW412
        COMMIT_BULK;
        WAIT_BULK();
    }
}
"""


CASES = (
    Case("not_fenced", cuda_cpp(__file__, SOURCE, "stored_there<NONE>"), 4, 64, numbers(256), defective=True),
    Case("fenced_by_writer", cuda_cpp(__file__, SOURCE, "stored_there<THERE>"), 4, 64, numbers(256), swapped),
    Case("fenced_by_reader", cuda_cpp(__file__, SOURCE, "stored_there<HERE>"), 4, 64, numbers(256), swapped),
)
