// Tensor cores for float32. Like tensor_core, with fragments of 16 x 8 of A and 8 x 8 of B in tf32: float32 without the
// lower 13 bits of the significand. SPLIT restores them: each operand is a tf32 number plus another for the rest, and
// three products make one (small times small is negligible). Tensor cores round sums towards zero, so the sums of a
// tile begin at 0, and the float32 units add them to the others. For compute capability 8.0 and newer.

#include "floats.cuh"

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

// A number as a tf32 number, and one for the rest.
__device__ inline void split(unsigned bits, unsigned &big, unsigned &small) {
    const float value = __uint_as_float(bits);
    big = rounded(value);
    small = rounded(value - __uint_as_float(big));  // the difference is exact
}

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C: elements from one row to the next.
template <bool SPLIT, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = float,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core_f32(const float *a, const float *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Of... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    __shared__ FloatTiles<BM, BN, BK, STAGES> tiles;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    float sums[WM / 16][WN / 8][4] = {};
    multiply_floats<WM, WN>(tiles, a, b, m, n, k, top, left, lda, ldb, [&](auto read_a, auto read_b) {
        float of_tile[WM / 16][WN / 8][4] = {};  // unused, and removed, if numbers are not split
#pragma unroll
        for (int l = 0; l < BK; l += 8) {
            unsigned big_a[WM / 16][4], big_b[WN / 8][2], small_a[WM / 16][4], small_b[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                unsigned read[4];
                read_a(i, l, read);
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    split(read[part], big_a[i][part], small_a[i][part]);
                }
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    split(__float_as_uint(read_b(j, l + 4 * part)), big_b[j][part], small_b[j][part]);
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
            add(sums, of_tile);
        }
    });
    store_tile<BM, BN>(c, m, n, ldc, sums, top, left, finish);
}
