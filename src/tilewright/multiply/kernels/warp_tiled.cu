// Like padded, with a level between block and thread: a warp owns WM x WN elements of the block's C, so that its lanes
// share what they read. LANES lanes are below each other, and 32 / LANES side by side. A thread's results are patches
// of 4 x 4, as far apart as the patches of all lanes side by side.

#include "finish.cuh"
#include "fours.cuh"

template <int BM, int BN, int BK, int WM, int WN, int LANES, typename Batch = Alone, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    warp_tiled(const float *a, const float *b, float *c, int m, int n, int k, Of... of) {
    Batch batch{of...};
    find_product(batch, a, b, c);
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr int TM = WM / LANES;
    constexpr int TN = WN * LANES / 32;
    static_assert(BM % WM == 0 && BN % WN == 0 && TM % 4 == 0 && TN % 4 == 0, "results must come in fours");
    static_assert(4 * THREADS % BK == 0 && 4 * THREADS % BN == 0, "a step must load whole rows");

    // Row x of the transposed tile of A begins at x * BM + x / 4 * PAD. A warp stores at once to rows 4 apart, 128 / BK
    // elements of each. So many elements of padding put these into different banks.
    constexpr int PAD = 128 / BK;
    static_assert(PAD % 4 == 0 && BM % 32 == 0, "rows must begin at 16 bytes, and in bank 0 without padding");
    __shared__ __align__(16) float tile_a[BK * BM + BK / 4 * PAD];
    __shared__ __align__(16) float tile_b[BK][BN];

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    // The thread's first patch, and the distance to the next.
    const int row = warp / (BN / WN) * WM + lane / (32 / LANES) * 4;
    const int column = warp % (BN / WN) * WN + lane % (32 / LANES) * 4;
    constexpr int DOWN = 4 * LANES;
    constexpr int RIGHT = 4 * (32 / LANES);
    // The thread loads four elements of A at `from_a` and in every STEP_A-th row from there; of B likewise.
    constexpr int STEP_A = 4 * THREADS / BK;
    constexpr int STEP_B = 4 * THREADS / BN;
    Fours<BN, BK> at(a, b, top, left, n, k);

    float sums[TM][TN] = {};
    for (int start = 0; start < k; start += BK) {
        // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
        float4 of_a[BM / STEP_A], of_b[BK / STEP_B];
#pragma unroll
        for (int y = 0; y < BM; y += STEP_A) {
            const int left_a = top + at.row_a + y < m ? k - start - at.column_a : 0;
            of_a[y / STEP_A] = read4(at.from_a + y * k, left_a, at.wide_a, 0.0f);
        }
#pragma unroll
        for (int y = 0; y < BK; y += STEP_B) {
            const int left_b = start + at.row_b + y < k ? n - left - at.column_b : 0;
            of_b[y / STEP_B] = read4(at.from_b + y * n, left_b, at.wide_b, -0.0f);
        }
        at.from_a += BK;
        at.from_b += BK * n;
#pragma unroll
        for (int y = 0; y < BM; y += STEP_A) {
            float *to = &tile_a[at.column_a * BM + at.column_a / 4 * PAD + at.row_a + y];
            to[0] = of_a[y / STEP_A].x;
            to[BM] = of_a[y / STEP_A].y;
            to[2 * BM] = of_a[y / STEP_A].z;
            to[3 * BM] = of_a[y / STEP_A].w;
        }
#pragma unroll
        for (int y = 0; y < BK; y += STEP_B) {
            *reinterpret_cast<float4 *>(&tile_b[at.row_b + y][at.column_b]) = of_b[y / STEP_B];
        }
        __syncthreads();

#pragma unroll
        for (int l = 0; l < BK; ++l) {
            // One by one: NVRTC joins adjacent reads to reads of four, in every process alike. Written as float4, it
            // splits one or two more of them, and which ones depends on what the process compiled before.
            float of_a[TM], of_b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                of_a[i] = tile_a[l * BM + l / 4 * PAD + row + i / 4 * DOWN + i % 4];
            }
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                of_b[j] = tile_b[l][column + j / 4 * RIGHT + j % 4];
            }
            add_products(sums, of_a, of_b);
        }
        __syncthreads();
    }

    write_patches<DOWN, RIGHT>(c, m, n, top + row, left + column, sums);
}
