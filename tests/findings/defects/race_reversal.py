"""A block is reversed through shared memory without a barrier between the store and the load."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
template <bool barrier>
__global__ void reversed(const int *x, int *out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];  // finds: TW301
    if (barrier) __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""

CASES = (
    Case("no_barrier", cuda_cpp(__file__, SOURCE, "reversed<false>"), 1, 64, numbers(64), defective=True),
    Case("barrier", cuda_cpp(__file__, SOURCE, "reversed<true>"), 1, 64, numbers(64), backwards),
)
