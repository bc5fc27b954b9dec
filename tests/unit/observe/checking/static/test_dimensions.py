"""TW503: a launch of one dimension is a defect if the kernel addresses by y or z, and legal if it only reads them."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tilewright as tw
from tilewright.observe.checking.static.dimensions import own_axes
from tilewright.observe.checking.static.values import of_kernel
from tilewright.programs import Program
from tilewright.simt import launch

pytest.importorskip("cuda.bindings.nvrtc", reason="not run: NVRTC is not installed")

GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
#: Bodies of `k(int *out, int n)`, launched by 2 blocks of 64.
LEGAL = {
    "rank of the block": "auto b = cg::this_thread_block(); out[blockIdx.x * b.size() + b.thread_rank()] = 1;",
    "rank of the grid": "auto i = cg::this_grid().thread_rank(); if (i < n) out[i] = 1;",
    "rank of the blocks": "auto b = cg::this_thread_block(); "
    "out[cg::this_grid().block_rank() * b.num_threads() + b.thread_rank()] = 1;",
    "ranks by hand": "int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), "
    "t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); "
    "out[b * blockDim.x * blockDim.y * blockDim.z + t] = 1;",
    "one thread": "__shared__ int s; if (threadIdx.x + threadIdx.y + threadIdx.z == 0) s = 5; __syncthreads(); "
    "if (threadIdx.y == 0 && blockIdx.z == 0) out[blockIdx.x * 64 + threadIdx.x] = s;",
    "a value": "out[blockIdx.x * 64 + threadIdx.x] = threadIdx.y + 100 * blockIdx.z + blockDim.y;",
    "a grid's stride": "int x = blockIdx.x * blockDim.x + threadIdx.x; "
    "for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < n / 8; y += gridDim.y * blockDim.y) out[y * 8 + x] = 1;",
    "tiles": "auto b = cg::this_thread_block(); auto t = cg::tiled_partition<32>(b); __shared__ int s[2]; "
    "if (t.thread_rank() == 0) s[t.meta_group_rank()] = 1; b.sync(); "
    "out[blockIdx.x * 64 + b.thread_rank()] = s[b.thread_rank() / 32];",
    "a print": 'out[blockIdx.x * 64 + threadIdx.x] = 1; if (threadIdx.x == 0) printf("%d", threadIdx.y);',
}
DEFECTS = {
    "rows": "int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; "
    "if (x < 128 && y < n / 128) out[y * 128 + x] = 1;",
    "rows of n": "int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; "
    "if (x < 16 && y < 16) out[y * (n / 16) + x] = 1;",
    "a tile": "__shared__ int s[8][33]; s[threadIdx.y][threadIdx.x & 31] = 1; __syncthreads(); "
    "out[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.y][0];",
    "planes": "out[blockIdx.z * 128 + blockIdx.x * 64 + threadIdx.x] = 1;",
    "a stride in x alone": "int y = blockIdx.y * blockDim.y + threadIdx.y; "
    "for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < 128; x += gridDim.x * blockDim.x) "
    "if (y < n / 128) out[y * 128 + x] = 1;",
}


@functools.cache
def compiled() -> str:
    """PTX of all kernels, `k0` and so on."""
    bodies = enumerate((*LEGAL.values(), *DEFECTS.values()))
    kernels = [f'extern "C" __global__ void k{i}(int *out, int n) {{ {body} }}' for i, body in bodies]
    return Program.from_cuda("\n".join([GROUPS, *kernels]), "k0", lineinfo=False).ptx


@pytest.mark.parametrize(
    ("index", "axes"),
    [(index, "" if index < len(LEGAL) else "yz") for index in range(len(LEGAL) + len(DEFECTS))],
    ids=[*LEGAL, *DEFECTS],
)
def test_only_a_separate_index_needs_its_dimension(index: int, axes: str) -> None:
    found = own_axes(of_kernel(compiled(), f"k{index}"))
    assert bool(found) is bool(axes)
    assert found <= set(axes)


def test_it_is_reported_for_launches_with_only_one_extent() -> None:
    program, out = Program.from_ptx(compiled(), f"k{len(LEGAL)}"), np.zeros(1024, np.int32)
    launch(program, 2, 64, (out, 256))  # a GPU takes it
    assert out.sum() == 128
    assert [f.code for f in tw.check(program, 2, 64, (out, 256))] == ["TW503"]
    assert "TW503" not in [f.code for f in tw.check(program, (2, 1), 64, (out, 256))]
    assert tw.check(program, 2, 64, (out[:128].copy(), 256)) == ()  # nothing is left out
