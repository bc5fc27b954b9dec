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


#: A recursive function, which is not inlined: it waits at its second level.
WAIT = """.func wait(.param .b64 place, .param .b32 depth) { .reg .b64 %w; .reg .b32 %v; .reg .pred %q;
ld.param.u64 %w, [place]; ld.param.u32 %v, [depth]; setp.eq.u32 %q, %v, 0; @%q bra SPIN; sub.u32 %v, %v, 1;
{ .param .b64 a; .param .b32 b; st.param.b64 [a], %w; st.param.b32 [b], %v; call.uni wait, (a, b); } ret;
SPIN: ld.acquire.gpu.global.u32 %v, [%w]; setp.eq.u32 %q, %v, 0; @%q bra SPIN; ret; }"""


@pytest.mark.parametrize("threads", [1, 2])
def test_called_functions_wait_for_a_later_block(threads: int) -> None:
    call = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %out; st.param.b32 [b], 1; call.uni wait, (a, b); }"
    last = "mov.u32 %r1, %nctaid.x; sub.u32 %r1, %r1, 1; setp.eq.u32 %p1, %block, %r1; @!%p1 bra CALL;"
    body = f"{last} st.release.gpu.global.u32 [%out], 1; bra END; CALL: {call} red.global.add.u32 [%out], 1; END:"
    arrived = np.zeros(1, np.uint32)
    run(kernel(body, module=WAIT), arrived, grid=12, limits=Limits(seconds=20, threads=threads))
    assert arrived[0] == 11 * 32 + 1


@pytest.mark.parametrize("threads", [32, 64, 1000, 1024])
def test_no_gpu_holds_more_blocks_than_may_wait(threads: int) -> None:
    held = {
        gpu.multiprocessors
        * min(gpu.blocks_per_multiprocessor, gpu.threads_per_multiprocessor // (-(-threads // 32) * 32))
        for gpu in machine.gpus().values()
    }
    assert most_resident(threads) == max(held)
