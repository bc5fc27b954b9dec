"""The barrier of <cuda/barrier>: all arrive and wait, or arrive first and wait later."""

from case import Case, backwards, cuda_cpp, given

SOURCE = r"""
#include <cuda/barrier>
#include <cuda/std/utility>

__global__ void rounds_of_a_barrier(const int *x, int *out, int n) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int tile[128];
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    int s = 0;
    for (int i = 0; i < 4; i++) {
        tile[threadIdx.x] = x[threadIdx.x] + i;
        bar.arrive_and_wait();
        s += tile[blockDim.x - 1 - threadIdx.x];
        bar.arrive_and_wait();
    }
    out[threadIdx.x] = s;
}

__global__ void arrive_then_wait(const int *x, int *out, int n) {
    using B = cuda::barrier<cuda::thread_scope_block>;
    __shared__ B bar;
    __shared__ int tile[128];
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    tile[threadIdx.x] = x[threadIdx.x];
    B::arrival_token t = bar.arrive();
    int own = x[threadIdx.x];
    bar.wait(cuda::std::move(t));
    out[threadIdx.x] = own * 0 + tile[blockDim.x - 1 - threadIdx.x];
}
"""


CASES = (
    Case(
        "rounds_of_a_barrier", cuda_cpp(__file__, SOURCE, "rounds_of_a_barrier", "-std=c++17"),
        1, 128, given(128, 128), lambda x, out, size: {1: 4 * x[::-1] + 6},
    ),
    Case(
        "arrive_then_wait", cuda_cpp(__file__, SOURCE, "arrive_then_wait", "-std=c++17"),
        1, 128, given(128, 128), backwards,
    ),
)  # fmt: skip
