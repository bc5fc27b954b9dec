"""Second names for registers: the same results, on the same lines, and nothing where it could be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

from tilewright.checking.renaming import renamed
from tilewright.instruments.shadow.memory import MemoryCheck
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simt.events import Handler, Site

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
"""
HEAD = HEAD.replace("; .reg", ";\n.reg")
BODY = """ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
{before}
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
mov.u32 %r2, 0;
L:
add.s32 %r2, %r2, %r1;
add.s32 %r1, %r1, 3;
setp.lt.s32 %p1, %r1, 50;
@%p1 bra L;
st.global.u32 [%rd3], %r2;
ret;
}"""


def result(ptx: str) -> list[int]:
    out = np.zeros(40, np.int32)
    launch(Program.from_ptx(ptx), 1, 40, (out,))
    return out.tolist()


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        ("add.s32 %r4, %r1, 1;", True),
        ("setp.gt.s32 %p1, %r1, 7;", True),
        # set again, under a guard or not; as part of a vector; by a barrier; twice on a line
        ("add.s32 %r1, %r1, 1;", False),
        ("@%p2 add.s32 %r1, %r4, 1;", False),
        ("mov.b64 {%r1, %r4}, %rd1;", False),
        ("bar.red.popc.u32 %r1, 0, %p2;", False),
        ("mov.u32 %r4, 1; mov.u32 %r1, %r4;", False),
    ],
)
def test_only_what_is_set_once_before_the_loop_gets_a_second_name(before: str, changes: bool) -> None:
    text = HEAD + BODY.replace("{before}", before)
    other = renamed(Program.from_ptx(text))
    assert ("%r1_first" in other) == changes
    assert other.count("\n") == text.count("\n")
    if changes:
        assert result(other) == result(text)


@cuda.jit
def sums_of_columns(a, out):
    column = cuda.threadIdx.x
    total = np.float32(0)
    for row in range(cuda.threadIdx.y, a.shape[0], cuda.blockDim.y):
        total += a[row, column]
    tile = cuda.shared.array((4, 16), np.float32)
    tile[cuda.threadIdx.y, column] = total
    cuda.syncthreads()
    out[cuda.threadIdx.y, column] = tile[3 - cuda.threadIdx.y, column]


def test_shared_accesses_of_a_kernel_of_strided_arrays_are_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    a, out = np.ones((20, 16), np.float32), np.zeros((4, 16), np.float32)
    seen: list[bool] = []

    class Spy(MemoryCheck):
        def handler(self, site: Site, offsets: Any = None) -> Handler | None:
            if site.space == "shared" and site.opcode.split(".")[1] == "shared":
                seen.append(offsets is not None)
            return super().handler(site, offsets)

        def key(self) -> Any:
            return object()  # cannot be pickled: the code is made anew

    use: Callable[..., Any] = Spy
    monkeypatch.setattr("tilewright.checking.gathering.MemoryCheck", use)
    from tilewright.checking import check

    assert check(sums_of_columns, 1, (16, 4), (a, out)) == ()
    assert out.tolist() == [[5.0] * 16] * 4
    assert seen == [True, True]
