"""Two warps wait at two barriers, each for the other."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
__global__ void halves(const int *x, int *out) {
    __shared__ int tile[64];
    const int t = threadIdx.x;
    tile[t] = x[t];
    if (t < 32) {
        asm volatile("bar.sync 1, 64;" ::: "memory");  // finds: TW401
    } else {
        asm volatile("bar.sync %0, 64;" ::"n"(OTHER) : "memory");  // finds: TW401
    }
    out[t] = tile[63 - t];
}
"""


CASES = (
    Case(
        "waiting_at_two_barriers", cuda_cpp(__file__, SOURCE, "halves", "-DOTHER=2"), 1, 64, numbers(64), defective=True
    ),
    Case("waiting_at_one_barrier", cuda_cpp(__file__, SOURCE, "halves", "-DOTHER=1"), 1, 64, numbers(64), backwards),
)
