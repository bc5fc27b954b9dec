"""Sums in registers, the first of which is never set to zero."""

from case import Case, cuda_cpp, doubled, numbers

SOURCE = r"""
template <int FIRST>
__global__ void sums(const int *x, int *out) {
    int sum[4];
    for (int i = FIRST; i < 4; ++i)
        sum[i] = 0;
    for (int step = 0; step < 2; ++step)
        for (int i = 0; i < 4; ++i)
            sum[i] += x[4 * threadIdx.x + i];  // finds: TW203
    for (int i = 0; i < 4; ++i)
        out[4 * threadIdx.x + i] = sum[i];
}
"""
CASES = (
    Case("sums_from_the_second", cuda_cpp(__file__, SOURCE, "sums<1>"), 1, 64, numbers(256), defective=True),
    Case("sums_from_the_first", cuda_cpp(__file__, SOURCE, "sums<0>"), 1, 64, numbers(256), doubled),
)
