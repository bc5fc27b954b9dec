// What the corpus's kernels with mbarriers and bulk copies share. Macros, so that findings name the line that uses
// them.

#include <cstdint>

#include "proxy.cuh"

#define IN_SHARED(place) "r"((unsigned)__cvta_generic_to_shared(place))

#define INIT(bar, count) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::IN_SHARED(bar), "r"(count) : "memory")
#define ARRIVE(bar) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::IN_SHARED(bar) : "memory")
#define AWAIT(bar, parity)                                                                                             \
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"           \
                 ::IN_SHARED(bar), "r"(parity) : "memory")
#define TEST(done, bar, parity)                                                                                        \
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"          \
                 : "=r"(done) : IN_SHARED(bar), "r"(parity) : "memory")
#define EXPECT(bar, bytes)                                                                                             \
    asm volatile("mbarrier.expect_tx.shared.b64 [%0], %1;" ::IN_SHARED(bar), "r"(bytes) : "memory")
#define ARRIVE_AND_EXPECT(bar, bytes)                                                                                  \
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::IN_SHARED(bar), "r"(bytes) : "memory")
#define COMPLETE(bar, bytes)                                                                                           \
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared.b64 [%0], %1;" ::IN_SHARED(bar), "r"(bytes) : "memory")

// A tile of 64 numbers, and room for an mbarrier.
#define TILE_AND_ROOM                                                                                                  \
    __shared__ alignas(16) int tile[64];                                                                               \
    __shared__ uint64_t bar;                                                                                           \
    const int t = threadIdx.x

// The same, with an mbarrier for `count` arrivals that all threads see initialised.
#define TILE_AND_MBARRIER(count)                                                                                       \
    TILE_AND_ROOM;                                                                                                     \
    if (t == 0) INIT(&bar, count);                                                                                     \
    __syncthreads()

// A tile of 64 numbers three times those of `x`, which bulk copies may read.
#define TRIPLED_TILE(x)                                                                                                \
    __shared__ alignas(128) int tile[64];                                                                              \
    const int t = threadIdx.x;                                                                                         \
    tile[t] = 3 * x[t];                                                                                                \
    FENCE_PROXY;                                                                                                       \
    __syncthreads()

#define LOAD_BULK(to, from, bytes, bar)                                                                                \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"             \
                 ::IN_SHARED(to), "l"(from), "r"(bytes), IN_SHARED(bar) : "memory")
#define STORE_BULK(to, from, bytes)                                                                                    \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), IN_SHARED(from), "r"(bytes)  \
                 : "memory")
#define COMMIT_BULK asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_BULK(group) asm volatile("cp.async.bulk.wait_group" #group " 0;" ::: "memory")

// Waits until bulk copies have ended, or only until they have read what they copy.
template <bool ended>
__device__ inline void wait_bulk() {
    if (ended) {
        WAIT_BULK();
    } else {
        WAIT_BULK(.read);
    }
}

// What the launch makes of a matrix for copies of its boxes.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

#define LOAD_BOX(to, map, row, column, bar)                                                                            \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "                        \
                 "[%0], [%1, {%2, %3}], [%4];" ::IN_SHARED(to), "l"(&map), "r"(column), "r"(row), IN_SHARED(bar)       \
                 : "memory")
