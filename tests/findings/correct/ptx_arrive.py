"""PTX: one warp arrives at a barrier and goes on, another waits there for what the first has stored."""

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry ptx_arrive(.param .u64 x, .param .u64 out)
{
    .reg .pred %first;
    .reg .b32 %t, %lane, %offset, %at, %value;
    .reg .b64 %x, %out, %wide;
    .shared .align 4 .b8 slots[128];

    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    and.b32 %lane, %t, 31;
    mul.wide.u32 %wide, %lane, 4;
    mov.u32 %offset, slots;
    mad.lo.u32 %at, %lane, 4, %offset;
    setp.lt.u32 %first, %t, 32;
    @!%first bra CONSUME;

    add.s64 %x, %x, %wide;
    ld.global.u32 %value, [%x];
    add.u32 %value, %value, 7;
    st.shared.u32 [%at], %value;
    bar.arrive 1, 64;
    ret;

CONSUME:
    bar.sync 1, 64;
    xor.b32 %lane, %lane, 1;
    mad.lo.u32 %at, %lane, 4, %offset;
    ld.shared.u32 %value, [%at];
    add.s64 %out, %out, %wide;
    st.global.u32 [%out], %value;
    ret;
}
"""


def arguments(rng):
    return rng.integers(0, 99, 32).astype(np.uint32), np.zeros(32, np.uint32)


def reference(x, out):
    return {1: x[np.arange(32) ^ 1] + 7}


KERNEL = ptx(__file__, SOURCE, "ptx_arrive")
CASES = (Case("ptx_arrive", KERNEL, 1, 64, arguments, reference, unwritten=(1,)),)
