// As thread_tile_2d, with accesses of four elements at once: A and B are read and C is written as float4 where the
// arrays' rows are aligned for it. A's tile is transposed, so that a thread's elements of a column of A lie side by side.

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
    // What the thread loads of each tile.
    const int row_a = threadIdx.x / (BK / 4);
    const int column_a = threadIdx.x % (BK / 4) * 4;
    const int row_b = threadIdx.x / (BN / 4);
    const int column_b = threadIdx.x % (BN / 4) * 4;
    const float *from_a = a + (top + row_a) * k + column_a;
    const float *from_b = b + row_b * n + left + column_b;
    const bool wide_a = aligned(a, k);
    const bool wide_b = aligned(b, n);

    float sums[TM][TN] = {};
    for (int start = 0; start < k; start += BK) {
        // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
        const float4 next_a = read4(from_a, top + row_a < m ? k - start - column_a : 0, wide_a, 0.0f);
        const float4 next_b = read4(from_b, start + row_b < k ? n - left - column_b : 0, wide_b, -0.0f);
        from_a += BK;
        from_b += BK * n;
        tile_a[column_a][row_a] = next_a.x;
        tile_a[column_a + 1][row_a] = next_a.y;
        tile_a[column_a + 2][row_a] = next_a.z;
        tile_a[column_a + 3][row_a] = next_a.w;
        *reinterpret_cast<float4 *>(&tile_b[row_b][column_b]) = next_b;
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

    const bool wide_c = aligned(c, n);
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int y = top + row + i;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int x = left + column + j;
            write4(c + y * n + x, y < m ? n - x : 0, wide_c, &sums[i][j]);
        }
    }
}
