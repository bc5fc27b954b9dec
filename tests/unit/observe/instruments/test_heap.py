"""Blocks of the device's heap that are older than the check, and headers that a kernel overwrites."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright.programs import Program
from tilewright.simt import Memory, launch

SOURCE = r"""
extern "C" __global__ void step(int **blocks, int *out, int what) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (what == 0) { blocks[i] = (int *)malloc(48); *blocks[i] = i; }  // 48 bytes fill a block
    if (what == 1 && i % 2 && i != 1) free(blocks[i]);
    if (what == 2 && i == 1) free(blocks[i]);  // the next to be given has older neighbours
    if (what == 3) {
        if (i == 0) { int *mine = (int *)malloc(48); *mine = 5; free(mine); }
        __syncthreads();
        if (i % 2 == 0) out[i] = *blocks[i];
    }
}

extern "C" __global__ void overwrite(int *out) {
    int *mine = (int *)malloc(64);
    for (int i = -4; i < 16; ++i) mine[i] = -1;  // from the header on
    free(mine);
    for (int i = 0; i < 50; ++i) {
        int *more = (int *)malloc(16 << i % 5);
        if (more) *more = i;
        free(more);
    }
    out[threadIdx.x] = 1;
}
"""
GRID, BLOCK = 160, 128  # 1.3 MB of blocks, so that given ones are used again


def test_a_block_ends_before_neighbours_that_are_older_than_the_check() -> None:
    program = Program.from_cuda(SOURCE, "step", (8, 0))
    with Memory() as memory:
        blocks, out = memory.array(np.zeros(GRID * BLOCK, np.uint64)), memory.array(np.zeros(GRID * BLOCK, np.int32))
        for what in range(3):
            launch(program, GRID, BLOCK, (blocks, out, what))
        assert not list(tw.check(program, 1, BLOCK, (blocks, out, 3)))


def test_headers_that_a_kernel_overwrites_end_nothing() -> None:
    program = Program.from_cuda(SOURCE, "overwrite", (8, 0))
    out = np.zeros(64, np.int32)
    assert {one.code for one in tw.check(program, 1, 64, (out,))} == {"TW101"}
    assert out.tolist() == [1] * 64
    launch(program, 1, 64, (out,))
