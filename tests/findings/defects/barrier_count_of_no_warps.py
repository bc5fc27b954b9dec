"""PTX: a barrier of 48 threads, which is no number of whole warps."""

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry meet(.param .u64 out, .param .u32 threads)
{
    .reg .b32 %t, %threads;
    .reg .b64 %out, %wide;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    ld.param.u32 %threads, [threads];
    barrier.sync 1, %threads;  // finds: TW403
    mul.wide.u32 %wide, %t, 4;
    add.s64 %out, %out, %wide;
    st.global.u32 [%out], %t;
    ret;
}
"""


def with_barrier_of(threads):
    return lambda rng: (np.zeros(64, np.uint32), np.uint32(threads))


def reference(out, threads):
    return {0: np.arange(64)}


CASES = (
    Case("barrier_of_48", ptx(__file__, SOURCE, "meet"), 1, 64, with_barrier_of(48), defective=True),
    Case("barrier_of_64", ptx(__file__, SOURCE, "meet"), 1, 64, with_barrier_of(64), reference),
)
