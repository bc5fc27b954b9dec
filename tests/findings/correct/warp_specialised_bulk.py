"""A warp that copies and two that compute, with full and empty mbarriers for each of three stages."""

from case import Case, cuda_cpp, given

SOURCE = r"""
#include <cuda/ptx>
#include <cuda/std/cstdint>
namespace ptx = cuda::ptx;
// CUTLASS-style full/empty pipeline: one producer warp, two consumer warps
__global__ void producer_and_consumers(const int *x, int *out, int n) {
    constexpr int S = 3;
    __shared__ alignas(128) int tile[S][64];
    __shared__ uint64_t full[S], empty[S];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < S; i++) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], 2);
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    int batches = n / 64;
    if (warp == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (lane == 0) {
            int st = 0;
            uint32_t ph = 1;
            for (int b = 0; b < batches; b++) {
                while (!ptx::mbarrier_try_wait_parity(&empty[st], ph))
                    ;
                ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[st],
                                               256);
                ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile[st], x + b * 64, 256,
                                   &full[st]);
                if (++st == S) {
                    st = 0;
                    ph ^= 1;
                }
            }
        }
    } else {
        int st = 0;
        uint32_t ph = 0;
        int s = 0;
        int t = threadIdx.x - 32;
        for (int b = 0; b < batches; b++) {
            while (!ptx::mbarrier_try_wait_parity(&full[st], ph))
                ;
            s += tile[st][63 - t];
            __syncwarp();
            if (lane == 0)
                ptx::mbarrier_arrive(&empty[st]);
            if (++st == S) {
                st = 0;
                ph ^= 1;
            }
        }
        out[t] = s;
    }
}
"""


CASES = (
    Case(
        "producer_and_consumers", cuda_cpp(__file__, SOURCE, "producer_and_consumers", "-std=c++17"),
        1, 96, given(1024, 64), lambda x, out, size: {1: x.reshape(16, 64).sum(0)[::-1]},
    ),
)  # fmt: skip
