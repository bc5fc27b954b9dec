// Tensor cores for float32. As tensor_core, with fragments of 16 x 8 of A and 8 x 8 of B in tf32: float32 with the lower
// 13 bits of the significand gone. SPLIT makes up for them: each operand is a tf32 number and another for what is left of
// it, and three products stand for one (small times small is too small to count). Tensor cores round sums towards zero, so
// those of a tile begin at 0 and are added to the others by the float32 units. For compute capability 8.0 and newer.
//
// `ldmatrix` moves pairs of halves, so for A it moves floats. It cannot transpose them: B is read one by one.

#include "tiles.cuh"

// D = A B + D of one warp.
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The nearest tf32 number, as the bits of a float.
__device__ inline unsigned rounded(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// A number as a tf32 number, and one for what is left.
__device__ inline void split(unsigned bits, unsigned &big, unsigned &small) {
    const float value = __uint_as_float(bits);
    big = rounded(value);
    small = rounded(value - __uint_as_float(big));  // the difference is exact
}

// `lda`, `ldb` and `ldc` are how many elements a row of A, B and C is behind the one before.
template <bool SPLIT, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = float, typename Finish = Rounded<C>,
          typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core_f32(const float *a, const float *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Of... of) {
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
    // The row of a matrix that the lane gives, and the element of B that it reads; other fragments are whole rows of 128
    // bytes away, or other chunks in them.
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
        float of_tile[WM / 16][WN / 8][4] = {};  // unused, and gone, where numbers are not split
#pragma unroll
        for (int l = 0; l < BK; l += 8) {
            unsigned big_a[WM / 16][4], big_b[WN / 8][2], small_a[WM / 16][4], small_b[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                unsigned read[4];
                load_matrices(read, (at_a ^ l * SIZE) + 16 * i * BK * SIZE);
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    split(read[part], big_a[i][part], small_a[i][part]);
                }
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const float read = from_tile[(of_lane_b ^ 8 * j) + (l + 4 * part) * BN];
                    split(__float_as_uint(read), big_b[j][part], small_b[j][part]);
                }
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    if (SPLIT) {
                        multiply(of_tile[i][j], small_a[i], big_b[j]);
                        multiply(of_tile[i][j], big_a[i], small_b[j]);
                        multiply(of_tile[i][j], big_a[i], big_b[j]);
                    } else {
                        multiply(sums[i][j], big_a[i], big_b[j]);
                    }
                }
            }
        }
        if (SPLIT) {
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
                    for (int part = 0; part < 4; ++part) {
                        sums[i][j][part] += of_tile[i][j][part];
                    }
                }
            }
        }
    });
    store_tile<BM, BN>(c, m, n, ldc, sums, top, left, Finish{of...});
}
