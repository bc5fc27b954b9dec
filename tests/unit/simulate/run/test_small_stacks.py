"""A launch from a thread with a small stack: a kernel's frame is on a stack with enough room."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.ground.native.pages import stack_bytes
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.run import execution

COUNT = 900
_VALUES = [f"mad.lo.u64 %r{i},%r{i - 1},%r{i - 1},{i};" for i in range(1, COUNT)]
_USES = [f"xor.b64 %r0,%r0,%r{i};" for i in range(COUNT - 1, 0, -1)]
#: All values are live until the last is computed: a frame of 230 KB.
PTX = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b64 %r<{COUNT}>, %a<3>; .reg .b32 %t;
mov.u32 %t, %tid.x; ld.param.u64 %a0, [out]; mul.wide.u32 %a1, %t, 8; add.u64 %a2, %a0, %a1; mul.wide.u32 %r0, %t, %t;
{"".join(_VALUES)}
{"".join(_USES)}
st.global.u64 [%a2], %r0; ret; }}"""


def in_thread(stack: int, work: Callable[[], object]) -> None:
    before = threading.stack_size(stack)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()


@pytest.mark.parametrize(("stack", "crews"), [(128 << 10, 1), (64 << 20, 0)])
def test_a_thread_with_a_small_stack_lets_another_run_the_kernel(
    stack: int, crews: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, expected, out = Program.from_ptx(PTX), np.zeros(32, np.uint64), np.zeros(32, np.uint64)
    launch(program, 1, 32, (expected,))
    start, started = execution.start_worker, []
    monkeypatch.setattr(execution, "start_worker", lambda *asked: started.append(1) or start(*asked))
    in_thread(stack, lambda: launch(program, 1, 32, (out,)))
    assert (out == expected).all()
    assert bool(started) == bool(crews)


@pytest.mark.parametrize("size", [256 << 10, 1 << 20])
def test_a_thread_knows_its_stack(size: int) -> None:
    found = []
    in_thread(size, lambda: found.append(stack_bytes()))
    assert size <= found[0] <= size + (64 << 10)
    assert stack_bytes() >= 1 << 20
