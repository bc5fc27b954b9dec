"""Calls that pass and return registers, direct and recursive."""

from __future__ import annotations

import numpy as np

from tilewright.programs import Program
from tilewright.simt import launch

_PTX = """
.version 8.0
.target sm_90
.address_size 64
.func (.reg .u32 %out) factorial (.reg .u32 %n)
{
  .reg .pred %p; .reg .u32 %r<3>;
  mov.u32 %out, 1;
  setp.lt.u32 %p, %n, 2;
  @%p ret;
  sub.u32 %r1, %n, 1;
  call (%r2), factorial, (%r1);
  mul.lo.u32 %out, %r2, %n;
  ret;
}
.func (.reg .u32 %out) twice (.reg .u32 %n)
{
  add.u32 %out, %n, %n;
  ret;
}
.visible .entry k(.param .u64 x)
{
  .reg .u32 %r<6>; .reg .u64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, 77;
  and.b32 %r2, %r1, 7;
  setp.eq.u32 %p, %r2, 3;
  @%p bra skip;
  call (%r3), factorial, (%r2);
skip:
  call (%r4), twice, (%r3);
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r4;
  ret;
}
"""


def test_registers_return_through_recursive_and_inlined_calls() -> None:
    x = np.zeros(40, np.uint32)
    launch(Program.from_ptx(_PTX, "k"), 1, 40, (x,))
    factorial = [1, 1, 2, 77, 24, 120, 720, 5040]
    assert x.tolist() == [2 * factorial[i % 8] for i in range(40)]
