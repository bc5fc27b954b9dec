// Like padded, with two buffers for the tiles: while a block multiplies the tiles in one, its threads load the next
// tiles into registers, and then store them to the other buffer. So one barrier per step is enough.

#include "finish.cuh"
#include "fours.cuh"

template <int BM, int BN, int BK, int TM, int TN, typename Batch = Alone, typename... Of>
__global__ void __launch_bounds__(BM *BN / (TM * TN), 2)
    double_buffered(const float *a, const float *b, float *c, int m, int n, int k, Of... of) {
    Batch batch{of...};
    find_product(batch, a, b, c);
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int PAD = 4;
    static_assert(BM % TM == 0 && BN % TN == 0 && TM % 4 == 0 && TN % 4 == 0, "results must come in fours");
    static_assert(BM * BK == 4 * THREADS && BK * BN == 4 * THREADS, "a thread must load four elements of each tile");

    __shared__ __align__(16) float tile_a[2][BK][BM + PAD];
    __shared__ __align__(16) float tile_b[2][BK][BN];

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    // The thread's first patch of 4 x 4 results, and the distance to the next.
    const int row = threadIdx.x / (BN / TN) * 4;
    const int column = threadIdx.x % (BN / TN) * 4;
    constexpr int DOWN = 4 * BM / TM;
    constexpr int RIGHT = 4 * BN / TN;
    // What the thread loads of each tile.
    const int row_a = threadIdx.x / (BK / 4);
    const int column_a = threadIdx.x % (BK / 4) * 4;
    const int row_b = threadIdx.x / (BN / 4);
    const int column_b = threadIdx.x % (BN / 4) * 4;
    const float *from_a = a + (top + row_a) * k + column_a;
    const float *from_b = b + row_b * n + left + column_b;
    const bool wide_a = aligned(a, k);
    const bool wide_b = aligned(b, n);

    // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
    float4 next_a, next_b;
    auto load = [&](int start) {
        next_a = read4(from_a, top + row_a < m ? k - start - column_a : 0, wide_a, 0.0f);
        next_b = read4(from_b, start + row_b < k ? n - left - column_b : 0, wide_b, -0.0f);
        from_a += BK;
        from_b += BK * n;
    };
    auto store = [&](int buffer) {
        tile_a[buffer][column_a][row_a] = next_a.x;
        tile_a[buffer][column_a + 1][row_a] = next_a.y;
        tile_a[buffer][column_a + 2][row_a] = next_a.z;
        tile_a[buffer][column_a + 3][row_a] = next_a.w;
        *reinterpret_cast<float4 *>(&tile_b[buffer][row_b][column_b]) = next_b;
    };

    load(0);
    store(0);
    __syncthreads();

    float sums[TM][TN] = {};
    int buffer = 0;
    for (int start = 0; start < k; start += BK) {
        load(start + BK);  // past the last tile nothing is read
#pragma unroll
        for (int l = 0; l < BK; ++l) {
            __align__(16) float of_a[TM], of_b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                *reinterpret_cast<float4 *>(&of_a[i]) =
                    *reinterpret_cast<const float4 *>(&tile_a[buffer][l][row + i / 4 * DOWN]);
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4 *>(&of_b[j]) =
                    *reinterpret_cast<const float4 *>(&tile_b[buffer][l][column + j / 4 * RIGHT]);
            }
            add_products(sums, of_a, of_b);
        }
        buffer ^= 1;
        store(buffer);
        // All threads have read what the next step overwrites, and stored what it reads.
        __syncthreads();
    }

    write_patches<DOWN, RIGHT>(c, m, n, top + row, left + column, sums);
}
