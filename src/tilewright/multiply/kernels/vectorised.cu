// Like thread_tile_2d, with accesses of four elements at once: it reads A and B and writes C as float4 if the arrays'
// rows are aligned for it. A's tile is transposed, so that a thread's elements of a column of A are adjacent.

#include "fours.cuh"

template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM *BN / (TM * TN), 2)
    vectorised(const float *a, const float *b, float *c, int m, int n, int k) {
    constexpr int THREADS = BM * BN / (TM * TN);
    static_assert(BM % TM == 0 && BN % TN == 0 && TM % 4 == 0 && TN % 4 == 0, "results must come in fours");
    static_assert(BM * BK == 4 * THREADS && BK * BN == 4 * THREADS, "a thread must load four elements of each tile");

    __shared__ __align__(16) float tile_a[BK][BM];
    __shared__ __align__(16) float tile_b[BK][BN];

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    const int row = threadIdx.x / (BN / TN) * TM;
    const int column = threadIdx.x % (BN / TN) * TN;
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
                *reinterpret_cast<float4 *>(&of_a[i]) = *reinterpret_cast<const float4 *>(&tile_a[l][row + i]);
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4 *>(&of_b[j]) = *reinterpret_cast<const float4 *>(&tile_b[l][column + j]);
            }
            add_products(sums, of_a, of_b);
        }
        __syncthreads();
    }

    write_patches<4, 4>(c, m, n, top + row, left + column, sums);
}
