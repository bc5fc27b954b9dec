"""Pipelines of <cuda/pipeline>: of all threads, and with threads that only copy."""

from case import Case, cuda_cpp, given

SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

__global__ void pipeline_of_all(const int *x, int *out, int n) {
    constexpr int S = 2;
    __shared__ alignas(128) int tile[S][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, S> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int batches = n / 128;
    int s = 0;
    int fetch = 0;
    for (int b = 0; b < batches; b++) {
        for (; fetch < batches && fetch < b + S; fetch++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[fetch % S], x + fetch * 128, cuda::aligned_size_t<16>(512), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        s += tile[b % S][127 - threadIdx.x];
        pipe.consumer_release();
    }
    out[threadIdx.x] = s;
}

__global__ void pipeline_of_two_roles(const int *x, int *out, int n) {
    constexpr int S = 2;
    __shared__ alignas(128) int tile[S][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, S> state;
    auto block = cg::this_thread_block();
    const size_t producers = 64;
    auto pipe = cuda::make_pipeline(block, &state, producers);
    int batches = n / 64;
    int s = 0;
    if (threadIdx.x < producers) {
        for (int b = 0; b < batches; b++) {
            pipe.producer_acquire();
            cuda::memcpy_async(&tile[b % S][threadIdx.x], x + b * 64 + threadIdx.x, 4, pipe);
            pipe.producer_commit();
        }
    } else {
        int t = threadIdx.x - 64;
        for (int b = 0; b < batches; b++) {
            pipe.consumer_wait();
            s += tile[b % S][63 - t];
            pipe.consumer_release();
        }
        out[t] = s;
    }
}
"""


CASES = (
    Case(
        "pipeline_of_all", cuda_cpp(__file__, SOURCE, "pipeline_of_all", "-std=c++17"),
        1, 128, given(1024, 128), lambda x, out, size: {1: x.reshape(8, 128).sum(0)[::-1]},
    ),
    Case(
        "pipeline_of_two_roles", cuda_cpp(__file__, SOURCE, "pipeline_of_two_roles", "-std=c++17"),
        1, 128, given(1024, 64), lambda x, out, size: {1: x.reshape(16, 64).sum(0)[::-1]},
    ),
)  # fmt: skip
