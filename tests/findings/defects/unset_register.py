"""PTX: the register of a sum is never set before the loop adds to it."""

from dataclasses import replace

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry sums(.param .u64 x, .param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %t, %value, %sum, %i;
    .reg .b64 %x, %out;
    mov.u32 %t, %tid.x;
    ld.param.u64 %x, [x];
    mad.wide.u32 %x, %t, 4, %x;
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %t, 4, %out;
    mov.b32 %i, 0;
NEXT:
    ld.global.u32 %value, [%x];
    add.u32 %sum, %sum, %value;  // finds: TW204
    add.s64 %x, %x, 128;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 3;
    @%p bra NEXT;
    st.global.u32 [%out], %sum;
    ret;
}
"""


def arguments(rng):
    return rng.integers(0, 99, 96).astype(np.uint32), np.zeros(32, np.uint32)


def reference(x, out):
    return {1: x.reshape(3, 32).sum(axis=0)}


NEVER_SET = ptx(__file__, SOURCE, "sums")
SET_FIRST = replace(NEVER_SET, text=NEVER_SET.text.replace("mov.b32 %i, 0;", "mov.b32 %i, 0; mov.b32 %sum, 0;"))

CASES = (
    Case("sum_never_set", NEVER_SET, 1, 32, arguments, defective=True),
    Case("sum_set", SET_FIRST, 1, 32, arguments, reference),
)
