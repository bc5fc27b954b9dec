// Each thread computes TM elements of one column of C, one below the other. A block owns BM x BN elements and walks k
// in steps of BK. The inner loop reads one element of B's tile into a register, and uses it for TM multiply-adds.

template <int BM, int BN, int BK, int TM>
__global__ void __launch_bounds__(BM *BN / TM, 2)
    thread_tile_1d(const float *a, const float *b, float *c, int m, int n, int k) {
    constexpr int THREADS = BM * BN / TM;
    static_assert(BM % TM == 0 && BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "tiles must divide evenly");

    __shared__ float tile_a[BM][BK];
    __shared__ float tile_b[BK][BN];

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    const int row = threadIdx.x / BN * TM;
    const int column = threadIdx.x % BN;

    float sums[TM] = {};
    for (int start = 0; start < k; start += BK) {
        // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
#pragma unroll
        for (int step = 0; step < BM * BK / THREADS; ++step) {
            const int y = (step * THREADS + threadIdx.x) / BK;
            const int x = threadIdx.x % BK;
            tile_a[y][x] = top + y < m && start + x < k ? a[(top + y) * k + start + x] : 0.0f;
        }
#pragma unroll
        for (int step = 0; step < BK * BN / THREADS; ++step) {
            const int y = (step * THREADS + threadIdx.x) / BN;
            const int x = threadIdx.x % BN;
            tile_b[y][x] = start + y < k && left + x < n ? b[(start + y) * n + left + x] : -0.0f;
        }
        __syncthreads();

#pragma unroll
        for (int l = 0; l < BK; ++l) {
            const float element = tile_b[l][column];
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                sums[i] = fmaf(tile_a[row + i][l], element, sums[i]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        if (top + row + i < m && left + column < n) {
            c[(top + row + i) * n + left + column] = sums[i];
        }
    }
}
