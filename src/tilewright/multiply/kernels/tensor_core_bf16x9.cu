// Tensor cores for float32, as accurate as the float32 units: each operand is exactly the sum of three bfloat16
// numbers, so nine products make one; small ones are added first. Tensor cores round sums towards zero, so the sums of
// a tile begin at 0, and the float32 units add them to the others. For compute capability 8.0 and newer.
//
// Two fragments of tf32 make one of bfloat16: they pair values of k that are four apart, in A and in B alike.

#include "floats.cuh"

constexpr int PIECES = 3;

// D = A B + D of one warp.
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two numbers as pairs of bfloat16; each pair has the next eight bits of the significands.
__device__ inline void split(unsigned first, unsigned second, unsigned (&pieces)[PIECES]) {
    float low = __uint_as_float(first), high = __uint_as_float(second);
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
        pieces[i] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
        low -= __uint_as_float(__float_as_uint(low) & 0xffff0000);
        high -= __uint_as_float(__float_as_uint(high) & 0xffff0000);
    }
}

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C: elements from one row to the next.
template <int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = float, typename Finish = Rounded<C>,
          typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN), 1)
    tensor_core_bf16x9(const float *a, const float *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Of... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    __shared__ FloatTiles<BM, BN, BK, STAGES> tiles;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    float sums[WM / 16][WN / 8][4] = {};
    multiply_floats<WM, WN>(tiles, a, b, m, n, k, top, left, lda, ldb, [&](auto read_a, auto read_b) {
        unsigned of_b[WN / 8][PIECES][2];
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                unsigned pieces[PIECES];
                const float first = read_b(j, 8 * half), second = read_b(j, 8 * half + 4);
                split(__float_as_uint(first), __float_as_uint(second), pieces);
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
                read_a(i, 8 * half, read);
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
    store_tile<BM, BN>(c, m, n, ldc, sums, top, left, finish);
}
