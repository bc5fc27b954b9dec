// Hopper: C = A B for halves, summed in float32, by warpgroups that do nothing but multiply and one that does nothing but
// copy. For compute capability 9.0 alone (`wgmma` and `setmaxnreg` are of sm_90a).
//
// One thread of the producer copies boxes of A and B, swizzled by 128 bytes, into a ring of STAGES tiles: each has an
// mbarrier that says it is full, and one that says all who read it are done. Each of the consumers multiplies 64 rows by
// BN columns (wgmma.m64nNk16), whose sums lie in the registers that the producer gives up. Blocks are persistent: each
// takes every gridDim.x-th tile, and tiles come in groups of rows so that those at work at a time share what L2 holds.
//
// Of the fast.cu worklog it is the rung "PTX mbarriers" (704 TFLOPS at 4096^3 on an H100): tiles of 128 x 256 x 64, two
// consumers, setmaxnreg, persistent, neither clusters nor stores by TMA. It has four stages, and B by rows.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// What the launch makes of a matrix for copies of its boxes: 128 bytes that only such copies read.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

constexpr int BK = 64;           // elements in 128 bytes, the swizzle's width
constexpr int BOX = 64 * BK * 2;  // bytes of a box of 64 rows
constexpr int GROUP = 16;        // rows of tiles that are taken together

__device__ inline void init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of that parity is complete.
__device__ inline void wait(unsigned barrier, int parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier), "r"(parity)
                 : "memory");
}

// Begins to copy the box of a tensor whose first element is [y, x]; the mbarrier is told of its bytes.
__device__ inline void copy_box(unsigned to, const TensorMap &from, int y, int x, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}

// The same, to the same place of the blocks of a cluster that a mask names; the mbarrier of each is told.
__device__ inline void copy_box_to(int blocks, unsigned to, const TensorMap &from, int y, int x, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(barrier), "h"((short)blocks)
                 : "memory");
}

// Arrives at the mbarrier at that place of another block of the cluster.
__device__ inline void arrive_at(int block, unsigned barrier) {
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(barrier), "r"(block)
                 : "memory");
}

__device__ inline void synchronise_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where a matrix lies in shared memory, swizzled by 128 bytes: `leading` and `stride` as wgmma's descriptors name them.
__device__ inline unsigned long long descriptor(unsigned address, unsigned leading, unsigned stride) {
    const unsigned long long strides = (leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32;
    return (address & 0x3ffff) >> 4 | strides | 1ull << 62;  // in a cluster, addresses have their block above
}

#define TEN(t) \
    "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define SUMS64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63"
#define SUMS128 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) \
        TEN(10) TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
#define SIXTY_FOUR(d, i) SIXTEEN(d, i), SIXTEEN(d, i + 16), SIXTEEN(d, i + 32), SIXTEEN(d, i + 48)

// D += A B of one warpgroup, begun: 64 rows, 16 steps of k; rows of B lie side by side.
#define MULTIPLY(count, columns, type, name, operands, a_register, b_register)                                       \
    __device__ inline void multiply(float (&d)[count], unsigned long long a, unsigned long long b, type) {           \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." name "." name " {" SUMS##count "}, "     \
                     a_register ", " b_register ", 1, 1, 1, 0, 1;"                                                   \
                     : operands                                                                                      \
                     : "l"(a), "l"(b));                                                                              \
    }
#define TWO_OF_64 SIXTY_FOUR(d, 0), SIXTY_FOUR(d, 64)
MULTIPLY(64, "128", __half, "f16", SIXTY_FOUR(d, 0), "%64", "%65")
MULTIPLY(64, "128", __nv_bfloat16, "bf16", SIXTY_FOUR(d, 0), "%64", "%65")
MULTIPLY(128, "256", __half, "f16", TWO_OF_64, "%128", "%129")
MULTIPLY(128, "256", __nv_bfloat16, "bf16", TWO_OF_64, "%128", "%129")

// The compiler must not move what reads or writes sums across the waits and fences of products, which it cannot see.
template <int N>
__device__ inline void keep(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

// Writes an element of a row, of which `left` are before its end. Branches would make hundreds of blocks of code.
template <typename T>
__device__ inline void store_within(T *to, int left, T value) {
    asm volatile("{\n"
                 ".reg .pred inside;\n"
                 "setp.gt.s32 inside, %1, 0;\n"
                 "@inside st.global.b16 [%0], %2;\n"
                 "}" ::"l"(__cvta_generic_to_global(to)), "r"(left), "h"(*reinterpret_cast<unsigned short *>(&value))
                 : "memory");
}

// What a block does. Those of a cluster have tiles below each other: each copies a part of B's tile to all of them.
template <typename T, int CONSUMERS, int BN, int STAGES, int CLUSTER>
__device__ __forceinline__ void multiply_tiles(const TensorMap &a, const TensorMap &b, T *c, int m, int n, int k, int ldc) {
    constexpr int BM = 64 * CONSUMERS;
    constexpr int TILE_A = BM * BK * (int)sizeof(T), TILE_B = BK * BN * (int)sizeof(T);
    static_assert(sizeof(T) == 2 && BN % (64 * CLUSTER) == 0, "boxes are 128 bytes wide, and whole");

    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned tiles_a = (unsigned)__cvta_generic_to_shared(shared);
    const unsigned tiles_b = tiles_a + STAGES * TILE_A;
    const unsigned full = tiles_b + STAGES * TILE_B;
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
    const int steps = (k + BK - 1) / BK;
    // Tile number i: down a column of a group of rows, then along the group, then the next group.
    auto corner = [&](int i, int &top, int &left) {
        constexpr int MOST = GROUP / CLUSTER;
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

    if (threadIdx.x >= 128 * CONSUMERS) {  // the producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 128 * CONSUMERS) {
            for (int tile = first_tile; tile < rows * columns; tile += apart) {
                corner(tile, top, left);
                for (int step = 0; step < steps; ++step, next()) {
                    wait(empty + 8 * stage, phase ^ 1);  // a fresh mbarrier's phase before is complete
                    expect(full + 8 * stage, TILE_A + TILE_B);
#pragma unroll
                    for (int y = 0; y < BM; y += 64) {
                        copy_box(tiles_a + stage * TILE_A + y / 64 * BOX, a, top + y, step * BK, full + 8 * stage);
                    }
#pragma unroll
                    for (int part = 0; part < BN / CLUSTER; part += 64) {
                        const int x = rank * (BN / CLUSTER) + part;
                        const unsigned to = tiles_b + stage * TILE_B + x / 64 * BOX;
                        if constexpr (CLUSTER > 1) {
                            copy_box_to((1 << CLUSTER) - 1, to, b, step * BK, left + x, full + 8 * stage);
                        } else {
                            copy_box(to, b, step * BK, left + x, full + 8 * stage);
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
    // A stage may be overwritten: by all blocks that copy to it.
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
    const bool wide_c = reinterpret_cast<size_t>(c) % (2 * sizeof(T)) == 0 && ldc % 2 == 0;
    for (int tile = first_tile; tile < rows * columns; tile += apart) {
        corner(tile, top, left);
        float sums[BN / 2] = {};
        unsigned before = 0;  // the mbarrier of the stage whose products may be in flight
        for (int step = 0; step < steps; ++step, next()) {
            wait(full + 8 * stage, phase);
            // Rows of A lie 128 bytes apart, eight of them 1024; eight rows of 64 columns of B as well.
            const unsigned at_a = tiles_a + stage * TILE_A + warp / 4 * BOX, at_b = tiles_b + stage * TILE_B;
            keep(sums);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int l = 0; l < BK; l += 16) {
                multiply(sums, descriptor(at_a + l * 2, 16, 1024), descriptor(at_b + l * 128, BOX, 1024), T());
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            keep(sums);
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            give_back(before, step > 0);
            before = empty + 8 * stage;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        keep(sums);
        give_back(before, true);

        // A lane has two neighbouring results of rows lane / 4 and lane / 4 + 8 of each eight columns.
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int y = top + 16 * warp + 8 * i + lane / 4, x = left + lane % 4 * 2;
            T *to = c + (long long)y * ldc + x;
            if (left + BN <= n && wide_c && y < m) {
#pragma unroll
                for (int j = 0; j < BN / 8; ++j) {
                    __align__(4) const T pair[2] = {T(sums[4 * j + 2 * i]), T(sums[4 * j + 2 * i + 1])};
                    *reinterpret_cast<unsigned *>(to + 8 * j) = *reinterpret_cast<const unsigned *>(pair);
                }
            } else if (y < m) {
#pragma unroll
                for (int j = 0; j < BN / 4; ++j) {
                    const int at = j / 2 * 8 + j % 2;
                    store_within(to + at, n - x - at, T(sums[4 * (j / 2) + 2 * i + j % 2]));
                }
            }
        }
    }
    if constexpr (CLUSTER > 1) {
        synchronise_cluster();  // nobody arrives at a block that has ended
    }
}

// `ldc` is how many elements a row of C is behind the one before.
template <typename T, int CONSUMERS, int BN, int STAGES>
__global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
    hopper(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, T *c, int m, int n, int k, int ldc) {
    multiply_tiles<T, CONSUMERS, BN, STAGES, 1>(a, b, c, m, n, k, ldc);
}
