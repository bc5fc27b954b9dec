"""Bulk copies in, which an mbarrier counts, and out, after a proxy fence."""

from case import Case, backwards, cuda_cpp, given

SOURCE = r"""
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;

__global__ void bulk_in_and_out(const int *x, int *out, int n) {
    using B = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(16) int tile[1024];
    __shared__ B bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        cuda::memcpy_async(tile, x, cuda::aligned_size_t<16>(4096), bar);
    B::arrival_token token = bar.arrive();
    bar.wait(cuda::std::move(token));
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        tile[i] += 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, tile, 4096);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}

__global__ void bulk_with_expected_bytes(const int *x, int *out, int n) {
    using B = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(16) int tile[1024];
    __shared__ B bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cuda::device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    B::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::device::experimental::cp_async_bulk_global_to_shared(tile, x, 4096, bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, 4096);
    } else
        token = bar.arrive();
    bar.wait(cuda::std::move(token));
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        out[i] = tile[1023 - i];
}
"""


CASES = (
    Case(
        "bulk_in_and_out", cuda_cpp(__file__, SOURCE, "bulk_in_and_out", "-std=c++17"),
        1, 128, given(1024, 1024), lambda x, out, size: {1: x + 1},
    ),
    Case(
        "bulk_with_expected_bytes", cuda_cpp(__file__, SOURCE, "bulk_with_expected_bytes", "-std=c++17"),
        1, 128, given(1024, 1024), backwards,
    ),
)  # fmt: skip
