// What the corpus's kernels do in clusters of two blocks.
#pragma once

#include "mbarriers.cuh"

// The address in the other block's shared memory that corresponds to one of ours, and its first word or mbarrier.
__device__ inline unsigned there(const void *p) {
    unsigned rank, found;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : IN_SHARED(p), "r"(rank ^ 1));
    return found;
}

// As macros, so that findings stand where they are used.
#define LOAD_THERE(x, p) asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(x) : "r"(there(p)) : "memory")
#define RESULT_THERE(out, p)                                                                                           \
    do {                                                                                                               \
        int value;                                                                                                     \
        LOAD_THERE(value, p);                                                                                          \
        out = value;                                                                                                   \
    } while (0)
// What a thread's partner in the block stored, once the mbarrier says so; what the thread's like in the other block
// did, behind the cluster's barrier. Nobody ends before all have read.
#define RESULT_AWAITED(out)                                                                                            \
    AWAIT(&bar, 0);                                                                                                    \
    out[i] = tile[63 - t];                                                                                             \
    synchronise_cluster()
#define RESULT_OF_OTHER(out)                                                                                           \
    GO_ON();                                                                                                           \
    RESULT_THERE(out[i], &tile[t]);                                                                                    \
    synchronise_cluster()
#define STORE_THERE(p, x) asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(there(p)), "r"(x) : "memory")
#define ARRIVE_THERE(sem, p) \
    asm volatile("mbarrier.arrive." sem ".cluster.shared::cluster.b64 _, [%0];" ::"r"(there(p)) : "memory")
// A tile of 64 numbers, one of each thread of a block; `i` is the thread's number in the grid.
#define TILE_OF_CLUSTER                                                                                                \
    __shared__ alignas(16) int tile[64];                                                                               \
    const int t = threadIdx.x, i = blockIdx.x * 64 + t
// The same, and an mbarrier for `count` arrivals.
#define TILE_AND_MBARRIER_OF_CLUSTER(count)                                                                            \
    TILE_OF_CLUSTER;                                                                                                   \
    __shared__ uint64_t bar;                                                                                           \
    if (t == 0) INIT(&bar, count)
// A bulk copy to the other block, which tells that one's mbarrier.
#define LOAD_BULK_THERE(p, from, bytes, bar)                                                                      \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"( \
                     there(p)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(there(bar)) : "memory")

// The same from our own shared memory.
#define SEND_BULK(p, from, bytes, bar)                                                                            \
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"( \
                     there(p)), IN_SHARED(from), "r"(bytes), "r"(there(bar)) : "memory")

// What a thread sends the other block, `mine`, where that block gets it, `its`, and an mbarrier that expects it.
#define MINE_FOR_THE_OTHER_OF_CLUSTER                                                                                  \
    __shared__ alignas(16) int mine[64], its[64];                                                                      \
    __shared__ uint64_t bar;                                                                                           \
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;                                                                \
    mine[t] = x[i];                                                                                                    \
    if (t == 0) {                                                                                                      \
        INIT(&bar, 1);                                                                                                 \
        ARRIVE_AND_EXPECT(&bar, 256);                                                                                  \
    }                                                                                                                  \
    FENCE_PROXY;                                                                                                       \
    synchronise_cluster()

#define COME(sem) asm volatile("barrier.cluster.arrive." sem ".aligned;" ::: "memory")
#define GO_ON() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")

__device__ inline void synchronise_cluster() {
    COME("release");
    GO_ON();
}
