// What the corpus's products of a warpgroup share: one product of ones, 64 rows by 8 columns, 16 deep. Macros, as what
// is found stands at the line that uses them.

#include "proxy.cuh"

#define MULTIPLY(d, matrix)                                                                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"          \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                      \
                 : "l"(matrix) : "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")

// A whole product: its sums, fenced, multiplied and awaited.
#define PRODUCT(d, matrix)                                                                                             \
    float d[4] = {};                                                                                                   \
    FENCE;                                                                                                             \
    MULTIPLY(d, matrix);                                                                                               \
    COMMIT;                                                                                                            \
    WAIT(0)

// The same, and a sum of each thread as the result.
#define PRODUCT_TO(out, matrix)                                                                                        \
    PRODUCT(d, matrix);                                                                                                \
    out[threadIdx.x] = d[0]

#define SHARED_TILE __shared__ alignas(128) unsigned short tile[64 * 16]

// Where a matrix lies, in atoms of 8 lines of 16 bytes.
__device__ inline unsigned long long at(const unsigned short *place)
{
    return (unsigned)__cvta_generic_to_shared(place) >> 4 | 8ull << 16 | 16ull << 32;
}

// Where a matrix lies whose lines are swizzled: `mode` 1, 2 and 3 mean 128, 64 and 32 bytes.
__device__ inline unsigned long long swizzled(const unsigned short *place, int mode, int base = 0)
{
    const unsigned long long stride = 8 * (256 >> mode) >> 4, more = (unsigned long long)base << 49;
    return (unsigned)__cvta_generic_to_shared(place) >> 4 | 1ull << 16 | stride << 32 | more |
           (unsigned long long)mode << 62;
}

// Lets a product read what all threads have written.
__device__ inline void show_to_product()
{
    FENCE_PROXY;
    __syncthreads();
}

__device__ inline unsigned long long ones(unsigned short *place)
{
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        place[i] = 0x3c00;
    show_to_product();
    return at(place);
}

#define MATRIX_OF_ONES(matrix)                                                                                         \
    SHARED_TILE;                                                                                                       \
    const unsigned long long matrix = ones(tile)

// A matrix of ones, and sums to which its product may be added.
#define FENCED_SUMS(d, matrix)                                                                                         \
    MATRIX_OF_ONES(matrix);                                                                                            \
    float d[4] = {};                                                                                                   \
    FENCE

// A product of ones that is in a group and has not been awaited, and its sums; `tile` is being read.
#define PRODUCT_UNDER_WAY(d)                                                                                           \
    FENCED_SUMS(d, matrix);                                                                                            \
    MULTIPLY(d, matrix);                                                                                               \
    COMMIT

// The rest of a kernel that has multiplied: a sum of each thread is the result.
#define END_PRODUCT(d, out)                                                                                            \
    COMMIT;                                                                                                            \
    WAIT(0);                                                                                                           \
    out[threadIdx.x] = d[0]

// A tile that one thread copies by a tensor map, and the wait for its bytes; with `mbarriers.cuh`.
#define COPIED_TILE(map, bytes)                                                                                        \
    __shared__ alignas(1024) unsigned short tile[64 * 64];                                                             \
    __shared__ uint64_t bar;                                                                                           \
    if (threadIdx.x == 0) {                                                                                            \
        INIT(&bar, 1);                                                                                                 \
        ARRIVE_AND_EXPECT(&bar, bytes);                                                                                \
        LOAD_BOX(tile, map, 0, 0, &bar);                                                                               \
    }                                                                                                                  \
    __syncthreads();                                                                                                   \
    AWAIT(&bar, 0)
