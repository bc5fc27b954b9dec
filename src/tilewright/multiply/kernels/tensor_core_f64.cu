// Tensor cores for float64. Like tensor_core, with fragments of 8 x 4 of A and 4 x 8 of B, one element per lane,
// without `ldmatrix`. A product is a chain of fused multiply-adds, k ascending, so the sums have the canonical bits.
// For compute capability 8.0 and newer.

#include "tiles.cuh"

// D = A B + D of one warp.
__device__ inline void multiply(double (&d)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(a), "d"(b));
}

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C: elements from one row to the next.
template <int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = double, typename Finish = Rounded<C>,
          typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core_f64(const double *a, const double *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Of... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    static_assert(BK == 16 && BN % 16 == 0, "the swizzles are for rows of multiples of 128 bytes");
    static_assert(WM % 8 == 0 && WN % 8 == 0, "a warp must own whole fragments");

    __shared__ __align__(128) double tile_a[STAGES][BM * BK];
    __shared__ __align__(128) double tile_b[STAGES][BK * BN];
    // The place of a chunk in its tile. Half a warp reads four rows at once, which are four elements apart.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row % 4 * 2) * in_chunk<double>(); };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row % 4 * 2) * in_chunk<double>(); };

    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    TileCopy<double, BM, BK, THREADS, 4> copy_a(a, (long long)top * lda, lda, tile_a, place_a);
    TileCopy<double, BK, BN, THREADS, 4> copy_b(b, left, ldb, tile_b, place_b);
    // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
    auto filled = [](double fill) {
        return [fill](double *to, const double *from, int left, bool wide) {
            if (left <= 0) {
                *reinterpret_cast<double2 *>(to) = make_double2(fill, fill);
            } else {
                copy_chunk(to, from, left, wide);
            }
        };
    };

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    // The elements that the lane reads; other fragments are whole rows of 128 bytes away, or other chunks in them.
    int of_lane_a = place_a(row + lane / 4, lane % 4 / in_chunk<double>()) + lane % in_chunk<double>();
    int of_lane_b = place_b(lane % 4, (column + lane / 4) / in_chunk<double>()) + lane / 4 % in_chunk<double>();
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // without this NVRTC computes them again in each step

    double sums[WM / 8][WN / 8][2] = {};
    auto load = [&](int start, int stage) {
        copy_a.begin(stage, m - top, k - start, BK, filled(0.0));
        copy_b.begin(stage, k - start, n - left, (long long)BK * ldb, filled(-0.0));
    };
    pipeline<BK, STAGES>(0, k, load, [&](int stage) {
#pragma unroll
        for (int l = 0; l < BK; l += 4) {
            double of_a[WM / 8], of_b[WN / 8];
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
                of_a[i] = tile_a[stage][(of_lane_a ^ l) + 8 * i * BK];
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
                of_b[j] = tile_b[stage][(of_lane_b ^ 8 * j) + l * BN];
            }
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    multiply(sums[i][j], of_a[i], of_b[j]);
                }
            }
        }
    });

    // A lane has two neighbouring results of row lane / 4 of each fragment.
    const bool wide_c = in_pairs(c, ldc);
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        const int y = top + row + 8 * i + lane / 4;
        C *to = c + (long long)y * ldc;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
            const int x = left + column + lane % 4 * 2 + 8 * j, there = y < m ? n - x : 0;
            store_pair(to + x, there, wide_c, finish(sums[i][j][0], y, x, there > 0),
                       finish(sums[i][j][1], y, x + 1, there > 1));
        }
    }
}
