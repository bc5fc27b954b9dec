"""Copies of a block to shared memory that a barrier or the group waits for."""

from case import Case, backwards, cuda_cpp, given

SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

__global__ void copies_at_a_barrier(const int *x, int *out, int n) {
    using B = cuda::barrier<cuda::thread_scope_block>;
    __shared__ B bar;
    __shared__ alignas(128) int tile[1024];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0)
        init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, x, cuda::aligned_size_t<16>(sizeof(int) * 1024), bar);
    bar.arrive_and_wait();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        out[i] = tile[1023 - i];
}

__global__ void copies_of_a_group(const int *x, int *out, int n) {
    __shared__ alignas(128) int tile[1024];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, x, sizeof(int) * 1024);
    cg::wait(block);
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        out[i] = tile[1023 - i];
}
"""


CASES = (
    Case(
        "copies_at_a_barrier", cuda_cpp(__file__, SOURCE, "copies_at_a_barrier", "-std=c++17"),
        1, 128, given(1024, 1024), backwards,
    ),
    Case(
        "copies_of_a_group", cuda_cpp(__file__, SOURCE, "copies_of_a_group", "-std=c++17"),
        1, 128, given(1024, 1024), backwards,
    ),
)  # fmt: skip
