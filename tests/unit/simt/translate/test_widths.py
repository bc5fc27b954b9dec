"""Registers must be as wide as the type they are used as."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import PtxError
from tilewright.gpu import Program
from tilewright.simt import launch

_HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n"
_REGISTERS = ".reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .f32 %f<3>; .reg .b16 %h<3>;\n"


@pytest.mark.parametrize(
    ("line", "operand"),
    [
        ("add.s64 %rd1, %r1, 5;", "%r1"),
        ("add.s32 %rd1, %r1, 5;", "%rd1"),
        ("add.f32 %f1, %f2, %rd1;", "%rd1"),
        ("mul.wide.s32 %r1, %r1, %r2;", "%r1"),
        ("mov.b32 %r1, %h1;", "%h1"),
    ],
)
def test_a_register_of_another_width_is_refused(line: str, operand: str) -> None:
    text = f"{_HEAD}{_REGISTERS}{line}\nret;\n}}\n"
    with pytest.raises(PtxError, match=rf"kernel\.ptx:7: operand '{operand}' of '.*' must be as wide as"):
        launch(Program.from_ptx(text), 1, 1, (np.zeros(1, np.uint32),))


@pytest.mark.parametrize("line", ["add.s64 %rd1, %rd2, 5;", "mul.wide.s32 %rd1, %r1, %r2;", "mov.b32 %f1, %r1;",
                                  "shl.b64 %rd1, %rd1, %r1;", "cvt.u16.u8 %h1, %r1;"])  # fmt: skip
def test_the_right_width_is_not(line: str) -> None:
    launch(Program.from_ptx(f"{_HEAD}{_REGISTERS}{line}\nret;\n}}\n"), 1, 1, (np.zeros(1, np.uint32),))


@pytest.mark.parametrize("line", ["bar.sync 16;", "bar.sync 1, 48;", "bar.sync 1, 0;", "barrier.sync 99, 64;"])
def test_barriers_that_no_gpu_has_are_refused(line: str) -> None:
    with pytest.raises(PtxError, match=r"kernel\.ptx:7: the (barrier|threads) of '.*' must be"):
        launch(Program.from_ptx(f"{_HEAD}{_REGISTERS}{line}\nret;\n}}\n"), 1, 64, (np.zeros(1, np.uint32),))
