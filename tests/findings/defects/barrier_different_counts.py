"""Two warps name different numbers of threads for one barrier."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
__global__ void meet(const int *x, int *out) {
    __shared__ int tile[64];
    const int t = threadIdx.x;
    const int threads = COUNT;
    tile[t] = x[t];
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");  // finds: TW403
    out[t] = tile[63 - t];
}
"""


CASES = (
    Case(
        "different_counts",
        cuda_cpp(__file__, SOURCE, "meet", "-DCOUNT=32+t/32*32+32"),
        1,
        64,
        numbers(64),
        defective=True,
    ),
    Case("one_count", cuda_cpp(__file__, SOURCE, "meet", "-DCOUNT=blockDim.x"), 1, 64, numbers(64), backwards),
)
