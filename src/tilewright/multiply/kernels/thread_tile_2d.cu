// Each thread computes TM x TN neighbouring elements of C. A block owns BM x BN elements and walks k in steps of BK. A
// step of the inner loop reads TM elements of A's tile and TN of B's for TM * TN multiply-adds: their outer product.

template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM *BN / (TM * TN), 2)
    thread_tile_2d(const float *a, const float *b, float *c, int m, int n, int k) {
    constexpr int THREADS = BM * BN / (TM * TN);
    static_assert(BM % TM == 0 && BN % TN == 0, "a thread's results must divide the block's");
    static_assert(THREADS % BK == 0 && THREADS % BN == 0, "a step must load whole rows");

    __shared__ float tile_a[BM][BK];
    __shared__ float tile_b[BK][BN];

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    const int row = threadIdx.x / (BN / TN) * TM;
    const int column = threadIdx.x % (BN / TN) * TN;

    float sums[TM][TN] = {};
    for (int start = 0; start < k; start += BK) {
        // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
#pragma unroll
        for (int first = 0; first < BM; first += THREADS / BK) {
            const int y = first + threadIdx.x / BK;
            const int x = threadIdx.x % BK;
            tile_a[y][x] = top + y < m && start + x < k ? a[(top + y) * k + start + x] : 0.0f;
        }
#pragma unroll
        for (int first = 0; first < BK; first += THREADS / BN) {
            const int y = first + threadIdx.x / BN;
            const int x = threadIdx.x % BN;
            tile_b[y][x] = start + y < k && left + x < n ? b[(start + y) * n + left + x] : -0.0f;
        }
        __syncthreads();

#pragma unroll
        for (int l = 0; l < BK; ++l) {
            float of_a[TM], of_b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                of_a[i] = tile_a[row + i][l];
            }
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                of_b[j] = tile_b[l][column + j];
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    sums[i][j] = fmaf(of_a[i], of_b[j], sums[i][j]);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            if (top + row + i < m && left + column + j < n) {
                c[(top + row + i) * n + left + column + j] = sums[i][j];
            }
        }
    }
}
