"""Textures at any coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.state import TEXTURE_NUMBERS, TEXTURE_RECORD

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 elements, .param .u64 record, .param .u64 at)
{
  .reg .b32 %r<4>; .reg .f32 %f<8>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [elements];
  ld.param.u64 %rd3, [record];
  ld.param.u64 %rd4, [at];
  st.global.u64 [%rd3], %rd2;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd5, %r1, 4;
  add.u64 %rd4, %rd4, %rd5;
  ld.global.f32 %f1, [%rd4];
  tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd3, {%f1}];
  add.u64 %rd1, %rd1, %rd5;
  st.global.f32 [%rd1], %f2;
  ret;
}
"""
PROGRAM = Program.from_ptx(KERNEL, "k")
WRAP, CLAMP, MIRROR, BORDER = range(4)
ELEMENTS = np.array([0.1, 1.1, 2.1, 3.1], np.float32)


def read(at: Any, mode: int, does: int) -> npt.NDArray[np.float32]:
    """What lanes read of four elements at coordinates."""
    record, places = np.zeros(1, TEXTURE_RECORD), np.asarray(at, np.float32)
    said = {
        "row_bytes": 16, "plane_bytes": 16, "extents": (4, 1, 1), "modes": mode, "channels": 1, "bits": 32,
        "elements": 2, "does": does, "magic": TEXTURE_NUMBERS["magic"],
    }  # fmt: skip
    for name, value in said.items():
        record[name] = value
    out = np.zeros(len(places), np.float32)
    launch(PROGRAM, 1, len(places), (out, ELEMENTS.copy(), record.view(np.uint8), places))
    return out


@pytest.mark.parametrize("normalized", [False, True])
def test_linear_filtering_far_beyond_the_ends_reads_the_ends(normalized: bool) -> None:
    far = np.array([2.0**31, 1e10, 3e38, np.inf], np.float32)
    does = TEXTURE_NUMBERS["linear"] | TEXTURE_NUMBERS["normalized"] * normalized
    assert read([*far, *-far], CLAMP, does).tolist() == [*ELEMENTS[[3] * 4], *ELEMENTS[[0] * 4]]
    assert read([*far, *-far], BORDER, does).tolist() == [0] * 8


@pytest.mark.parametrize("mode", [WRAP, MIRROR])
def test_numbers_without_a_fraction_are_read_as_0_where_coordinates_return(mode: int) -> None:
    does = TEXTURE_NUMBERS["linear"] | TEXTURE_NUMBERS["normalized"]
    far = [2.0**24, 2.0**30, 2.0**31, 1e10, np.inf, -(2.0**24), -(2.0**31), -1e10, -np.inf]
    assert read(far, mode, does).tolist() == [read([0], mode, does)[0]] * len(far)
