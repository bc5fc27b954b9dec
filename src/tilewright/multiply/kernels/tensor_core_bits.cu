// Products of truth values on tensor cores: they count the steps in which both row and column are set, 256 at a time. A
// count above 0 is true for `or-and`, an odd count for `xor-and`. For compute capability 8.0 and newer.
//
// A, B and C have a byte for each value, 0 or 1; a block packs its tiles into bits as it reads them. A word has the
// bits of 32 steps. Four bytes are read at once, and each gives one bit to its byte of the word, so a shift and an or
// pack four. A and B only need the same order of steps in a word: bit 8 c + i is byte c of the thread's word i.

#include "tiles.cuh"

enum { STEPS = 256, HALF = STEPS / 2, WORDS = STEPS / 32 };

// D = A B + D of one warp, 16 x 8 counts.
__device__ inline void multiply(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The lowest bits of four bytes.
__device__ inline unsigned truths(unsigned bytes) { return bytes & 0x01010101; }

// A word of bits of a row of A: 16 steps, and 16 more half a tile further on; `left` steps are before the row's end.
__device__ inline unsigned pack_row(const unsigned char *from, int left, bool wide) {
    unsigned word = 0;
#pragma unroll
    for (int part = 0; part < 2; ++part, from += HALF, left -= HALF) {
        if (wide && left >= 16) {
            const uint4 read = *reinterpret_cast<const uint4 *>(from);
            word |= (truths(read.x) | truths(read.y) << 1 | truths(read.z) << 2 | truths(read.w) << 3) << 4 * part;
        } else {
#pragma unroll 1
            for (int i = 0; i < min(left, 16); ++i) {
                word |= (from[i] & 1u) << (i % 4 * 8 + i / 4 + 4 * part);
            }
        }
    }
    return word;
}

// Four neighbouring bytes of a row, of which `left` are before its end.
__device__ inline unsigned read_four(const unsigned char *from, int left, bool wide) {
    if (wide && left >= 4) {
        return *reinterpret_cast<const unsigned *>(from);
    }
    unsigned bytes = 0;
#pragma unroll 1
    for (int i = 0; i < min(left, 4); ++i) {
        bytes |= from[i] << 8 * i;
    }
    return bytes;
}

// The same steps of four neighbouring columns of B, of which `columns` are before its end.
__device__ inline void pack_columns(unsigned (&words)[4], const unsigned char *from, long long ldb, int left,
                                    int columns, bool wide) {
    unsigned of_bytes[4] = {};  // byte c of word g has byte g of column c
    if (wide && columns >= 4 && left >= HALF + 16) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int step = i % 16 + i / 16 * HALF;
            of_bytes[i % 4] |= truths(*reinterpret_cast<const unsigned *>(from + step * ldb)) << i / 4;
        }
    } else {
#pragma unroll
        for (int g = 0; g < 4; ++g) {
#pragma unroll 1
            for (int i = 0; i < 8; ++i) {
                const int step = i % 4 * 4 + g + i / 4 * HALF;
                if (step < left) {
                    of_bytes[g] |= truths(read_four(from + step * ldb, columns, wide)) << i;
                }
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const unsigned choice = half ? 0x7362 : 0x5140;
        const unsigned first = __byte_perm(of_bytes[0], of_bytes[1], choice);
        const unsigned second = __byte_perm(of_bytes[2], of_bytes[3], choice);
        words[2 * half] = __byte_perm(first, second, 0x5410);
        words[2 * half + 1] = __byte_perm(first, second, 0x7632);
    }
}

// The place of a column's words in B's tile. Every fourth word of 128, and 2 of each 8 words of 32, are in all banks.
__device__ inline int place(int column) {
    return ((column ^ column >> 2) & 1) | column >> 3 << 1 | (column & 1) << 5 | (column >> 1 & 1) << 6;
}

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C: elements from one row to the next.
template <bool PARITY, typename Batch = Alone, typename... Of>
__global__ void __launch_bounds__(256, 1) tensor_core_bits(const unsigned char *a, const unsigned char *b,
                                                        unsigned char *c, int m, int n, int k, int lda, int ldb,
                                                        int ldc, Of... of) {
    Batch batch{of...};
    find_product(batch, a, b, c);
    constexpr int EDGE = 128, WM = 64, WN = 32, ROWS = WM / 16, COLUMNS = WN / 8;
    // A's tile has halves of rows, four words each, for ldmatrix; B's has a word per column. Gaps avoid bank conflicts.
    constexpr int HALF_A = 4 * EDGE + 16, WORD_B = EDGE + 8;
    __shared__ __align__(128) unsigned tile_a[2][2 * HALF_A], tile_b[2][WORDS * WORD_B];

    const int top = blockIdx.y * EDGE, left = blockIdx.x * EDGE, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool wide_a = reinterpret_cast<size_t>(a) % 16 == 0 && lda % 16 == 0;
    const bool wide_b = reinterpret_cast<size_t>(b) % 4 == 0 && ldb % 4 == 0;

    // A thread packs a word of every 32nd row of A. A warp packs one word of B's columns, each thread that of four.
    const int word = threadIdx.x % WORDS;
    auto load = [&](int start, int stage) {
#pragma unroll
        for (int y = threadIdx.x / WORDS; y < EDGE; y += 256 / WORDS) {
            const unsigned char *from = a + (long long)(top + y) * lda + start + 16 * word;
            tile_a[stage][word / 4 * HALF_A + 4 * y + word % 4] =
                top + y < m ? pack_row(from, k - start - 16 * word, wide_a) : 0;
        }
        const int x = 4 * lane, step = start + 16 * warp;
        unsigned words[4];
        pack_columns(words, b + (long long)step * ldb + left + x, ldb, k - step, n - left - x, wide_b);
#pragma unroll
        for (int column = 0; column < 4; ++column) {
            tile_b[stage][warp * WORD_B + place(x + column)] = words[column];
        }
    };

    // A lane has two neighbouring columns of a fragment, and eight of all fragments.
    const int row = warp / 4 * WM, column = warp % 4 * WN, own = lane / 8 * 8 + lane / 4 % 2;
    const unsigned of_lane_a = shared_address(&tile_a[0][lane / 16 * HALF_A + 4 * (row + lane % 16)]);
    int sums[ROWS][COLUMNS][4] = {};
    load(0, 0);
    for (int start = 0, stage = 0; start < k; start += STEPS, stage ^= 1) {
        __syncthreads();  // the tiles of this step are complete, and all threads have read those of the step before
        if (start + STEPS < k) {
            load(start + STEPS, stage ^ 1);
        }
        unsigned of_a[ROWS][4], of_b[COLUMNS][2];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            load_matrices(of_a[i], of_lane_a + 4 * (stage * 2 * HALF_A + 4 * 16 * i));
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const unsigned *from = &tile_b[stage][lane % 4 * WORD_B + place(column + own + 2 * j)];
            of_b[j][0] = from[0];
            of_b[j][1] = from[4 * WORD_B];
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                multiply(sums[i][j], of_a[i], of_b[j]);
            }
        }
    }

    const bool wide_c = reinterpret_cast<size_t>(c) % 8 == 0 && ldc % 8 == 0;
#pragma unroll
    for (int i = 0; i < 2 * ROWS; ++i) {
        const int y = top + row + 8 * i + lane / 4, x = left + column + lane % 4 * 8, there = y < m ? n - x : 0;
        unsigned char *to = c + (long long)y * ldc + x;
        unsigned bytes[2] = {};
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int count = sums[i / 2][j / 2][i % 2 * 2 + j % 2];
            bytes[j / 4] |= unsigned(PARITY ? count & 1 : count != 0) << j % 4 * 8;
        }
        if (wide_c && there >= 8) {
            *reinterpret_cast<uint2 *>(to) = make_uint2(bytes[0], bytes[1]);
        } else {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                if (j < there) {
                    to[j] = bytes[j / 4] >> j % 4 * 8;
                }
            }
        }
    }
}
