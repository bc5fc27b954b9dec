// Like vectorised, without bank conflicts. Rows of A's tile are PAD elements longer, so that the elements of 2 * BK / 4
// columns of A that a warp stores at once are in different banks. A thread's results are patches of 4 x 4, as far apart
// as the patches of all threads side by side, so that neighbouring lanes read neighbouring elements of both tiles.

#include "fours.cuh"

template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM *BN / (TM * TN), 2)
    padded(const float *a, const float *b, float *c, int m, int n, int k) {
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int PAD = 4;
    static_assert(BM % TM == 0 && BN % TN == 0 && TM % 4 == 0 && TN % 4 == 0, "results must come in fours");
    static_assert(BM * BK == 4 * THREADS && BK * BN == 4 * THREADS, "a thread must load four elements of each tile");

    __shared__ __align__(16) float tile_a[BK][BM + PAD];
    __shared__ __align__(16) float tile_b[BK][BN];

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    // The thread's first patch, and the distance to the next.
    const int row = threadIdx.x / (BN / TN) * 4;
    const int column = threadIdx.x % (BN / TN) * 4;
    constexpr int DOWN = 4 * BM / TM;
    constexpr int RIGHT = 4 * BN / TN;
    Fours<BN, BK> next(a, b, top, left, n, k);

    float sums[TM][TN] = {};
    for (int start = 0; start < k; start += BK) {
        next.load(start, top, left, m, n, k);
        next.store(tile_a, tile_b);
        __syncthreads();

#pragma unroll
        for (int l = 0; l < BK; ++l) {
            __align__(16) float of_a[TM], of_b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                *reinterpret_cast<float4 *>(&of_a[i]) =
                    *reinterpret_cast<const float4 *>(&tile_a[l][row + i / 4 * DOWN]);
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4 *>(&of_b[j]) =
                    *reinterpret_cast<const float4 *>(&tile_b[l][column + j / 4 * RIGHT]);
            }
            add_products(sums, of_a, of_b);
        }
        __syncthreads();
    }

    write_patches<DOWN, RIGHT>(c, m, n, top + row, left + column, sums);
}
