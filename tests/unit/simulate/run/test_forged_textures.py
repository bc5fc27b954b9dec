"""A kernel can forge the record of a texture: no such record makes the runtime access memory out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import MemoryAccessError
from tilewright.programs import Program
from tilewright.simulate.run.launch import launch
from tilewright.simulate.state import TEXTURE_NUMBERS, TEXTURE_RECORD

FLOATS, WRAP = 2, 0
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry reads(.param .u64 record, .param .u64 numbers, .param .u64 out) {
  .reg .b64 %rd<4>; .reg .f32 %f<7>;
  ld.param.u64 %rd1, [record]; ld.param.u64 %rd2, [numbers]; ld.param.u64 %rd3, [out];
  st.global.u64 [%rd1], %rd2;
  mov.f32 %f5, 0f3FA00000; mov.f32 %f6, 0f3F000000;
  tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];
  st.global.f32 [%rd3], %f1;
  ret;
}
"""


def read(**forged):
    record = np.zeros(1, TEXTURE_RECORD)
    whole = {
        "row_bytes": 1 << 12, "extents": [4, 1, 1], "channels": 1, "bits": 32, "elements": FLOATS, "modes": [WRAP] * 3,
        "magic": TEXTURE_NUMBERS["magic"], "does": TEXTURE_NUMBERS["normalized"],
    }  # fmt: skip
    for name, value in (whole | forged).items():
        record[name] = value
    numbers, out = np.arange(1 << 14, dtype=np.float32), np.zeros(1, np.float32)
    launch(Program.from_ptx(KERNEL), 1, 1, (record.view(np.uint8), numbers, out))
    return out[0]


def test_a_record_that_a_kernel_finished_is_read():
    assert read() == 1  # 1.25 turns of 4 elements
    assert read(extents=[8, 1, 1]) == 2


@pytest.mark.parametrize(
    "forged",
    [{"bits": bits} for bits in (0, 24, 64, 8192)]
    + [{"channels": 0}, {"channels": 5}, {"extents": [0, 1, 1]}, {"extents": [4, 0, 1]}, {"magic": 1}],
    ids=str,
)
def test_an_invalid_record_is_refused(forged):
    with pytest.raises(MemoryAccessError, match="out of bounds global load"):
        read(**forged)
