"""PTX: all threads of a block load a number and one stores its successor, after half of them have kept the number.

Compilers of tiles load in all threads and store in one. The clean twin does that: the numbers of the others are no use.
"""

from dataclasses import replace

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry count(.param .u64 number, .param .u64 out)
{
    .reg .pred %first, %keeps;
    .reg .b32 %t, %value, %next, %part;
    .reg .b64 %number, %out;
    ld.param.u64 %number, [number];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %out, %t, 4, %out;
    mov.u32 %value, 0;
    ld.global.u32 %value, [%number];
    add.u32 %next, %value, 1;
    and.b32 %part, %t, 127;
    setp.eq.u32 %first, %part, 0;
    setp.lt.u32 %keeps, %t, 64;
    @%keeps st.global.u32 [%out], %value;
    @%first st.global.u32 [%number], %next;  // finds: TW302
    ret;
}
"""


def arguments(rng):
    return np.array([4], np.uint32), np.zeros(128, np.uint32)


def reference(number, out):
    return {0: number + 1, 1: np.where(np.arange(128) == 0, number, out)}


KEPT_BY_SEVERAL = ptx(__file__, SOURCE, "count")
KEPT_BY_ONE = replace(KEPT_BY_SEVERAL, text=KEPT_BY_SEVERAL.text.replace("%keeps, %t, 64", "%keeps, %t, 1"))

CASES = (
    Case("kept_by_several", KEPT_BY_SEVERAL, 1, 128, arguments, defective=True),
    Case("kept_by_one", KEPT_BY_ONE, 1, 128, arguments, reference),
)
