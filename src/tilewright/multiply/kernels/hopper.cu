// Hopper: C = A B for halves and 8-bit floats, summed in float32, and bytes, summed in int32. Consumer warpgroups only
// multiply, and one producer warpgroup only copies. For compute capability 9.0 only (`wgmma` and `setmaxnreg` need
// sm_90a).
//
// One thread of the producer copies boxes of A and B, swizzled by 128 bytes, into a ring of STAGES tiles. Each stage
// has an mbarrier for "full" and one for "empty", at which its readers arrive. Each consumer multiplies 64 rows by BN
// columns (wgmma.m64nNk16); its sums use the registers that the producer gives up. Blocks are persistent: each takes
// every gridDim.x-th tile. Tiles come in groups of rows, so that tiles in progress at one time share data in L2.
//
// A and B may be row-major or column-major: a descriptor says whether neighbours in memory are along k, or along m or
// n. For bytes and floats it must be k. Tensor cores keep 13 fraction bits of their sums of 8-bit floats, and round
// those of tf32 towards zero, so the sums of a tile begin at 0, and the float32 units add them to the others.
//
// A and B may be sums of planes (hopper_planes.cu), which lie one below the other in their maps.
//
// In the fast.cu worklog this is the rung "PTX mbarriers" (704 TFLOPS at 4096^3 on an H100): tiles of 128 x 256 x 64,
// two consumers, setmaxnreg, persistent, without clusters and stores by TMA. It has four stages, and B row-major.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "boxes.cuh"
#include "finish.cuh"

// The types of sums and of C, and whether the sums of a tile begin at 0: 8-bit floats are too narrow for sums.
template <typename T, typename SUM = float, typename RESULT = T, bool PARTS = false>
struct Types {
    typedef SUM Sum;
    typedef RESULT Result;
    enum { IN_PARTS = PARTS };
};
template <typename T>
struct Of : Types<T> {};
template <>
struct Of<__nv_fp8_e4m3> : Types<__nv_fp8_e4m3, float, float, true> {};
template <>
struct Of<__nv_fp8_e5m2> : Types<__nv_fp8_e5m2, float, float, true> {};
template <>
struct Of<float> : Types<float, float, float, true> {};
template <>
struct Of<signed char> : Types<signed char, int> {};
template <>
struct Of<unsigned char> : Types<unsigned char, int> {};

// What A and B consist of: one plane each. See hopper_planes.cu for others.
struct OnePlane {
    enum { RUNS = 1, TOGETHER = 1 };

    template <typename Sums>
    __device__ static void carry(Sums &) {}
};

// An operand as copies of boxes take it.
template <typename Finish>
__device__ __forceinline__ const TensorMap &matrices(const TensorMap &map, const Finish &) {
    return map;
}

template <typename Finish>
__device__ __forceinline__ Matrices matrices(const TensorMap &map, const InBatch<Finish> &) {
    return {map, 0, 0};
}

// The descriptor of a matrix in shared memory, swizzled by 128 bytes; `leading` and `stride` as in wgmma's descriptors.
__device__ inline unsigned long long descriptor(unsigned address, unsigned leading, unsigned stride) {
    const unsigned long long strides = (leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32;
    return (address & 0x3ffff) >> 4 | strides | 1ull << 62;  // in a cluster, the upper bits of an address are its block
}

#define TEN(t) \
    "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define SUMS64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63"
#define SUMS128 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) \
        TEN(10) TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define FOUR(c, d, i) "+" c(d[i]), "+" c(d[i + 1]), "+" c(d[i + 2]), "+" c(d[i + 3])
#define SIXTEEN(c, d, i) FOUR(c, d, i), FOUR(c, d, i + 4), FOUR(c, d, i + 8), FOUR(c, d, i + 12)
#define SIXTY_FOUR(c, d, i) SIXTEEN(c, d, i), SIXTEEN(c, d, i + 16), SIXTEEN(c, d, i + 32), SIXTEEN(c, d, i + 48)
#define TWO_OF_64(c) SIXTY_FOUR(c, d, 0), SIXTY_FOUR(c, d, 64)

// Starts D = A B of one warpgroup, or D += A B with ADD: 64 rows, 32 bytes of k. An operand that is ACROSS is MN-major:
// neighbours in memory are along m or n.
#define MULTIPLY(count, form, sum, type, operands, of_a, of_b, add, across)                                      \
    template <bool ADD, bool ACROSS_A, bool ACROSS_B>                                                            \
    __device__ inline void multiply(sum(&d)[count], unsigned long long a, unsigned long long b, type) {          \
        asm volatile("wgmma.mma_async.sync.aligned." form " {" SUMS##count "}, " of_a ", " of_b ", " add across ";" \
                     : operands                                                                                  \
                     : "l"(a), "l"(b), "n"(ADD), "n"(ACROSS_A), "n"(ACROSS_B));                                  \
    }
#define MULTIPLY64(form, type, across) \
    MULTIPLY(64, form, float, type, SIXTY_FOUR("f", d, 0), "%64", "%65", "%66", across)
#define MULTIPLY128(form, sum, letter, type, across) \
    MULTIPLY(128, form, sum, type, TWO_OF_64(letter), "%128", "%129", "%130", across)
MULTIPLY64("m64n128k16.f32.f16.f16", __half, ", 1, 1, %67, %68")
MULTIPLY64("m64n128k16.f32.bf16.bf16", __nv_bfloat16, ", 1, 1, %67, %68")
MULTIPLY64("m64n128k32.f32.e4m3.e4m3", __nv_fp8_e4m3, ", 1, 1")
MULTIPLY64("m64n128k32.f32.e5m2.e5m2", __nv_fp8_e5m2, ", 1, 1")
MULTIPLY64("m64n128k8.f32.tf32.tf32", float, ", 1, 1")
MULTIPLY128("m64n256k16.f32.f16.f16", float, "f", __half, ", 1, 1, %131, %132")
MULTIPLY128("m64n256k16.f32.bf16.bf16", float, "f", __nv_bfloat16, ", 1, 1, %131, %132")
MULTIPLY128("m64n256k32.s32.s8.s8", int, "r", signed char, "")
MULTIPLY128("m64n256k32.s32.u8.u8", int, "r", unsigned char, "")

// Keeps the compiler from moving accesses of sums across the waits and fences of products, which it does not know.
#define KEEP(type, letter)                            \
    template <int N>                                  \
    __device__ inline void keep(type(&d)[N]) {        \
        _Pragma("unroll") for (int i = 0; i < N; ++i) { \
            asm volatile("" : "+" letter(d[i])::"memory"); \
        }                                             \
    }
KEEP(float, "f")
KEEP(int, "r")

// A number as a type.
template <bool IT>
struct Says {
    enum { VALUE = IT };
};

// Writes an element of a row if `left`, the elements before the row's end, allows it; predicated, to avoid branches.
#define STORE_WITHIN(width, letter, bits)                                                                        \
    asm volatile("{\n.reg .pred inside;\nsetp.gt.s32 inside, %1, 0;\n@inside st.global." width " [%0], %2;\n}" ::"l"( \
                     __cvta_generic_to_global(to)),                                                              \
                 "r"(left), letter(bits)                                                                         \
                 : "memory")
template <typename T>
__device__ inline void store_within(T *to, int left, T value) {
    if constexpr (sizeof(T) == 1) {
        STORE_WITHIN("b8", "h", (unsigned short)*reinterpret_cast<unsigned char *>(&value));
    } else if constexpr (sizeof(T) == 2) {
        STORE_WITHIN("b16", "h", *reinterpret_cast<unsigned short *>(&value));
    } else if constexpr (sizeof(T) == 4) {
        STORE_WITHIN("b32", "r", *reinterpret_cast<unsigned *>(&value));
    } else {
        STORE_WITHIN("b64", "l", *reinterpret_cast<unsigned long long *>(&value));
    }
}
#undef STORE_WITHIN

// How results go to C: by lanes, or by copies of boxes. Each consumer has room for two boxes.
struct ByLanes {
    enum { BOXES = 0 };
    static constexpr bool on = false;
    const TensorMap *map;
};
struct ByBoxes {
    enum { BOXES = 2 };
    const TensorMap *map;
    bool on;
};

// All threads of a consumer.
__device__ inline void meet(int consumer) {
    asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory");
}

// Starts to copy a box to a tensor, with its first element at [y, x].
__device__ inline void store_box(const TensorMap &to, unsigned from, int y, int x) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to), "r"(x),
                 "r"(y), "r"(from)
                 : "memory");
}

__device__ inline void store_box(const Matrices &to, unsigned from, int y, int x) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&to.map),
                 "r"(x), "r"(y), "r"(to.inner), "r"(to.outer), "r"(from)
                 : "memory");
}

// Stores a consumer's results to C, box by box. It fills one of its two places in shared memory while TMA reads the
// other. A lane has two neighbouring results of rows lane / 4 and lane / 4 + 8 of each eight columns.
template <typename C, int BN, typename Map, typename Finish>
__device__ __forceinline__ void store_boxes(const Map &to, unsigned places, const float (&sums)[BN / 2], int top,
                                            int left, int m, int n, const Finish &finish) {
    constexpr int WIDE = LINE / (int)sizeof(C);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, consumer = warp / 4;
    const bool copies = threadIdx.x % 128 == 0;
#pragma unroll
    for (int box = 0; box < BN / WIDE; ++box) {
        const unsigned place = places + (2 * consumer + box % 2) * BOX;
        if (copies) {
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        }
        meet(consumer);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int line = 16 * (warp % 4) + 8 * i + lane / 4, y = top + 64 * consumer + line;
#pragma unroll
            for (int j = 0; j < WIDE / 8; ++j) {
                const int x = 8 * j + lane % 4 * 2, at = left + box * WIDE + x, byte = x * (int)sizeof(C);
                const float *of = sums + 4 * (box * WIDE / 8 + j) + 2 * i;
                const unsigned offset = line * LINE + ((byte / 16) ^ (line % 8)) * 16 + byte % 16;
                *reinterpret_cast<Pair<C> *>(__cvta_shared_to_generic(place + offset)) = {
                    finish(of[0], y, at, y < m && at < n), finish(of[1], y, at + 1, y < m && at + 1 < n)};
            }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet(consumer);
        if (copies) {
            store_box(to, place, top + 64 * consumer, left + box * WIDE);
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
}

// The work of a block. Blocks of a cluster have tiles below each other: each copies a part of B's tile to all of them.
template <typename T, int CONSUMERS, int BN, int STAGES, int CLUSTER, bool COLUMNS_A, bool COLUMNS_B, typename C,
          typename Finish, typename Stores = ByLanes, typename Planes = OnePlane>
__device__ __forceinline__ void multiply_tiles(const TensorMap &of_a, const TensorMap &of_b, C *all_c, int m, int n,
                                               int k, int ldc, const Finish &of_all, const Stores &stores = Stores()) {
    constexpr int BM = 64 * CONSUMERS, BK = LINE / (int)sizeof(T);
    constexpr int TILE_A = BM * LINE, TILE_B = BN * LINE, TOGETHER = Planes::TOGETHER;  // tiles of each in a stage
    constexpr int STAGE_A = TOGETHER * TILE_A, STAGE_B = TOGETHER * TILE_B;
    constexpr bool ACROSS_A = COLUMNS_A, ACROSS_B = !COLUMNS_B, IN_PARTS = Of<T>::IN_PARTS;
    typedef typename Of<T>::Sum Sum;
    static_assert(BN % (64 * CLUSTER) == 0, "boxes are 128 bytes wide, and whole");
    static_assert(sizeof(T) == 2 || !(ACROSS_A || ACROSS_B), "the bytes of a line must be steps of k");

    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned tiles_a = (unsigned)__cvta_generic_to_shared(shared);
    const unsigned tiles_b = tiles_a + STAGES * STAGE_A;
    const unsigned places = tiles_b + STAGES * STAGE_B;  // of boxes of C
    const unsigned full = places + CONSUMERS * Stores::BOXES * BOX;
    const unsigned empty = full + STAGES * 8;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init(full + 8 * stage, 1);
            init(empty + 8 * stage, 4 * CONSUMERS * CLUSTER);  // a lane of each warp arrives
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    int rank = 0;  // of the block in its cluster
    if constexpr (CLUSTER > 1) {
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        synchronise_cluster();
    } else {
        __syncthreads();
    }

    const int rows = (m + BM * CLUSTER - 1) / (BM * CLUSTER), columns = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK, tiles = rows * columns * Products<Finish>::count(of_all);
    decltype(auto) a = matrices(of_a, of_all);
    decltype(auto) b = matrices(of_b, of_all);
    int product = 0;
    // Tile number i: down a column of a group of rows, then along the group, then the next group; product by product.
    auto corner = [&](int i, int &top, int &left) {
        constexpr int MOST = GROUP / CLUSTER;
        if constexpr (Products<Finish>::MANY) {
            product = i / (rows * columns);
            i -= product * (rows * columns);
            const int y = product / of_all.inner, x = product % of_all.inner;
            a.outer = y * (int)of_all.outer_a;
            a.inner = x * (int)of_all.inner_a;
            b.outer = y * (int)of_all.outer_b;
            b.inner = x * (int)of_all.inner_b;
        }
        const int first = i / (MOST * columns) * MOST, height = min(MOST, rows - first), within = i - first * columns;
        top = ((first + within % height) * CLUSTER + rank) * BM;
        left = within / height * BN;
    };
    const int first_tile = blockIdx.x / CLUSTER, apart = gridDim.x / CLUSTER;
    int stage = 0, phase = 0, top, left;
    auto next = [&]() {
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        phase ^= stage == 0;
    };

    // Starts to copy a tile of A and one of B, of these planes or of all of a stage.
    auto copy_stage = [&](int step, int plane_a, int plane_b) {
        wait(empty + 8 * stage, phase ^ 1);  // before the first phase, the previous one is complete
        expect(full + 8 * stage, STAGE_A + STAGE_B);
#pragma unroll
        for (int plane = 0; plane < TOGETHER; ++plane, plane_a += 1, plane_b += 1) {
#pragma unroll
            for (int y = 0; y < BM; y += 64) {
                const unsigned to = tiles_a + stage * STAGE_A + plane * TILE_A + y / 64 * BOX;
                const int line = plane_a * m + (ACROSS_A ? step * BK : top + y);
                copy_box(to, a, line, ACROSS_A ? top + y : step * BK, full + 8 * stage);
            }
#pragma unroll
            for (int part = 0; part < BN / CLUSTER; part += 64) {
                const int x = rank * (BN / CLUSTER) + part;
                const unsigned to = tiles_b + stage * STAGE_B + plane * TILE_B + x / 64 * BOX;
                const int line = plane_b * n + (ACROSS_B ? step * BK : left + x);
                const int first = ACROSS_B ? left + x : step * BK;
                if constexpr (CLUSTER > 1) {
                    copy_box_to((1 << CLUSTER) - 1, to, b, line, first, full + 8 * stage);
                } else {
                    copy_box(to, b, line, first, full + 8 * stage);
                }
            }
        }
    };

    if (threadIdx.x >= 128 * CONSUMERS) {  // the producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 128 * CONSUMERS) {
            for (int tile = first_tile; tile < tiles; tile += apart) {
                corner(tile, top, left);
                // Planes `run` of A and `level - run` of B are multiplied at a time, or all of a stage.
                for (int level = Planes::RUNS - 1; level >= 0; --level) {
                    for (int run = 0; run <= level; ++run) {
                        for (int step = 0; step < steps; ++step, next()) {
                            copy_stage(step, run, level - run);
                        }
                    }
                }
            }
        }
        if constexpr (CLUSTER > 1) {
            __syncwarp();
            synchronise_cluster();
        }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Tells all blocks that copy to a stage that it may be overwritten.
    auto give_back = [&](unsigned barrier, bool is_due) {
        __syncwarp();
        if (is_due && lane < CLUSTER) {
            if constexpr (CLUSTER > 1) {
                arrive_at(lane, barrier);
            } else {
                arrive(barrier);
            }
        }
    };
    Sum of_tile[BN / 2] = {};  // unused, and removed, if sums are not in parts
    for (int tile = first_tile; tile < tiles; tile += apart) {
        corner(tile, top, left);
        Sum sums[BN / 2] = {};
        unsigned before = 0;  // the mbarrier of the stage whose products may be in flight
        auto multiply_stage = [&]() {
            wait(full + 8 * stage, phase);
            // Lines are 128 bytes apart, groups of eight 1024; a step of k is part of a line, or some whole lines.
            const unsigned at_a = tiles_a + stage * STAGE_A + warp / 4 * BOX, at_b = tiles_b + stage * STAGE_B;
            auto &to = IN_PARTS ? of_tile : sums;
            keep(to);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            auto some = [&](auto add, int l, int plane_a, int plane_b) {  // 32 bytes of k, from byte l on
                const int down = l / (int)sizeof(T) * LINE;
                multiply<decltype(add)::VALUE, ACROSS_A, ACROSS_B>(
                    to, descriptor(at_a + plane_a * TILE_A + (ACROSS_A ? down : l), BOX, 1024),
                    descriptor(at_b + plane_b * TILE_B + (ACROSS_B ? down : l), BOX, 1024), T());
            };
            some(Says<!IN_PARTS>(), 0, 0, TOGETHER - 1);
#pragma unroll
            for (int level = TOGETHER - 1; level >= 0; --level) {  // the smallest products first
#pragma unroll
                for (int plane = 0; plane <= level; ++plane) {
#pragma unroll
                    for (int l = level == TOGETHER - 1 && plane == 0 ? 32 : 0; l < LINE; l += 32) {
                        some(Says<true>(), l, plane, level - plane);
                    }
                }
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            keep(to);
            asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(IN_PARTS ? 0 : 1) : "memory");
            if (IN_PARTS) {
                keep(to);
                give_back(empty + 8 * stage, true);
#pragma unroll
                for (int i = 0; i < BN / 2; ++i) {
                    sums[i] += of_tile[i];
                }
            } else {
                give_back(before, before != 0);
                before = empty + 8 * stage;
            }
        };
        auto finish_products = [&]() {
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            keep(sums);
        };
        for (int level = Planes::RUNS - 1; level >= 0; --level) {
            for (int step = 0; step < (level + 1) * steps; ++step, next()) {
                multiply_stage();
            }
            if (level > 0) {
                finish_products();
                Planes::carry(sums);
            }
        }
        if (!IN_PARTS) {
            finish_products();
            give_back(before, true);
        }

        C *c = all_c;
        Finish finish = of_all;
        find_result(finish, product, c);
        if constexpr (Stores::BOXES > 0) {
            if (stores.on) {
                if constexpr (Products<Finish>::MANY) {
                    const Matrices to{*stores.map, product / of_all.inner, product % of_all.inner};
                    store_boxes<C, BN>(to, places, sums, top, left, m, n, finish);
                } else {
                    store_boxes<C, BN>(*stores.map, places, sums, top, left, m, n, finish);
                }
                continue;
            }
        }
        const bool wide_c = reinterpret_cast<size_t>(c) % (2 * sizeof(C)) == 0 && ldc % 2 == 0;
        // A lane has two neighbouring results of rows lane / 4 and lane / 4 + 8 of each eight columns.
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int y = top + 16 * warp + 8 * i + lane / 4, x = left + lane % 4 * 2;
            C *to = c + (long long)y * ldc + x;
            C made[BN / 4];
#pragma unroll
            for (int j = 0; j < BN / 4; ++j) {
                const int at = x + j / 2 * 8 + j % 2;
                made[j] = finish(sums[4 * (j / 2) + 2 * i + j % 2], y, at, y < m && at < n);
            }
            if (left + BN <= n && wide_c && y < m) {
#pragma unroll
                for (int j = 0; j < BN / 8; ++j) {
                    *reinterpret_cast<Pair<C> *>(to + 8 * j) = {made[2 * j], made[2 * j + 1]};
                }
            } else if (y < m) {
#pragma unroll
                for (int j = 0; j < BN / 4; ++j) {
                    const int at = j / 2 * 8 + j % 2;
                    store_within(to + at, n - x - at, made[j]);
                }
            }
        }
    }
    if constexpr (Stores::BOXES > 0) {
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    if constexpr (CLUSTER > 1) {
        synchronise_cluster();  // no block ends before the others have arrived at its mbarriers
    }
}

// `ldc` is the leading dimension of C, in elements. Maps are of row-major matrices, or of a column-major one's
// transpose.
template <typename T, int CONSUMERS, int BN, int STAGES, bool COLUMNS_A, bool COLUMNS_B,
          typename C = typename Of<T>::Result, typename Finish = Rounded<C>, typename... Operands>
__global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
    hopper(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, C *c, int m, int n, int k, int ldc,
           Operands... of) {
    multiply_tiles<T, CONSUMERS, BN, STAGES, 1, COLUMNS_A, COLUMNS_B>(a, b, c, m, n, k, ldc, Finish{of...});
}
