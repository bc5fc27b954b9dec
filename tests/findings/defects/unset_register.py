"""PTX: a register that is set on one path only and stored on both."""

import numpy as np
from case import Case, ptx

SOURCE = r"""
.version 8.0
.target sm_90
.address_size 64

.visible .entry set_on_one_path(.param .u64 x, .param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %t, %value, %sign;
    .reg .b64 %x, %out, %wide;
    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %wide, %t, 4;
    add.s64 %x, %x, %wide;
    add.s64 %out, %out, %wide;
    ld.global.s32 %value, [%x];
    setp.lt.s32 %p, %value, 0;
    @!%p bra STORE;
    mov.b32 %sign, -1;
STORE:
    st.global.u32 [%out], %sign;  // finds: TW204
    ret;
}

.visible .entry set_on_both_paths(.param .u64 x, .param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %t, %value, %sign;
    .reg .b64 %x, %out, %wide;
    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %wide, %t, 4;
    add.s64 %x, %x, %wide;
    add.s64 %out, %out, %wide;
    ld.global.s32 %value, [%x];
    setp.lt.s32 %p, %value, 0;
    mov.b32 %sign, 1;
    @!%p bra STORE_BOTH;
    mov.b32 %sign, -1;
STORE_BOTH:
    st.global.u32 [%out], %sign;
    ret;
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: np.where(x < 0, -1, 1)}


CASES = (
    Case("register_set_on_one_path", ptx(__file__, SOURCE, "set_on_one_path"), 1, 64, arguments, defective=True),
    Case("register_set_on_both_paths", ptx(__file__, SOURCE, "set_on_both_paths"), 1, 64, arguments, reference),
)
