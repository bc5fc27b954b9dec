"""Arrays that were on the device before the check: it separates them as its own arrays, and restores their place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

import tilewright as tw
from tilewright.programs import Program
from tilewright.simt import DeviceArray, Memory

SHIFT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry shift(.param .u64 x, .param .u64 y) {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.u32 %r2, [%rd1+4]; add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2; ret;
}"""


def on_device(*sizes: int, capacity_bytes: int = 8 << 20) -> list[DeviceArray]:
    """Arrays one after the other, each full of its number; 64 words leave no padding between two."""
    memory = Memory(capacity_bytes)
    return [memory.array(np.full(size, number, np.int32)) for number, size in enumerate(sizes)]


def test_no_other_array_follows_one_that_was_on_the_device_before() -> None:
    x, y, _ = on_device(64, 64, 64)
    assert x.address + x.nbytes == y.address
    found = tw.check(Program.from_ptx(SHIFT), 1, 64, (x, y))
    assert [(one.code, one.thread, one.count) for one in found] == [("TW101", (63, 0, 0), 1)]
    x, y, _ = on_device(64, 63, 64)
    assert tw.check(Program.from_ptx(SHIFT), 1, 63, (x, y)) == ()


def test_arrays_on_the_device_hold_the_results_and_no_more_memory_than_before() -> None:
    x, y = on_device(64, 63)
    before = x.memory.allocated_bytes
    assert tw.check(Program.from_ptx(SHIFT), 1, 63, (x, y)) == ()
    assert y.to_host().tolist() == [1] * 63
    assert x.memory.allocated_bytes == before


def test_elements_that_a_launch_has_written_count_as_written() -> None:
    memory = Memory(8 << 20)
    x = memory.array(np.zeros(64, np.int32))
    between, y = memory.empty(63, np.int32), memory.empty(62, np.int32)
    program = Program.from_ptx(SHIFT)
    assert {one.code for one in tw.check(program, 1, 62, (between, y))} == {"TW201"}
    tw.simt.launch(program, 1, 63, (x, between))
    assert tw.check(program, 1, 62, (between, y)) == ()


CONSTANTS = np.arange(500, dtype=np.int32)


@cuda.jit
def constants_copied(out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = cuda.const.array_like(CONSTANTS)[3 * i]


def test_constants_of_numba_take_memory_for_a_launch_only() -> None:
    memory = Memory(8 << 20)
    out = memory.array(np.zeros(64, np.int32))
    before = memory.allocated_bytes
    for run in (tw.simt.launch, tw.check):
        out.view()[...] = 0
        run(constants_copied, 1, 64, (out,))  # type: ignore[operator]
        assert out.to_host().tolist() == list(range(0, 192, 3))
        assert memory.allocated_bytes == before


def test_two_arrays_of_one_allocation_stay_one() -> None:
    (x,) = on_device(65)
    again = DeviceArray(x.memory, x.address + 4, (64,), x.dtype)
    again.view()[...] = np.arange(64)
    assert tw.check(Program.from_ptx(SHIFT), 1, 64, (x, again)) == ()  # each reads its own word and writes it
    assert again.to_host().tolist() == (np.arange(64) + 1).tolist()


@cuda.jit
def swap_halves(a: Any, b: Any) -> None:
    i = cuda.threadIdx.x
    a[0, i], b[1, i] = b[1, i], a[0, i]


def test_two_matrices_of_one_allocation_stay_one() -> None:
    (x,) = on_device(8)
    a, b = (DeviceArray(x.memory, x.address, (2, 4), x.dtype) for _ in range(2))
    a.view()[...] = np.arange(8).reshape(2, 4)
    assert tw.check(swap_halves, 1, 4, (a, b)) == ()
    assert a.to_host().tolist() == b.to_host().tolist() == [[4, 5, 6, 7], [0, 1, 2, 3]]


def test_arrays_without_room_for_copies_are_used_in_place() -> None:
    x, y = on_device(64, 64, capacity_bytes=1 << 20)
    found = tw.check(Program.from_ptx(SHIFT), 1, 64, (x, y))
    assert [one.code for one in found] == ["TW302"]  # y follows x, and another warp writes it
    assert y.to_host().tolist()[:63] == [1] * 63
