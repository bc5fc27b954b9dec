"""Each thread waits for its own copies, and reads at once what others have copied."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include <cuda_pipeline.h>

template <bool own, bool barrier>
__global__ void reversed(const int *x, int *out) {
    __shared__ int tile[128];
    const int t = threadIdx.x, copied = own ? 127 - t : t;
    __pipeline_memcpy_async(&tile[copied], &x[copied], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (barrier) __syncthreads();
    out[t] = tile[127 - t];  // finds: TW306
}
"""

CASES = (
    Case("copy_no_barrier", cuda_cpp(__file__, SOURCE, "reversed<false, false>"), 1, 128, numbers(128), defective=True),
    Case("copy_own_elements", cuda_cpp(__file__, SOURCE, "reversed<true, false>"), 1, 128, numbers(128), backwards),
    Case("copy_barrier", cuda_cpp(__file__, SOURCE, "reversed<false, true>"), 1, 128, numbers(128), backwards),
)
