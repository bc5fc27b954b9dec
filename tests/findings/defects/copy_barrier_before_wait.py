"""The barrier stands before the wait: behind it other threads' copies may still be under way."""

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry too_early(.param .u64 x, .param .u64 out) {
    .reg .b32 %t, %s, %a, %v; .reg .b64 %x, %out, %w;
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %w, %t, 4;
    add.u64 %x, %x, %w;
    add.u64 %out, %out, %w;
    mov.u32 %s, tile;
    shl.b32 %a, %t, 2;
    add.u32 %a, %a, %s;
    cp.async.ca.shared.global [%a], [%x], 4;
    bar.sync 0;
    cp.async.wait_all;
    xor.b32 %a, %t, 255;
    shl.b32 %a, %a, 2;
    add.u32 %a, %a, %s;
    ld.shared.u32 %v, [%a];  // finds: TW306
    st.global.u32 [%out], %v;
    ret;
}

.visible .entry in_time(.param .u64 x, .param .u64 out) {
    .reg .b32 %t, %s, %a, %v; .reg .b64 %x, %out, %w;
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %w, %t, 4;
    add.u64 %x, %x, %w;
    add.u64 %out, %out, %w;
    mov.u32 %s, tile;
    shl.b32 %a, %t, 2;
    add.u32 %a, %a, %s;
    cp.async.ca.shared.global [%a], [%x], 4;
    cp.async.wait_all;
    bar.sync 0;
    xor.b32 %a, %t, 255;
    shl.b32 %a, %a, 2;
    add.u32 %a, %a, %s;
    ld.shared.u32 %v, [%a];
    st.global.u32 [%out], %v;
    ret;
}
"""


def arguments(rng):
    return rng.permutation(256).astype(np.int32), np.zeros(256, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("copy_too_early", ptx(__file__, SOURCE, "too_early"), 1, 256, arguments, defective=True),
    Case("copy_in_time", ptx(__file__, SOURCE, "in_time"), 1, 256, arguments, reference),
)
