// Tensor cores for integers of 16 and 32 bits: a product is a sum of products of their bytes. Bytes i and j count if
// i + j is below the number of C's bytes. Those of one i + j have a sum of their own, which is shifted at the end.
// Sums are modulo 2^32, so any order gives the same bits. For compute capability 8.0 and newer.
//
// A lane reads chunks of A's rows, and from rows of B the neighbouring elements that are its columns of all fragments.
// `bytes_of` makes registers of fragments of mma.m16n8k32 of them: a byte of four elements along k. For 16 bits the
// steps of k of a fragment are out of order, alike in A and B.

#include "tiles.cuh"

// D = A B + D of one warp, for bytes with a sign or without.
template <bool SIGN_A, bool SIGN_B>
__device__ inline void multiply(unsigned (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]);

#define MULTIPLY(sign_a, sign_b, forms)                                                                                \
    template <>                                                                                                        \
    __device__ inline void multiply<sign_a, sign_b>(unsigned(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2]) {   \
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." forms ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "        \
                     "{%8, %9}, {%0, %1, %2, %3};"                                                                     \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
    }
MULTIPLY(false, false, "u8.u8")
MULTIPLY(false, true, "u8.s8")
MULTIPLY(true, false, "s8.u8")
MULTIPLY(true, true, "s8.s8")

// Whether C is T as it comes, so that its own bits are enough.
template <typename T, typename Finish>
struct Wraps {
    enum { YES = false };
};
template <typename T>
struct Wraps<T, Rounded<T>> {
    enum { YES = true };
};
template <typename T, typename Finish>
struct Wraps<T, InBatch<Finish>> : Wraps<T, Finish> {};

// Words of which word i has byte i of four words.
__device__ inline void bytes_of(unsigned (&to)[4], unsigned first, unsigned second, unsigned third, unsigned fourth) {
    const unsigned low[2] = {__byte_perm(first, second, 0x5140), __byte_perm(third, fourth, 0x5140)};
    const unsigned high[2] = {__byte_perm(first, second, 0x7362), __byte_perm(third, fourth, 0x7362)};
    to[0] = __byte_perm(low[0], low[1], 0x5410);
    to[1] = __byte_perm(low[0], low[1], 0x7632);
    to[2] = __byte_perm(high[0], high[1], 0x5410);
    to[3] = __byte_perm(high[0], high[1], 0x7632);
}

// A chunk of a tile. NVRTC would read its words apart.
__device__ inline uint4 load_chunk(const void *place) {
    uint4 to;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
                 : "r"(shared_address(place))
                 : "memory");
    return to;
}

// Half of the registers of A's fragments, of 16 steps; for `part` 1 of the lower eight rows. A chunk has four steps
// of 32 bits, or eight of 16 bits, which are those of both halves.
template <int SIZE>
__device__ inline void fragments_of_a(unsigned (&to)[SIZE][4], int half, int part, const uint4 &chunk) {
    if constexpr (SIZE == 4) {
        unsigned words[4];
        bytes_of(words, chunk.x, chunk.y, chunk.z, chunk.w);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to[i][2 * half + part] = words[i];
        }
    } else {
        const unsigned first = half ? chunk.z : chunk.x, second = half ? chunk.w : chunk.y;
        to[0][2 * half + part] = __byte_perm(first, second, 0x6420);
        to[1][2 * half + part] = __byte_perm(first, second, 0x7531);
    }
}

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C: elements from one row to the next.
template <typename T, int BM, int BN, int WM, int STAGES, typename C = T, typename Finish = Rounded<C>,
          typename... Operands>
__global__ void __launch_bounds__(BM *BN / WM)
    tensor_core_words(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, Operands... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    constexpr int WN = 32, THREADS = BM * BN / WM, SIZE = sizeof(T), BK = 128 / SIZE;
    constexpr int RUN = 16 / SIZE;  // neighbouring rows of B that a lane reads, of 32
    constexpr int SUMS = SIZE == 4 ? 4 : Wraps<T, Finish>::YES ? 2 : 3;
    // Whether the sign of the highest byte counts: not if it adds multiples of 2^32, or of 2^16 to 16 bits of C.
    constexpr bool SIGN = SIZE == 2 && SUMS == 3 && T(-1) < T(0);
    static_assert(WM % 16 == 0 && BN % 64 == 0, "a warp must own whole fragments");

    struct alignas(4 * SIZE) Four {
        unsigned words[SIZE];
    };
    __shared__ __align__(128) T tile_a[STAGES][BM * BK];
    __shared__ __align__(128) T tile_b[STAGES][BK * BN];
    // The place of a chunk in its tile. 8 lanes read halves of two rows of A, of 128 bytes each, or 32 bytes of four
    // rows of B, which are RUN apart.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row % 2 * 4) * in_chunk<T>(); };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row / RUN % 4 * 2) * in_chunk<T>(); };

    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    TileCopy<T, BM, BK, THREADS, 2> copy_a(a, (long long)top * lda, lda, tile_a, place_a);
    TileCopy<T, BK, BN, THREADS, 4 * RUN> copy_b(b, left, ldb, tile_b, place_b);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, inner = lane % 4;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    const int first = column + 4 * group;  // of four neighbouring columns, one of each fragment
    const int of_lane_a = place_a(row + group, inner);
    const int of_lane_b = place_b(RUN * inner, first / in_chunk<T>()) + first % in_chunk<T>();

    unsigned sums[SUMS][WM / 16][4][4] = {};
    auto load = [&](int start, int stage) {
        copy_a.begin(stage, m - top, k - start, BK);
        copy_b.begin(stage, k - start, n - left, (long long)BK * ldb);
    };
    pipeline<BK, STAGES>(0, k, load, [&](int stage) {
#pragma unroll
        for (int l = 0; l < BK; l += 32) {
            unsigned of_b[SIZE][4][2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                Four rows[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int down = l + i + half * (SIZE == 4 ? 16 : 4);
                    rows[i] = *reinterpret_cast<const Four *>(&tile_b[stage][of_lane_b + down * BN]);
                }
#pragma unroll
                for (int word = 0; word < SIZE; ++word) {
                    unsigned words[4];
                    bytes_of(words, rows[0].words[word], rows[1].words[word], rows[2].words[word], rows[3].words[word]);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        of_b[i % SIZE][word * (4 / SIZE) + i / SIZE][half] = words[i];
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                unsigned of_a[SIZE][4];
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int chunk = SIZE == 4 ? part / 2 : l / 32;
                    const int from = (of_lane_a ^ chunk * 4 * in_chunk<T>()) + (16 * i + part % 2 * 8) * BK;
                    fragments_of_a(of_a, part / 2, part % 2, load_chunk(&tile_a[stage][from]));
                }
#pragma unroll
                for (int j = 0; j < 4 * SIZE * SIZE; ++j) {
                    constexpr int ALL = SIZE;
                    const int of = j / 4 / ALL, by = j / 4 % ALL;
                    if (of + by < SUMS) {
                        auto &to = sums[of + by][i][j % 4];
                        if (SIGN && of == ALL - 1 && by == ALL - 1) {
                            multiply<SIGN, SIGN>(to, of_a[of], of_b[by][j % 4]);
                        } else if (SIGN && of == ALL - 1) {
                            multiply<SIGN, false>(to, of_a[of], of_b[by][j % 4]);
                        } else if (SIGN && by == ALL - 1) {
                            multiply<false, SIGN>(to, of_a[of], of_b[by][j % 4]);
                        } else {
                            multiply<false, false>(to, of_a[of], of_b[by][j % 4]);
                        }
                    }
                }
            }
        }
    });

    // A lane has eight neighbouring columns, one after the other from all fragments.
    const bool wide_c = in_fours(c, ldc);
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        const int y = top + row + 8 * i + group;
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int x = left + column + 8 * inner + 4 * side, there = y < m ? n - x : 0;
            unsigned total[4] = {};
#pragma unroll
            for (int j = 0; j < 4 * SUMS; ++j) {
                total[j % 4] += sums[j / 4][i / 2][j % 4][i % 2 * 2 + side] << 8 * (j / 4);
            }
            store_four(c + (long long)y * ldc + x, there, wide_c, finish(total[0], y, x, there > 0),
                       finish(total[1], y, x + 1, there > 1), finish(total[2], y, x + 2, there > 2),
                       finish(total[3], y, x + 3, there > 3));
        }
    }
}
