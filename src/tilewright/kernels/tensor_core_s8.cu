// Tensor cores for int8, summed in int32. As tensor_core, with fragments of 16 x 32 of A and 32 x 8 of B. A lane needs four
// elements of one column of B: `ldmatrix` gives it pairs of neighbouring columns, of rows that are chosen so that bytes of
// two registers make those of both columns. For compute capability 8.0 and newer.

#include "tiles.cuh"

typedef signed char T;

// D = A B + D of one warp.
__device__ inline void multiply(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Writes four neighbouring elements of a row, of which `left` are before its end: at once where the row allows it.
__device__ inline void store_four(T *to, int left, bool wide, char4 values) {
    if (wide && left > 3) {
        *reinterpret_cast<char4 *>(to) = values;
        return;
    }
    const T four[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < left) {
            to[i] = four[i];
        }
    }
}

// `lda`, `ldb` and `ldc` are how many elements a row of A, B and C is behind the one before.
template <int BM, int BN, int BK, int WM, int WN, int STAGES>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core_s8(const T *a, const T *b, T *c, int m, int n, int k, int lda, int ldb, int ldc) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    static_assert(BK == 64 && BN % 128 == 0, "the swizzles are for rows of 64 bytes, and of multiples of 128");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp must own whole fragments");

    __shared__ __align__(128) T tile_a[STAGES][BM * BK];
    __shared__ __align__(128) T tile_b[STAGES][BK * BN];
    // Where a chunk lies in its tile. Two rows of A's are 128 bytes, all 32 banks; so is one of B's, of which matrices have
    // the rows 0, 1, 4, 5, 8, 9, 12, 13 and 2, 3, 6, 7, 10, 11, 14, 15.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row / 2 % 4) * CHUNK<T>; };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ (row % 2 + row / 4 % 4 * 2)) * CHUNK<T>; };

    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    TileCopy<T, BM, BK, THREADS, 8> copy_a(a, (long long)top * lda, lda, tile_a, place_a);
    TileCopy<T, BK, BN, THREADS, 8> copy_b(b, left, ldb, tile_b, place_b);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    // The row of a matrix that the lane gives; other fragments are whole rows of 128 bytes away, or other chunks in them.
    const int row_of_b = lane / 16 * 16 + lane / 8 % 2 * 2 + lane % 8 / 2 * 4 + lane % 2;
    unsigned of_lane_a = shared_address(&tile_a[0][place_a(row + lane % 16, lane / 16)]);
    unsigned of_lane_b = shared_address(&tile_b[0][place_b(row_of_b, column / CHUNK<T>)]);
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // kept: NVRTC would compute them in every step anew

    int sums[WM / 16][WN / 8][4] = {};
    auto load = [&](int start, int stage) {
        copy_a.begin(stage, m - top, k - start, BK);
        copy_b.begin(stage, k - start, n - left, (long long)BK * ldb);
    };
    pipeline<BK, STAGES>(0, k, load, [&](int stage) {
        const unsigned at_a = of_lane_a + stage * (BM * BK);
        const unsigned at_b = of_lane_b + stage * (BK * BN);
#pragma unroll
        for (int l = 0; l < BK; l += 32) {
            unsigned of_a[WM / 16][4], of_b[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                load_matrices(of_a[i], (at_a ^ l) + 16 * i * BK);
            }
#pragma unroll
            for (int j = 0; j < WN / 8; j += 2) {
                unsigned pairs[4];
                load_transposed(pairs, (at_b ^ 8 * j) + l * BN);
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    of_b[j][part] = __byte_perm(pairs[2 * part], pairs[2 * part + 1], 0x6420);
                    of_b[j + 1][part] = __byte_perm(pairs[2 * part], pairs[2 * part + 1], 0x7531);
                }
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    multiply(sums[i][j], of_a[i], of_b[j]);
                }
            }
        }
    });

    // Fragments j and j + 1 have the even and the odd of 16 columns, so a lane four neighbours; sums wrap.
    const bool wide_c = reinterpret_cast<size_t>(c) % 4 == 0 && ldc % 4 == 0;
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        const int y = top + row + 8 * i + lane / 4;
        T *to = c + (long long)y * ldc + left + column + lane % 4 * 4;
#pragma unroll
        for (int j = 0; j < WN / 8; j += 2) {
            const int there = y < m ? n - left - column - lane % 4 * 4 - 8 * j : 0;
            const int *even = &sums[i / 2][j][i % 2 * 2], *odd = &sums[i / 2][j + 1][i % 2 * 2];
            store_four(to + 8 * j, there, wide_c, make_char4(even[0], odd[0], even[1], odd[1]));
        }
    }
}
