"""PTX: two warps meet at barrier 2 by registers that hold its number and count, and reduce a predicate there."""

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry ptx_pipeline(.param .u64 x, .param .u64 out)
{
    .reg .pred %p, %all;
    .reg .b32 %t, %value, %number, %threads, %result;
    .reg .b64 %x, %out, %wide;

    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %wide, %t, 4;
    add.s64 %x, %x, %wide;
    add.s64 %out, %out, %wide;
    ld.global.s32 %value, [%x];
    setp.gt.s32 %p, %value, 0;
    shr.u32 %number, %t, 6;
    add.u32 %number, %number, 2;
    mov.u32 %threads, 64;
    barrier.red.popc.u32 %result, %number, %threads, %p;
    barrier.red.and.pred %all, %number, %threads, %p;
    @%all add.u32 %result, %result, 1000;
    st.global.u32 [%out], %result;
    ret;
}
"""


def arguments(rng):
    return np.concatenate([np.arange(1, 65), rng.integers(-9, 9, 64)]).astype(np.int32), np.zeros(128, np.uint32)


def reference(x, out):
    return {1: np.repeat([1064, (x[64:] > 0).sum()], 64)}


KERNEL = ptx(__file__, SOURCE, "ptx_pipeline")
CASES = (Case("ptx_pipeline", KERNEL, 1, 128, arguments, reference, unwritten=(1,)),)
