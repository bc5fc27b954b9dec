"""PTX: blocks count their part with release and acquire operations; the last one adds up what all have stored."""

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry ptx_release_acquire(.param .u64 x, .param .u64 parts, .param .u64 count, .param .u64 total)
{
    .reg .pred %p;
    .reg .b32 %block, %blocks, %value, %before, %i, %sum;
    .reg .b64 %x, %parts, %count, %total, %at;

    mov.u32 %i, %tid.x;
    setp.ne.u32 %p, %i, 0;
    @%p ret;
    ld.param.u64 %x, [x];
    ld.param.u64 %parts, [parts];
    ld.param.u64 %count, [count];
    ld.param.u64 %total, [total];
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mul.wide.u32 %at, %block, 4;
    add.s64 %x, %x, %at;
    add.s64 %at, %parts, %at;
    ld.global.u32 %value, [%x];
    mul.lo.u32 %value, %value, %value;
    st.global.u32 [%at], %value;
    atom.acq_rel.gpu.global.add.u32 %before, [%count], 1;
    add.u32 %before, %before, 1;
    setp.ne.u32 %p, %before, %blocks;
    @%p ret;

    mov.u32 %i, 0;
    mov.u32 %sum, 0;
NEXT:
    ld.global.u32 %value, [%parts];
    add.u32 %sum, %sum, %value;
    add.s64 %parts, %parts, 4;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, %blocks;
    @%p bra NEXT;
    st.global.u32 [%total], %sum;
    ret;
}
"""


def arguments(rng):
    x = rng.integers(0, 99, 11).astype(np.uint32)
    return x, np.zeros(11, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)


def reference(x, parts, count, total):
    return {1: x * x, 2: [11], 3: [(x * x).sum()]}


KERNEL = ptx(__file__, SOURCE, "ptx_release_acquire")
CASES = (Case("ptx_release_acquire", KERNEL, 11, 32, arguments, reference, unwritten=(1, 3)),)
