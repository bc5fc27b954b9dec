// One thread per element of C, which reads global memory directly, in 1-D blocks that cover EDGE x EDGE elements.
// With COALESCED the column follows threadIdx.x: the lanes of a warp read neighbouring elements of B and one of A.
// Without it the row follows threadIdx.x: each lane reads and writes a row of its own, which is right but slow.

template <int EDGE, bool COALESCED>
__global__ void __launch_bounds__(EDGE * EDGE)
    one_element(const float *a, const float *b, float *c, int m, int n, int k) {
    const int fast = threadIdx.x % EDGE;
    const int slow = threadIdx.x / EDGE;
    const int row = blockIdx.y * EDGE + (COALESCED ? slow : fast);
    const int column = blockIdx.x * EDGE + (COALESCED ? fast : slow);
    if (row >= m || column >= n) {
        return;
    }
    float sum = 0;
    for (int l = 0; l < k; ++l) {
        sum = fmaf(a[row * k + l], b[l * n + column], sum);
    }
    c[row * n + column] = sum;
}
