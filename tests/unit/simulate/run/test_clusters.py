"""Clusters in CUDA C++, by cooperative groups: NumPy's results, launches by the driver, threads, Ctrl-C."""

from __future__ import annotations

import functools
from typing import Any

import narrow_hosts
import numpy as np
import pytest
from interrupted_launches import ends_at_ctrl_c

import tilewright as tw
from tilewright.errors import LaunchError
from tilewright.programs import Program
from tilewright.simt import Limits, launch

pytest.importorskip("cuda.bindings.nvrtc", reason="not run: NVRTC is not installed")

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// Each block of a cluster counts a part of the bins, in its shared memory, for all threads of the cluster.
extern "C" __global__ void histogram(const int *x, int n, int *counts, int bins) {
    extern __shared__ int mine[];
    cg::cluster_group cluster = cg::this_cluster();
    const int each = bins / cluster.num_blocks(), size = gridDim.x * blockDim.x;
    for (int i = threadIdx.x; i < each; i += blockDim.x) mine[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += size) {
        const int bin = x[i];
        atomicAdd(cluster.map_shared_rank(mine, bin / each) + bin % each, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < each; i += blockDim.x)
        atomicAdd(&counts[cluster.block_rank() * each + i], mine[i]);
}

// The sum of a cluster's elements, by its first block from all blocks' shared memory.
extern "C" __global__ void __cluster_dims__(2, 2, 1) sums(const float *x, float *out) {
    __shared__ float part;
    cg::cluster_group cluster = cg::this_cluster();
    cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const unsigned number = blockIdx.y * gridDim.x + blockIdx.x;
    const float sum = cg::reduce(warp, x[number * 32 + threadIdx.x], cg::plus<float>());
    if (threadIdx.x == 0) part = sum;
    auto token = cluster.barrier_arrive();
    const unsigned id = (blockIdx.y / 2) * (gridDim.x / 2) + blockIdx.x / 2;
    cluster.barrier_wait(static_cast<decltype(token) &&>(token));
    if (cluster.thread_rank() == 0) {
        float all = 0;
        for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) all += *cluster.map_shared_rank(&part, rank);
        out[id] = all;
    }
    cluster.sync();
}

// Values go around the ring of a cluster's blocks, one block a step; each asks where they are by pointers.
extern "C" __global__ void ring(int *x, int steps) {
    __shared__ int slots[2];
    cg::cluster_group cluster = cg::this_cluster();
    const unsigned rank = cluster.block_rank(), size = cluster.num_blocks();
    slots[0] = x[blockIdx.x];
    cluster.sync();
    for (int step = 0; step < steps; ++step) {
        int *there = cluster.map_shared_rank(&slots[(step + 1) % 2], (rank + 1) % size);
        *there = slots[step % 2] + 100 * cluster.query_shared_rank(there);
        cluster.sync();
    }
    x[blockIdx.x] = slots[steps % 2] + 1000000 * (cluster.dim_blocks().x == size);
}
"""


@functools.cache
def ptx() -> str:
    """All kernels: the headers take NVRTC a second."""
    return Program.from_cuda(SOURCE, "ring", cc=(9, 0)).ptx


def program(name: str) -> Program:
    return Program.from_ptx(ptx(), name)


@pytest.mark.parametrize(("size", "host"), [
    pytest.param(size, host, marks=[] if host == "own" or size == 8 else [pytest.mark.volume])
    for size in (1, 2, 8, 16) for host in ("own", "avx2", "sse")
])  # fmt: skip
def test_a_histogram_in_distributed_shared_memory(monkeypatch: pytest.MonkeyPatch, size: int, host: str) -> None:
    narrow_hosts.use_host(monkeypatch.setattr, host)
    x = np.random.default_rng(size).integers(0, 160, 5000).astype(np.int32)
    for seed, threads in (None, 1), (3, 3):
        counts = np.zeros(160, np.int32)
        options = {"shared_bytes": 640 // size, "seed": seed, "limits": Limits(threads=threads)}
        launch(program("histogram"), 32, 48, (x, len(x), counts, 160), cluster=size, **options)
        assert (counts == np.bincount(x, minlength=160)).all()


def test_sums_of_clusters_that_the_kernel_names() -> None:
    x = np.random.default_rng(1).integers(-99, 99, (4, 6, 32)).astype(np.float32)
    out = np.zeros(6, np.float32)
    launch(program("sums"), (6, 4), 32, (x, out))
    assert (out == x.reshape(2, 2, 3, 2, 32).sum(axis=(1, 3, 4)).ravel()).all()
    with pytest.raises(LaunchError, match="must be a multiple of the cluster"):
        launch(program("sums"), (6, 3), 32, (x, out))


@pytest.mark.parametrize("size", [2, 3, 7])
def test_a_ring_of_blocks(size: int) -> None:
    x = np.arange(42, dtype=np.int32)
    steps = 5
    launch(program("ring"), 42, 1, (x, steps), cluster=size)
    ranks = np.arange(42) % size
    came = np.arange(42) - ranks + (ranks - steps) % size
    added = sum(100 * ((ranks - step) % size) for step in range(steps))
    assert (x == came + added + 1000000).all()


def test_a_configuration_s_clusters_are_not_ignored() -> None:
    """The grid of a configuration with clusters counts clusters, as `cuda.core` documents."""
    cuda = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    from tilewright.simulate.device.launching import LaunchConfig, Launcher
    from tilewright.simulate.device.linking import ObjectCode
    from tilewright.simulate.device.modules import Kernel

    with tw.simulated_gpu() as gpu:
        x = cuda.to_device(np.arange(8, dtype=np.int32))
        kernel, launcher = Kernel(ObjectCode(ptx().encode(), "ptx"), "ring"), Launcher(gpu)
        values = x.device_ctypes_pointer.value, np.int32(1)
        launcher.launch(0, LaunchConfig(grid=2, cluster=4, block=1), kernel, *values)
        assert x.copy_to_host().tolist() == [
            1000003, 1000100, 1000201, 1000302, 1000007, 1000104, 1000205, 1000306,
        ]  # fmt: skip
        with pytest.raises(Exception, match="CUDA_ERROR_INVALID_CLUSTER_SIZE"):
            launcher.launch(0, LaunchConfig(grid=1, cluster=16, block=1), kernel, *values)


def test_interruption_ends_a_cluster_whose_last_block_never_arrives() -> None:
    ends_at_ctrl_c(
        """.reg .b32 %r<3>; .reg .pred %p1;
        mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 1;
        L: @%p1 bra L; barrier.cluster.arrive; barrier.cluster.wait; ret;""",
        cluster=4,
    )


def checked(name: str, *arguments: Any, **options: Any) -> list[str]:
    return [finding.code for finding in tw.check(program(name), *arguments, **options)]


def test_checks_find_nothing() -> None:
    x = np.random.default_rng(2).integers(0, 160, 500).astype(np.int32)
    assert checked("histogram", 8, 48, (x, len(x), np.zeros(160, np.int32), 160), shared_bytes=160, cluster=4) == []
    assert checked("sums", (6, 4), 32, (np.ones((4, 6, 32), np.float32), np.zeros(6, np.float32))) == []
    assert checked("ring", 8, 1, (np.arange(8, dtype=np.int32), 5), cluster=4) == []
