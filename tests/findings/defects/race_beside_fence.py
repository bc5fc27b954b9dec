"""A tile is read before the other warp has stored it, after a barrier, in a kernel that has a fence."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
template <bool together>
__global__ void stored_anew(const int *x, int *out) {
    __shared__ int tile[64];
    const int t = threadIdx.x;
    tile[t] = 0;
    __syncthreads();
    tile[t] = x[t];  // finds: TW301
    if (together) __syncthreads();
    out[t] = tile[63 - t];
    __threadfence();
}
"""

CASES = (
    Case("beside_fence", cuda_cpp(__file__, SOURCE, "stored_anew<false>"), 1, 64, numbers(64), defective=True),
    Case("beside_fence_and_barrier", cuda_cpp(__file__, SOURCE, "stored_anew<true>"), 1, 64, numbers(64), backwards),
)
