// Tensor cores for elements of a byte: integers, summed in int32, and floats, summed in float32. Like tensor_core, with
// fragments of 16 x 32 of A and 32 x 8 of B. A lane needs four elements of one column of B. `ldmatrix` gives it pairs
// of neighbouring columns; the rows are chosen so that the bytes of two registers form the elements of both columns.
// For compute capability 8.0 and newer, integers with two stages for 7.5 too; floats need 8.9.
//
// Tensor cores may keep as few as 13 fraction bits of a sum of 8-bit floats. So the sums of a tile begin at 0, and the
// float32 units add them to the others: the error depends on a tile's products, not on the number of tiles.

#include <cuda_fp8.h>

#include "tiles.cuh"

// Blocks of a multiprocessor: tiles that go through registers would need so many that there is one.
#if ASYNCHRONOUS
#define BLOCKS
#else
#define BLOCKS , 2
#endif

// The types of sums and of C: 8-bit floats are too narrow for sums.
template <typename T>
struct Of {
    enum { EXACT = false };
    typedef float Sum;
    typedef float Result;
};

template <>
struct Of<signed char> {
    enum { EXACT = true };
    typedef int Sum;
    typedef signed char Result;
};

template <>
struct Of<unsigned char> {
    enum { EXACT = true };
    typedef int Sum;  // the bits of sums modulo 2^32
    typedef unsigned char Result;
};

// D = A B + D of one warp.
#if __CUDA_ARCH__ >= 800
#define MULTIPLY(type, sum, letter, forms)                                                                             \
    __device__ inline void multiply(sum(&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], type) {                \
        asm volatile("mma.sync.aligned.m16n8k32.row.col." forms " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "      \
                     "{%0, %1, %2, %3};"                                                                               \
                     : "+" letter(d[0]), "+" letter(d[1]), "+" letter(d[2]), "+" letter(d[3])                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
    }
#else  // four products of 8 x 8 x 16
#define MULTIPLY(type, sum, letter, forms)                                                                             \
    __device__ inline void multiply(sum(&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], type) {                \
        _Pragma("unroll") for (int part = 0; part < 4; ++part) {                                                       \
            const int half = part % 2 * 2;                                                                             \
            asm("mma.sync.aligned.m8n8k16.row.col." forms " {%0, %1}, {%2}, {%3}, {%0, %1};"                  \
                         : "+" letter(d[half]), "+" letter(d[half + 1])                                                \
                         : "r"(a[part]), "r"(b[part / 2]));                                                            \
        }                                                                                                              \
    }
#endif
MULTIPLY(signed char, int, "r", "s32.s8.s8.s32")
MULTIPLY(unsigned char, int, "r", "s32.u8.u8.s32")
#if __CUDA_ARCH__ >= 890
MULTIPLY(__nv_fp8_e4m3, float, "f", "f32.e4m3.e4m3.f32")
MULTIPLY(__nv_fp8_e5m2, float, "f", "f32.e5m2.e5m2.f32")
#endif

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C: elements from one row to the next.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = typename Of<T>::Result,
          typename Finish = Rounded<C>, typename... Operands>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN) BLOCKS)
    tensor_core_bytes(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Operands... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    typedef typename Of<T>::Sum Sum;
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr bool EXACT = Of<T>::EXACT;
    static_assert(BK == 64 && BN % 128 == 0, "the swizzles are for rows of 64 bytes, and of multiples of 128");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp must own whole fragments");

    __shared__ __align__(128) T tile_a[STAGES][BM * BK];
    __shared__ __align__(128) T tile_b[STAGES][BK * BN];
    // The place of a chunk in its tile. Two rows of A's are 128 bytes, all 32 banks; so is one of B's. The matrices of
    // B have the rows 0, 1, 4, 5, 8, 9, 12, 13 and 2, 3, 6, 7, 10, 11, 14, 15.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row / 2 % 4) * in_chunk<T>(); };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ (row % 2 + row / 4 % 4 * 2)) * in_chunk<T>(); };

    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    TileCopy<T, BM, BK, THREADS, 8> copy_a(a, (long long)top * lda, lda, tile_a, place_a);
    TileCopy<T, BK, BN, THREADS, 8> copy_b(b, left, ldb, tile_b, place_b);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    // The row whose address the lane gives; other fragments are whole rows of 128 bytes away, or other chunks in them.
    const int row_of_b = lane / 16 * 16 + lane / 8 % 2 * 2 + lane % 8 / 2 * 4 + lane % 2;
    unsigned of_lane_a = shared_address(&tile_a[0][place_a(row + lane % 16, lane / 16)]);
    unsigned of_lane_b = shared_address(&tile_b[0][place_b(row_of_b, column / in_chunk<T>())]);
#if ASYNCHRONOUS
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // without this NVRTC computes them again in each step
#endif

    Sum sums[WM / 16][WN / 8][4] = {};
    auto load = [&](int start, int stage) {
        copy_a.begin(stage, m - top, k - start, BK);
        copy_b.begin(stage, k - start, n - left, (long long)BK * ldb);
    };
    auto written = [&](int stage) {
        copy_a.end(stage);
        copy_b.end(stage);
    };
    pipeline<BK, STAGES>(0, k, load, written, [&](int stage) {
        const unsigned at_a = of_lane_a + stage * (BM * BK);
        const unsigned at_b = of_lane_b + stage * (BK * BN);
        Sum of_tile[WM / 16][WN / 8][4] = {};  // unused, and removed, if sums are exact
        auto &to = EXACT ? sums : of_tile;
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
                    multiply(to[i][j], of_a[i], of_b[j], T());
                }
            }
        }
        if constexpr (!EXACT) {
            add(sums, of_tile);
        }
    });

    // Fragments j and j + 1 have the even and the odd of 16 columns, so a lane has four neighbours; sums of int8 wrap.
    const bool wide_c = in_fours(c, ldc);
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        const int y = top + row + 8 * i + lane / 4;
        C *to = c + (long long)y * ldc;
#pragma unroll
        for (int j = 0; j < WN / 8; j += 2) {
            const int x = left + column + lane % 4 * 4 + 8 * j, there = y < m ? n - x : 0;
            const Sum *even = &sums[i / 2][j][i % 2 * 2], *odd = &sums[i / 2][j + 1][i % 2 * 2];
            store_four(to + x, there, wide_c, finish(even[0], y, x, there > 0), finish(odd[0], y, x + 1, there > 1),
                       finish(even[1], y, x + 2, there > 2), finish(odd[1], y, x + 3, there > 3));
        }
    }
}
