// A product of bfloat16, summed in float32, as steps of a ladder: what `prediction.py` compares with published steps.
//
// BM x BN results a block, boxes of 64 elements of k. CONSUMERS warpgroups multiply, and one more copies ahead into
// STAGES stages; with none of them, the one that multiplies asks for its boxes itself and waits. B is transposed.
// EVERYONE: every thread arrives where it is done with a stage, as with cuda::barrier, not one of each warpgroup.

typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map {
    u64 words[16];
};

enum { BK = 64, GROUPS = CONSUMERS ? CONSUMERS : 1, TILES = BM / 64 / GROUPS, BYTES = (BM + BN) * BK * 2 };

__device__ inline void init(u32 barrier, u32 arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred P; L: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; "
                 "@P bra.uni D; bra.uni L; D: }" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ inline void copy(u32 to, const Map *map, int x, int y, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

__device__ inline void copy_both(u32 a, u32 b, const Map *map_a, const Map *map_b, int k, int row, int column, u32 full)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"((u32)BYTES) : "memory");
    copy(a, map_a, k, row, full);
    copy(b, map_b, k, column, full);
}

// Rows of 128 bytes, swizzled by as many.
__device__ inline u64 matrix(u32 place)
{
    return (u64)(place >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ inline void multiply(float (&d)[BN / 2], u64 a, u64 b)
{
    asm volatile(PRODUCT : SUMS : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128 * (GROUPS + (CONSUMERS > 0)))
    rung(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, unsigned short *c, int m, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char room[];
    const u32 a = (u32)__cvta_generic_to_shared(room), b = a + STAGES * BM * BK * 2, full = a + STAGES * BYTES;
    const u32 empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, EVERYONE ? 128 * GROUPS : GROUPS);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const int thread = threadIdx.x % 128, columns = n / BN, tiles = m / BM * columns;
    int mine = threadIdx.x / 128;
    u32 stage = 0, phase = 0;
#if CONSUMERS
    if (mine-- == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (thread == 0)
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
                for (int i = 0; i < k; i += BK) {
                    wait(empty + 8 * stage, phase ^ 1);
                    copy_both(a + stage * BM * BK * 2, b + stage * BN * BK * 2, &map_a, &map_b, i, tile / columns * BM,
                              tile % columns * BN, full + 8 * stage);
                    if (++stage == STAGES)
                        stage = 0, phase ^= 1;
                }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#endif
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float d[TILES][BN / 2] = {};
        const int row = tile / columns * BM, column = tile % columns * BN;
        for (int i = 0; i < k; i += BK) {
#if !CONSUMERS
            if (thread == 0)
                copy_both(a, b, &map_a, &map_b, i, row, column, full);
#endif
            wait(full + 8 * stage, phase);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int s = 0; s < BK / 16; s++)
                    multiply(d[t], matrix(a + stage * BM * BK * 2 + ((mine * TILES + t) * 64 * BK + s * 16) * 2),
                             matrix(b + stage * BN * BK * 2 + s * 32));
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#if CONSUMERS
            if (EVERYONE || thread == 0)
                arrive(empty + 8 * stage);
            if (++stage == STAGES)
                stage = 0, phase ^= 1;
#else
            phase ^= 1;
            __syncthreads();
#endif
        }
        for (int t = 0; t < TILES; t++)
            for (int i = 0; i < BN / 4; i++) {
                const int y = row + (mine * TILES + t) * 64 + thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
                u32 pair;
                asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(d[t][2 * i + 1]), "f"(d[t][2 * i]));
                *(u32 *)(c + (size_t)y * n + column + i / 2 * 8 + thread % 4 * 2) = pair;
            }
    }
}
