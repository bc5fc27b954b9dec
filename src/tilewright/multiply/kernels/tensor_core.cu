// Tensor cores: C = A B for halves, summed in float32. Copies run STAGES - 1 tiles ahead of the products, and need no
// registers from 8.0 on (cp.async). `ldmatrix` reads tiles in chunks of 16 bytes, which are swizzled so that no two of
// the eight rows of a matrix share banks. For compute capability 8.0 and newer, float16 with two stages for 7.5 too.
//
// A warp owns WM x WN results: fragments of 16 x 16 of A and 16 x 8 of B, multiplied by mma.m16n8k16 or twice m16n8k8.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tiles.cuh"

// D = A B + D of one warp.
#if __CUDA_ARCH__ >= 800
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned *b, __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned *b, __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned *b, __half) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
    }
}
#endif

// Shared memory: tiles of A and B, in the layout of their matrices.
template <typename T, int BM, int BN, int BK, int STAGES>
struct Tiles {
    __align__(128) T a[STAGES][BM * BK];
    __align__(128) T b[STAGES][BK * BN];
};

// Adds the products of the steps of k from `first` to `end` to a warp's sums of the tile of C at [top, left]. An
// operand that is TURNED is column-major: its leading dimension is then the distance of columns.
template <int WM, int WN, bool TURNED_A = false, bool TURNED_B = false, typename T, int BM, int BN, int BK, int STAGES>
__device__ inline void multiply_tiles(Tiles<T, BM, BN, BK, STAGES> &tiles, const T *a, const T *b, int m, int n,
                                      int top, int left, int first, int end, int lda, int ldb,
                                      float (&sums)[WM / 16][WN / 8][4]) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN), SIZE = sizeof(T);
    constexpr int ROWS_A = TURNED_A ? BK : BM, COLUMNS_A = TURNED_A ? BM : BK;
    constexpr int ROWS_B = TURNED_B ? BN : BK, COLUMNS_B = TURNED_B ? BK : BN;
    static_assert(BK == 32 && BM % 64 == 0 && BN % 64 == 0,
                  "the swizzles are for rows of 64 bytes, and multiples of 128");
    static_assert(WM % 16 == 0 && (WN == 16 || WN % 32 == 0),
                  "a warp must own fragments, whose chunks are a mask away");

    // The place of a chunk in its tile. Two rows along k are 128 bytes, all 32 banks; one along m or n is 128 or more.
    auto place = [](int row, int chunk, int columns) {
        return row * columns + (chunk ^ (columns == BK ? row / 2 % 4 : row % 8)) * in_chunk<T>();
    };
    auto place_a = [=](int row, int chunk) { return place(row, chunk, COLUMNS_A); };
    auto place_b = [=](int row, int chunk) { return place(row, chunk, COLUMNS_B); };

    const long long first_a = TURNED_A ? (long long)first * lda + top : (long long)top * lda + first;
    const long long first_b = TURNED_B ? (long long)left * ldb + first : (long long)first * ldb + left;
    TileCopy<T, ROWS_A, COLUMNS_A, THREADS, 8> copy_a(a, first_a, lda, tiles.a, place_a);
    TileCopy<T, ROWS_B, COLUMNS_B, THREADS, 8> copy_b(b, first_b, ldb, tiles.b, place_b);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    // The row whose address the lane gives; other fragments are whole rows of 128 bytes away, or other chunks in them.
    const int eight = lane / 8 % 2, sixteen = lane / 16, inner = lane % 8;
    unsigned of_lane_a = shared_address(&tiles.a[0][TURNED_A ? place_a(inner + 8 * sixteen, row / in_chunk<T>() + eight)
                                                             : place_a(row + lane % 16, sixteen)]);
    unsigned of_lane_b = shared_address(&tiles.b[0][TURNED_B ? place_b(column + inner + 8 * sixteen, eight)
                                                             : place_b(lane % 16, column / in_chunk<T>() + sixteen)]);
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // without this NVRTC computes them again in each step

    auto load = [&](int start, int stage) {
        if (TURNED_A) {
            copy_a.begin(stage, end - start, m - top, (long long)BK * lda);
        } else {
            copy_a.begin(stage, m - top, end - start, BK);
        }
        if (TURNED_B) {
            copy_b.begin(stage, n - left, end - start, BK);
        } else {
            copy_b.begin(stage, end - start, n - left, (long long)BK * ldb);
        }
    };
    auto written = [&](int stage) {
        copy_a.end(stage);
        copy_b.end(stage);
    };
    unsigned of_a[2][WM / 16][4], of_b[2][WN / 16][4];  // the fragments that are multiplied, and the next ones
    auto read = [&](int stage, int part) {
        const unsigned at_a = of_lane_a + stage * (BM * BK * SIZE);
        const unsigned at_b = of_lane_b + stage * (BK * BN * SIZE);
        const int l = 16 * part;
#pragma unroll
        for (int i = 0; i < WM; i += 16) {
            if (TURNED_A) {
                load_transposed(of_a[part % 2][i / 16], (at_a ^ i * SIZE) + l * BM * SIZE);
            } else {
                load_matrices(of_a[part % 2][i / 16], (at_a ^ l * SIZE) + i * BK * SIZE);
            }
        }
#pragma unroll
        for (int j = 0; j < WN; j += 16) {
            if (TURNED_B) {
                load_matrices(of_b[part % 2][j / 16], (at_b ^ l * SIZE) + j * BK * SIZE);
            } else {
                load_transposed(of_b[part % 2][j / 16], (at_b ^ j * SIZE) + l * BN * SIZE);
            }
        }
    };
    pipeline_ahead<BK, STAGES, BK / 16>(first, end, load, written, read, [&](int part) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
                multiply(sums[i][j], of_a[part % 2][i], &of_b[part % 2][j / 2][j % 2 * 2], T());
            }
        }
    });
}

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C: elements from one row to the next.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = T,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Of... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    __shared__ Tiles<T, BM, BN, BK, STAGES> tiles;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    float sums[WM / 16][WN / 8][4] = {};
    multiply_tiles<WM, WN>(tiles, a, b, m, n, top, left, 0, k, lda, ldb, sums);
    store_tile<BM, BN>(c, m, n, ldc, sums, top, left, finish);
}
