// Blackwell: C = A B by products in tensor memory (tcgen05), of floats, summed in float32, and of bytes,
// summed in int32. One thread copies, one thread multiplies, and other warps store. For compute capability 10.0
// only (sm_100a).
//
// The copying thread fills a ring of STAGES tiles by TMA, swizzled by 128 bytes. Each stage has an mbarrier for "full",
// which counts bytes, and one for "empty", at which the products that read it arrive (tcgen05.commit). Sums lie in
// tensor memory, 128 rows by BN columns, twice: while warps store those of one tile, products add to those of the next.
// Blocks are persistent: each takes every gridDim.x-th tile, in groups of rows, which share data in L2.
//
// A and B may be row-major or column-major: the instruction descriptor says whether neighbours in memory are along k,
// or along m or n. Those of float32 must be along k.
//
// A warp reads 32 rows of sums, a lane each. It turns them in shared memory, so that a store writes parts of rows, and
// an epilogue reads its operands alike.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "boxes.cuh"
#include "finish.cuh"

constexpr int ROWS = 128;       // of a block's tile: the lanes of tensor memory
constexpr int STORERS = 8;      // warps that store: two for each 32 rows
constexpr int PART = 32;        // columns that a warp stores at a time
constexpr int TURNED = 32 * PART * 4;  // bytes of them, while they are turned

// A or B of one product of a batch, or the only one.
template <bool IS_A, typename Finish>
__device__ __forceinline__ const TensorMap &operand_of(const TensorMap &map, const Finish &, int) {
    return map;
}

template <bool IS_A, typename Finish>
__device__ __forceinline__ Matrices operand_of(const TensorMap &map, const InBatch<Finish> &of, int product) {
    const int y = product / of.inner, x = product % of.inner;
    return {map, y * (int)(IS_A ? of.outer_a : of.outer_b), x * (int)(IS_A ? of.inner_a : of.inner_b)};
}

// All threads of the block, or of a pair of blocks.
template <int BLOCKS>
__device__ inline void synchronise() {
    if constexpr (BLOCKS > 1) {
        synchronise_cluster();
    } else {
        __syncthreads();
    }
}

// One lane of a warp.
__device__ inline bool elected() {
    int found = 0;
    asm volatile("{\n.reg .pred it;\nelect.sync _|it, 0xffffffff;\nselp.s32 %0, 1, 0, it;\n}" : "=r"(found));
    return found;
}

// Tensor memory is used in the order of arrivals and waits: before the first, and after the second.
__device__ inline void before_arrival() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ inline void after_wait() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Kinds of products: of halves, of 8-bit floats, of bytes, and of floats whose low 13 bits are cut off.
enum { HALVES, FLOATS, BYTES, CUT };

// What is known of an element type: the kind of its products, its number in the instruction descriptor, and the types
// of sums and of C; 8-bit floats are too narrow for sums.
template <int OF_KIND, int ITS_NUMBER, typename SUM, typename RESULT>
struct Known {
    enum { KIND = OF_KIND, NUMBER = ITS_NUMBER };
    typedef SUM Sum;
    typedef RESULT Result;
};
template <typename T>
struct Of;
template <>
struct Of<__half> : Known<HALVES, 0, float, __half> {};
template <>
struct Of<__nv_bfloat16> : Known<HALVES, 1, float, __nv_bfloat16> {};
template <>
struct Of<__nv_fp8_e4m3> : Known<FLOATS, 0, float, float> {};
template <>
struct Of<__nv_fp8_e5m2> : Known<FLOATS, 1, float, float> {};
template <>
struct Of<float> : Known<CUT, 2, float, float> {};
template <>
struct Of<signed char> : Known<BYTES, 1, int, signed char> {};
template <>
struct Of<unsigned char> : Known<BYTES, 0, int, unsigned char> {};  // the bits of sums modulo 2^32

// Sums of `rows` rows and `columns` columns. An operand that is ACROSS is MN-major.
template <typename T, bool ACROSS_A, bool ACROSS_B>
__device__ constexpr unsigned instruction(int rows, int columns) {
    return (Of<T>::KIND == BYTES ? 2 : 1) << 4 | Of<T>::NUMBER << 7 | Of<T>::NUMBER << 10 | ACROSS_A << 15 |
           ACROSS_B << 16 | columns / 8 << 17 | rows / 16 << 24;
}

// What one block or a pair of blocks does with tensor memory.
template <int BLOCKS>
struct Tensor;

#define MULTIPLY(blocks, kind)                                                                                         \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.s32 adds, %4, 0;\ntcgen05.mma.cta_group::" #blocks ".kind::" kind       \
                 " [%0], %1, %2, %3, adds;\n}" ::"r"(d),                                                               \
                 "l"(a), "l"(b), "r"(shape), "r"((int)adds)                                                            \
                 : "memory")
#define TENSOR(blocks, arrives)                                                                                 \
    template <>                                                                                                       \
    struct Tensor<blocks> {                                                                                           \
        /* All columns: a block has the multiprocessor for itself. A warp of each block. */                           \
        __device__ static void allocate(unsigned place) {                                                             \
            asm volatile("tcgen05.alloc.cta_group::" #blocks ".sync.aligned.shared::cta.b32 [%0], 512;\n"             \
                         "tcgen05.relinquish_alloc_permit.cta_group::" #blocks ".sync.aligned;" ::"r"(place)          \
                         : "memory");                                                                                 \
        }                                                                                                             \
        __device__ static void free_columns(unsigned columns) {                                                       \
            asm volatile("tcgen05.dealloc.cta_group::" #blocks ".sync.aligned.b32 %0, 512;" ::"r"(columns)            \
                         : "memory");                                                                                 \
        }                                                                                                             \
        /* Arrives at an mbarrier, of each block, when all products of this thread are complete. */                   \
        __device__ static void commit(unsigned barrier) {                                                             \
            asm volatile("tcgen05.commit.cta_group::" #blocks ".mbarrier::arrive::one.shared::cluster" arrives        \
                         ::"r"(barrier), "h"((short)((1 << blocks) - 1))                                              \
                         : "memory");                                                                                 \
        }                                                                                                             \
        /* Starts D = A B, or D += A B if it `adds`: 32 bytes of k. */                                                \
        template <int KIND>                                                                                           \
        __device__ static void multiply(unsigned d, unsigned long long a, unsigned long long b, unsigned shape,       \
                                        bool adds) {                                                                  \
            if constexpr (KIND == HALVES) {                                                                           \
                MULTIPLY(blocks, "f16");                                                                              \
            } else if constexpr (KIND == FLOATS) {                                                                    \
                MULTIPLY(blocks, "f8f6f4");                                                                           \
            } else if constexpr (KIND == CUT) {                                                                       \
                MULTIPLY(blocks, "tf32");                                                                             \
            } else {                                                                                                  \
                MULTIPLY(blocks, "i8");                                                                               \
            }                                                                                                         \
        }                                                                                                             \
    };
TENSOR(1, ".b64 [%0];")
TENSOR(2, ".multicast::cluster.b64 [%0], %1;")
#undef TENSOR
#undef MULTIPLY

// The descriptor of a matrix in shared memory, swizzled by 128 bytes: groups of eight lines are 1024 bytes apart, and
// of an MN-major one the next 128 bytes of each line `leading` bytes.
__device__ inline unsigned long long descriptor(unsigned address, unsigned leading) {
    const unsigned long long strides = (leading >> 4) << 16 | (unsigned long long)(1024 >> 4) << 32;
    return (address & 0x3ffff) >> 4 | strides | 1ull << 46 | 2ull << 61;
}

#define EIGHT(i) "%" #i "0, %" #i "1, %" #i "2, %" #i "3, %" #i "4, %" #i "5, %" #i "6, %" #i "7, %" #i "8, %" #i "9, "
#define TO_FOUR(d, i) "=r"(d[i]), "=r"(d[i + 1]), "=r"(d[i + 2]), "=r"(d[i + 3])
#define TO_SIXTEEN(d, i) TO_FOUR(d, i), TO_FOUR(d, i + 4), TO_FOUR(d, i + 8), TO_FOUR(d, i + 12)
// Reads the bits of PART columns of the warp's rows, and waits for them.
__device__ inline void load_sums(unsigned (&sums)[PART], unsigned columns) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " EIGHT(1) EIGHT(2)
                 "%30, %31}, [%32];\n"
                 "tcgen05.wait::ld.sync.aligned;"
                 : TO_SIXTEEN(sums, 0), TO_SIXTEEN(sums, 16)
                 : "r"(columns)
                 : "memory");
}
#undef EIGHT
#undef TO_FOUR
#undef TO_SIXTEEN

// Before, a lane has a row of 32 columns; afterwards two columns of 16 rows, one pair after the other. The columns of a
// row are exchanged by the row's number, so that neither writes nor reads meet in a bank.
__device__ inline void turn(unsigned (&sums)[PART], unsigned *turned, int lane) {
#pragma unroll
    for (int x = 0; x < PART; ++x) {
        turned[lane * PART + (x ^ lane)] = sums[x];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int row = lane / 16 * 16 + i, x = lane % 16 * 2;
        const uint2 both = *reinterpret_cast<const uint2 *>(turned + row * PART + ((x ^ row) & ~1));
        sums[2 * i] = i % 2 ? both.y : both.x;
        sums[2 * i + 1] = i % 2 ? both.x : both.y;
    }
    __syncwarp();
}

// Writes an element if its place is `inside` C; predicated, to avoid branches.
#define STORE_INSIDE(width, letter, bits)                                                                          \
    asm volatile("{\n.reg .pred inside;\nsetp.ne.s32 inside, %1, 0;\n@inside st.global." width " [%0], %2;\n}" ::"l"( \
                     __cvta_generic_to_global(to)),                                                                \
                 "r"((int)inside), letter(bits)                                                                    \
                 : "memory")
template <typename T>
__device__ inline void store_inside(T *to, bool inside, T value) {
    if constexpr (sizeof(T) == 1) {
        STORE_INSIDE("b8", "h", (unsigned short)*reinterpret_cast<unsigned char *>(&value));
    } else if constexpr (sizeof(T) == 2) {
        STORE_INSIDE("b16", "h", *reinterpret_cast<unsigned short *>(&value));
    } else if constexpr (sizeof(T) == 4) {
        STORE_INSIDE("b32", "r", *reinterpret_cast<unsigned *>(&value));
    } else {
        STORE_INSIDE("b64", "l", *reinterpret_cast<unsigned long long *>(&value));
    }
}
#undef STORE_INSIDE

// Stores two columns of 16 rows; `whole` says that all of the warp's are inside C, and pairs are aligned.
template <typename Sum, typename C, typename Finish>
__device__ __forceinline__ void store(const unsigned (&sums)[PART], C *c, int top, int left, int m, int n, int ldc,
                                      bool whole, const Finish &finish) {
    C made[PART];
#pragma unroll
    for (int i = 0; i < PART; ++i) {
        const int y = top + i / 2, x = left + i % 2;
        made[i] = finish(reinterpret_cast<const Sum &>(sums[i]), y, x, y < m && x < n);
    }
    C *to = c + (long long)top * ldc + left;
    if (whole) {
#pragma unroll
        for (int i = 0; i < PART / 2; ++i, to += ldc) {
            *reinterpret_cast<Pair<C> *>(to) = {made[2 * i], made[2 * i + 1]};
        }
    } else {
#pragma unroll
        for (int i = 0; i < PART / 2; ++i, to += ldc) {
            store_inside(to, top + i < m && left < n, made[2 * i]);
            store_inside(to + 1, top + i < m && left + 1 < n, made[2 * i + 1]);
        }
    }
}

// The tiles of all C, by their numbers: down a column of a group of rows, then along the group, then the next group;
// product by product. A pair of blocks has two tiles, one below the other.
template <int BLOCKS, int BN>
struct Tiles {
    int rows, columns, products;

    __device__ Tiles(int m, int n, int products)
        : rows((m + BLOCKS * ROWS - 1) / (BLOCKS * ROWS)), columns((n + BN - 1) / BN), products(products) {}

    __device__ int count() const { return rows * columns * products; }

    // Returns the number of the product.
    __device__ int corner(int i, int rank, int &top, int &left) const {
        constexpr int MOST = GROUP / BLOCKS;
        const int product = i / (rows * columns);
        i -= product * (rows * columns);
        const int first = i / (MOST * columns) * MOST, height = min(MOST, rows - first);
        const int within = i - first * columns;
        top = ((first + within % height) * BLOCKS + rank) * ROWS;
        left = within / height * BN;
        return product;
    }
};

// Copies a tile of LINES rows of A, or columns of B, from `first` on, and 128 bytes of k from `step` on. If it is
// ACROSS, parts of 128 bytes along m or n lie one after the other, each with all steps of k.
template <typename T, int LINES, bool ACROSS, typename Map>
__device__ __forceinline__ void copy_tile(unsigned to, const Map &from, int first, int step, unsigned full) {
    constexpr int EACH = LINE / (int)sizeof(T);  // elements
    if constexpr (ACROSS) {
        static_assert(LINES % EACH == 0, "boxes are 128 bytes wide, and whole");
#pragma unroll
        for (int i = 0; i < LINES / 64; ++i, to += BOX) {
            copy_box(to, from, step + i * 64 % EACH, first + i * 64 / EACH * EACH, full);
        }
    } else {
#pragma unroll
        for (int i = 0; i < LINES / 64; ++i, to += BOX) {
            copy_box(to, from, first + i * 64, step, full);
        }
    }
}

// The place in a ring, and the parity of its phase.
template <int COUNT>
struct Turn {
    int at = 0, parity = 0;

    __device__ void next() {
        at = at + 1 == COUNT ? 0 : at + 1;
        parity ^= at == 0;
    }
};

// Where a block's shared memory has what; it holds `COLUMNS` columns of a tile of B.
template <int COLUMNS, int STAGES>
struct Shared {
    enum { TILE_A = ROWS * LINE, TILE_B = COLUMNS * LINE };
    unsigned tiles_a, tiles_b, turned, full, empty, summed, stored, place;

    __device__ explicit Shared(unsigned start)
        : tiles_a(start), tiles_b(tiles_a + STAGES * TILE_A), turned(tiles_b + STAGES * TILE_B),
          full(turned + STORERS * TURNED), empty(full + 8 * STAGES), summed(empty + 8 * STAGES),
          stored(summed + 2 * 8), place(stored + 2 * 8) {}
};

// The work of a block, or of one of a pair: each has half of the columns of B, and D for its rows by all columns.
template <typename T, int BLOCKS, int BN, int STAGES, bool COLUMNS_A, bool COLUMNS_B, typename C, typename Finish>
__device__ __forceinline__ void multiply_tiles(const TensorMap &a, const TensorMap &b, C *all_c, int m, int n, int k,
                                               int ldc, const Finish &of_all) {
    constexpr int BK = LINE / (int)sizeof(T), OF_B = BN / BLOCKS;
    constexpr bool ACROSS_A = COLUMNS_A, ACROSS_B = !COLUMNS_B;
    static_assert(sizeof(T) < 4 || !(ACROSS_A || ACROSS_B), "words of a line must be steps of k");
    typedef Tensor<BLOCKS> Memory;
    extern __shared__ __align__(1024) unsigned char shared[];
    const Shared<OF_B, STAGES> at((unsigned)__cvta_generic_to_shared(shared));
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int rank = 0;  // of the block in its pair
    if constexpr (BLOCKS > 1) {
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    }
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init(at.full + 8 * stage, rank == 0 ? BLOCKS : 1);
            init(at.empty + 8 * stage, 1);
        }
        for (int half = 0; half < 2; ++half) {
            init(at.summed + 8 * half, 1);
            init(at.stored + 8 * half, STORERS * BLOCKS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    } else if (warp == STORERS + 1) {
        Memory::allocate(at.place);
        before_arrival();
    }
    __syncwarp();
    synchronise<BLOCKS>();
    after_wait();
    unsigned columns;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(columns) : "r"(at.place) : "memory");

    const Tiles<BLOCKS, BN> tiles(m, n, Products<Finish>::count(of_all));
    const int steps = (k + BK - 1) / BK, first_tile = blockIdx.x / BLOCKS, apart = gridDim.x / BLOCKS;
    int top, left;
    if (warp == STORERS && elected()) {  // copies
        Turn<STAGES> stage;
        for (int tile = first_tile; tile < tiles.count(); tile += apart) {
            const int product = tiles.corner(tile, rank, top, left);
            decltype(auto) its_a = operand_of<true>(a, of_all, product);
            decltype(auto) its_b = operand_of<false>(b, of_all, product);
            left += rank * OF_B;
            for (int step = 0; step < steps; ++step, stage.next()) {
                const unsigned full = at.full + 8 * stage.at;
                wait(at.empty + 8 * stage.at, stage.parity ^ 1);
                expect(full, at.TILE_A + at.TILE_B);
                copy_tile<T, ROWS, ACROSS_A>(at.tiles_a + stage.at * at.TILE_A, its_a, top, step * BK, full);
                copy_tile<T, OF_B, ACROSS_B>(at.tiles_b + stage.at * at.TILE_B, its_b, left, step * BK, full);
            }
        }
    } else if (warp == STORERS + 1 && rank == 0 && elected()) {  // multiplies, for both blocks
        constexpr unsigned SHAPE = instruction<T, ACROSS_A, ACROSS_B>(BLOCKS * ROWS, BN);
        Turn<STAGES> stage;
        Turn<2> half;
        for (int tile = first_tile; tile < tiles.count(); tile += apart, half.next()) {
            wait(at.stored + 8 * half.at, half.parity ^ 1);
            after_wait();
            for (int step = 0; step < steps; ++step, stage.next()) {
                wait(at.full + 8 * stage.at, stage.parity);
                after_wait();
                const unsigned of_a = at.tiles_a + stage.at * at.TILE_A, of_b = at.tiles_b + stage.at * at.TILE_B;
#pragma unroll
                for (int l = 0; l < LINE; l += 32) {  // a step of k is part of a line, or some whole lines
                    const int down = l / (int)sizeof(T) * LINE;
                    Memory::template multiply<Of<T>::KIND>(
                        columns + half.at * BN, descriptor(of_a + (ACROSS_A ? down : l), BK * LINE),
                        descriptor(of_b + (ACROSS_B ? down : l), BK * LINE), SHAPE, step > 0 || l > 0);
                }
                Memory::commit(at.empty + 8 * stage.at);
            }
            Memory::commit(at.summed + 8 * half.at);
        }
    } else if (warp == STORERS + 1 && rank > 0 && elected()) {  // tells the first block which stages are full here
        Turn<STAGES> stage;
        for (int tile = first_tile; tile < tiles.count(); tile += apart) {
            for (int step = 0; step < steps; ++step, stage.next()) {
                wait(at.full + 8 * stage.at, stage.parity);
                arrive_at(0, at.full + 8 * stage.at);
            }
        }
    } else if (warp < STORERS) {
        unsigned *turned = reinterpret_cast<unsigned *>(shared + (at.turned - at.tiles_a) + warp * TURNED);
        Turn<2> half;
        for (int tile = first_tile; tile < tiles.count(); tile += apart, half.next()) {
            const int product = tiles.corner(tile, rank, top, left);
            C *c = all_c;
            Finish finish = of_all;
            find_result(finish, product, c);
            const bool wide_c = reinterpret_cast<size_t>(c) % (2 * sizeof(C)) == 0 && ldc % 2 == 0;
            top += 32 * (warp % 4);
            wait(at.summed + 8 * half.at, half.parity);
            after_wait();
            const int inside = min(BN, n - left);
#pragma unroll 1
            for (int part = warp / 4 * PART; part < inside; part += STORERS / 4 * PART) {
                unsigned sums[PART];
                load_sums(sums, columns + (32 * (warp % 4) << 16) + half.at * BN + part);
                turn(sums, turned, lane);
                store<typename Of<T>::Sum>(sums, c, top + lane / 16 * 16, left + part + lane % 16 * 2, m, n, ldc,
                      wide_c && top + 32 <= m && left + part + PART <= n, finish);
            }
            before_arrival();
            __syncwarp();
            if (lane == 0) {
                if constexpr (BLOCKS > 1) {
                    arrive_at(0, at.stored + 8 * half.at);
                } else {
                    arrive(at.stored + 8 * half.at);
                }
            }
        }
    }
    __syncwarp();
    before_arrival();
    synchronise<BLOCKS>();  // no block ends before the other has arrived at its mbarriers
    if (warp == STORERS + 1) {
        after_wait();
        Memory::free_columns(columns);
    }
}

// `ldc` is the leading dimension of C, in elements. Maps are of row-major matrices, or of a column-major one's
// transpose.
template <typename T, int BN, int STAGES, bool COLUMNS_A, bool COLUMNS_B,
          typename C = typename Of<T>::Result, typename Finish = Rounded<C>, typename... Operands>
__global__ void __launch_bounds__(32 * (STORERS + 2), 1)
    blackwell(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, C *c, int m, int n, int k,
              int ldc, Operands... of) {
    multiply_tiles<T, 1, BN, STAGES, COLUMNS_A, COLUMNS_B>(a, b, c, m, n, k, ldc, Finish{of...});
}
