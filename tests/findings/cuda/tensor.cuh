// What the corpus's products in tensor memory share: one product of ones, 128 rows by 8 columns, 16 deep, by a block of
// 128 threads. Macros, as what is found stands at the line that uses them.

#include "proxy.cuh"

__device__ inline unsigned in_shared(const void *place)
{
    return (unsigned)__cvta_generic_to_shared(place);
}

// Where a matrix lies, in atoms of 8 lines of 16 bytes; `version` is 1 in descriptors of sm_100.
__device__ inline unsigned long long matrix_at(const unsigned short *place, int version = 1)
{
    return in_shared(place) >> 4 | 8ull << 16 | 16ull << 32 | (unsigned long long)version << 46;
}

// Sums in float32, 8 columns, 128 rows.
#define INSTRUCTION (1u << 4 | 1u << 17 | 8u << 24)

#define ALLOCATE                                                                                                       \
    if (threadIdx.x < 32)                                                                                              \
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(in_shared(&place))          \
                 : "memory")
#define FREE                                                                                                           \
    __syncthreads();                                                                                                   \
    if (threadIdx.x < 32)                                                                                              \
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(columns) : "memory")

// Shared memory, a tile of ones, an mbarrier, and columns of tensor memory.
#define BEGIN                                                                                                          \
    __shared__ alignas(128) unsigned short tile[128 * 16];                                                             \
    __shared__ alignas(8) unsigned long long bar;                                                                      \
    __shared__ unsigned place;                                                                                         \
    ALLOCATE;                                                                                                          \
    if (threadIdx.x == 0)                                                                                              \
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(in_shared(&bar)) : "memory");                           \
    for (int i = threadIdx.x; i < 128 * 16; i += 128)                                                                  \
        tile[i] = 0x3c00;                                                                                              \
    FENCE_PROXY;                                                                                                       \
    __syncthreads();                                                                                                   \
    const unsigned columns = place, own = columns + (threadIdx.x / 32 << 21)

#define MULTIPLY(matrix, adds)                                                                                         \
    if (threadIdx.x == 0)                                                                                              \
    asm volatile("{.reg .pred p; setp.ne.u32 p, %3, 0; "                                                               \
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %2, p;}" ::"r"(columns),                            \
                 "l"(matrix), "r"(INSTRUCTION), "r"((unsigned)(adds))                                                  \
                 : "memory")
#define COMMIT                                                                                                         \
    if (threadIdx.x == 0)                                                                                              \
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(in_shared(&bar))  \
                 : "memory")
// A wait for the first phase of an mbarrier, with an order and its scope or without.
#define AWAIT_AT(bar, order)                                                                                           \
    asm volatile("{.reg .pred done; "                                                                               \
                 "again: mbarrier.try_wait.parity" #order ".shared.b64 done, [%0], 0; @!done bra again;}" ::"r"(       \
                     in_shared(&bar))                                                                                  \
                 : "memory")
#define AWAIT_RELAXED AWAIT_AT(bar, .relaxed.cta)
#define AWAIT                                                                                                          \
    AWAIT_AT(bar, );                                                                                                   \
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")
#define LOAD(sum, from)                                                                                                \
    float sum;                                                                                                         \
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=f"(sum) : "r"(from) : "memory")
#define LOADED asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define STORE(to, value)                                                                                               \
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(to), "f"(value) : "memory")
#define STORED asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")

// A product of ones that an mbarrier waits for, and nobody else yet.
#define PRODUCT_UNDER_WAY                                                                                              \
    BEGIN;                                                                                                             \
    MULTIPLY(matrix_at(tile), false);                                                                                  \
    COMMIT
// A barrier of the block, behind the product's end or not.
#define MEET(awaited)                                                                                                  \
    if (awaited) {                                                                                                     \
        AWAIT;                                                                                                         \
    }                                                                                                                  \
    __syncthreads()
// A sum of each thread, from tensor memory.
#define RESULT(out, from)                                                                                              \
    LOAD(sum, from);                                                                                                   \
    LOADED;                                                                                                            \
    out[threadIdx.x] = sum
// The rest of a kernel whose product has to end.
#define END_PRODUCT(out)                                                                                               \
    AWAIT;                                                                                                             \
    RESULT(out, own);                                                                                                  \
    FREE
