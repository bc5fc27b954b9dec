// Tensor cores for float32, as accurate as float32's units: each operand is three bfloat16 numbers, whose sum it is exactly,
// and nine products stand for one, the small ones first. Tensor cores round sums towards zero, so those of a tile begin at
// 0 and are added to the others by the float32 units. For compute capability 8.0 and newer.
//
// Fragments are those of tf32, two of which make one of bfloat16: pairs of k that are four apart, of A and of B alike.

#include "tiles.cuh"

constexpr int PIECES = 3;

// D = A B + D of one warp.
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two numbers as pairs of bfloat16, each the upper eight bits of what is left of the significand.
__device__ inline void split(unsigned first, unsigned second, unsigned (&pieces)[PIECES]) {
    float low = __uint_as_float(first), high = __uint_as_float(second);
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
        pieces[i] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
        low -= __uint_as_float(__float_as_uint(low) & 0xffff0000);
        high -= __uint_as_float(__float_as_uint(high) & 0xffff0000);
    }
}

// `lda`, `ldb` and `ldc` are how many elements a row of A, B and C is behind the one before.
template <int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = float, typename Finish = Rounded<C>,
          typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN), 1)
    tensor_core_bf16x9(const float *a, const float *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Of... of) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN), SIZE = sizeof(float);
    static_assert(BK == 16 && BN % 32 == 0, "the swizzles are for rows of 64 bytes, and of multiples of 128");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp must own whole fragments");

    __shared__ __align__(128) float tile_a[STAGES][BM * BK];
    __shared__ __align__(128) float tile_b[STAGES][BK * BN];
    // Where a chunk lies in its tile. Two rows of A's are 128 bytes, all 32 banks; a row of B's is four times that, and
    // the four rows of a fragment lie eight elements apart.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row / 2 % 4) * CHUNK<float>; };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row % 4 * 2) * CHUNK<float>; };

    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    TileCopy<float, BM, BK, THREADS, 8> copy_a(a, (long long)top * lda, lda, tile_a, place_a);
    TileCopy<float, BK, BN, THREADS, 8> copy_b(b, left, ldb, tile_b, place_b);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    unsigned of_lane_a = shared_address(&tile_a[0][place_a(row + lane % 16, lane / 16)]);
    int of_lane_b = place_b(lane % 4, column / CHUNK<float> + lane / 16) + lane / 4 % CHUNK<float>;
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // kept: NVRTC would compute them in every step anew

    float sums[WM / 16][WN / 8][4] = {};
    auto load = [&](int start, int stage) {
        copy_a.begin(stage, m - top, k - start, BK);
        copy_b.begin(stage, k - start, n - left, (long long)BK * ldb);
    };
    pipeline<BK, STAGES>(0, k, load, [&](int stage) {
        const unsigned at_a = of_lane_a + stage * (BM * BK * SIZE);
        const float *from_tile = tile_b[stage];
        unsigned of_b[WN / 8][PIECES][2];
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float *from = from_tile + (of_lane_b ^ 8 * j) + 8 * half * BN;
                unsigned pieces[PIECES];
                split(__float_as_uint(from[0]), __float_as_uint(from[4 * BN]), pieces);
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece) {
                    of_b[j][piece][half] = pieces[piece];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
            unsigned of_a[PIECES][4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                unsigned read[4];
                load_matrices(read, (at_a ^ 8 * half * SIZE) + 16 * i * BK * SIZE);
#pragma unroll
                for (int eight = 0; eight < 2; ++eight) {
                    unsigned pieces[PIECES];
                    split(read[eight], read[eight + 2], pieces);
#pragma unroll
                    for (int piece = 0; piece < PIECES; ++piece) {
                        of_a[piece][2 * half + eight] = pieces[piece];
                    }
                }
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
                float of_tile[4] = {};
#pragma unroll
                for (int small = 2 * (PIECES - 1); small >= 0; --small) {
#pragma unroll
                    for (int piece = max(0, small - PIECES + 1); piece <= min(small, PIECES - 1); ++piece) {
                        multiply(of_tile, of_a[piece], of_b[j][small - piece]);
                    }
                }
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    sums[i][j][part] += of_tile[part];
                }
            }
        }
    });
    store_tile<BM, BN>(c, m, n, ldc, sums, top, left, Finish{of...});
}
