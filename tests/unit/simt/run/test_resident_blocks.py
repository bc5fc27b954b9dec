"""Blocks that wait for each other: one host thread runs as many waiting blocks as any GPU holds."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright import machine
from tilewright.machine.occupancy import most_resident
from tilewright.simt import Limits

#: Every thread counts itself and waits for all the others.
ALL_WAIT = kernel("""red.global.add.u32 [%out], 1; mov.u32 %r1, %nctaid.x; mul.lo.u32 %r1, %r1, %threads;
    W: ld.volatile.global.u32 %r2, [%out]; setp.lt.u32 %p1, %r2, %r1; @%p1 bra W;""")


def test_more_blocks_wait_than_the_smallest_number_that_may() -> None:
    arrived = np.zeros(1, np.uint32)
    run(ALL_WAIT, arrived, grid=1100, limits=Limits(seconds=60, threads=1))
    assert arrived[0] == 1100 * 32


@pytest.mark.parametrize("threads", [32, 64, 1000, 1024])
def test_no_gpu_holds_more_blocks_than_may_wait(threads: int) -> None:
    held = {
        gpu.multiprocessors
        * min(gpu.blocks_per_multiprocessor, gpu.threads_per_multiprocessor // (-(-threads // 32) * 32))
        for gpu in machine.gpus().values()
    }
    assert most_resident(threads) == max(held)
