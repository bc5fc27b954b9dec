"""PTX: a barrier of 48 threads, which is no number of whole warps."""

import numpy as np
from case import Case, ptx

SOURCE = r"""
.version 8.0
.target sm_90
.address_size 64

.visible .entry of_forty_eight(.param .u64 out)
{
    .reg .b32 %t, %threads;
    .reg .b64 %out, %wide;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %threads, 48;
    barrier.sync 1, %threads;  // finds: TW403
    mul.wide.u32 %wide, %t, 4;
    add.s64 %out, %out, %wide;
    st.global.u32 [%out], %t;
    ret;
}

.visible .entry of_sixty_four(.param .u64 out)
{
    .reg .b32 %t, %threads;
    .reg .b64 %out, %wide;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %threads, 64;
    barrier.sync 1, %threads;
    mul.wide.u32 %wide, %t, 4;
    add.s64 %out, %out, %wide;
    st.global.u32 [%out], %t;
    ret;
}
"""


def arguments(rng):
    return (np.zeros(64, np.uint32),)


def reference(out):
    return {0: np.arange(64)}


CASES = (
    Case("barrier_of_48", ptx(__file__, SOURCE, "of_forty_eight"), 1, 64, arguments, defective=True),
    Case("barrier_of_64", ptx(__file__, SOURCE, "of_sixty_four"), 1, 64, arguments, reference),
)
