"""Addresses of accesses: offsets, wrapped bases, guards, and arguments of calls."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import PtxError

PRINTF = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"
FAR = ".global .align 8 .b8 pad[1073741824]; .global .align 8 .b64 far;"


@pytest.mark.parametrize("offset", [1 << 31, 1 << 32, 1 << 40, -(1 << 31) - 4, (1 << 64) - 4])
@pytest.mark.parametrize("text", ["ld.global.u32 %r1, [%out+{}];", "st.global.u32 [%at+{}], %tid;"])
def test_an_offset_of_more_than_32_bits_is_refused(text: str, offset: int) -> None:
    with pytest.raises(PtxError, match="signed 32 bits"):
        run(kernel("ld.global.u32 %r2, [%out]; " + text.format(offset)), np.zeros(32, np.int32))


def test_a_negative_shared_base_with_a_lane_s_offset_is_valid() -> None:
    body = """mov.u32 %r1, s; shl.b32 %r2, %tid, 2; add.s32 %r3, %r1, %r2; st.shared.u32 [%r3], %tid; bar.sync 0;
    sub.s32 %r4, %r3, 16; mov.u32 %r5, 77; setp.ge.u32 %p1, %tid, 4; @%p1 ld.shared.u32 %r5, [%r4];
    sub.s32 %r6, %r1, 64; ld.shared.u32 %r7, [%r6+68]; add.u32 %r5, %r5, %r7; st.global.u32 [%at], %r5;"""
    out = np.zeros(32, np.int32)
    run(kernel(body, declarations=".shared .align 4 .b8 s[128];"), out)
    assert out.tolist() == [78] * 4 + list(range(1, 29))


@pytest.mark.parametrize("condition", ["setp.lt.u32 %p1, %tid, 9", "setp.eq.u32 %p1, %block, 0"])
def test_guarded_accesses_by_one_register_are_checked_each_for_itself(condition: str) -> None:
    body = f"""{condition}; @%p1 st.global.u32 [%at], %tid; @%p1 ld.global.u32 %r1, [%at]; @%p1 add.u32 %r1, %r1, 1;
    @%p1 st.global.u32 [%at+128], %r1;"""
    out = np.full(64, -1, np.int32)
    run(kernel(body), out)
    count = 9 if "tid" in condition else 32
    assert out.tolist() == [*range(count)] + [-1] * (32 - count) + [*range(1, count + 1)] + [-1] * (32 - count)


def test_a_kernel_cannot_write_its_parameters() -> None:
    with pytest.raises(PtxError, match="parameter of the kernel"):
        run(kernel("st.param.u64 [p0], %out;"), np.zeros(32, np.int32))


def test_a_call_passes_only_bytes_of_its_frame() -> None:
    with pytest.raises(PtxError, match="'far'"):
        run(kernel(".param .b32 rv; call (rv), vprintf, (far, far);", module=PRINTF + FAR), np.zeros(32, np.int32))
