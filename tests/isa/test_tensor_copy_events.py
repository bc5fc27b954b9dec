"""Events of a box have exactly its bytes of global memory: against NumPy and by findings."""

from __future__ import annotations

import numpy as np
import pytest
from boxes import CASES, SHARED_BYTES, box_of, load_text, store_text

import tilewright as tw
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.observe.instruments.coalescing import Coalescing
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.observe.instruments.touched import Touched
from tilewright.programs import Program
from tilewright.simt import Memory, launch

STEPPED = {"2d": (2, 1), "before": (3, 1), "3d": (2, 3, 1), "5d": (1, 2, 2, 2, 1)}


def touched(case, *, stores, steps=None):
    """The bytes of an array that a box reads and writes, in its shape and bytes; what was counted."""
    shape, box, corner, swizzle, dtype = CASES[case]
    memory = Memory()
    array = memory.array(np.ones(shape, dtype))
    counts = [-(-extent // step) for extent, step in zip(box, steps or (1,) * len(box), strict=True)]
    size = int(np.prod(counts)) * array.dtype.itemsize
    tensor = TensorMap(array, box, swizzle, steps=steps)
    text = store_text(corner, -(-size // 1024) * 1024) if stores else load_text(len(shape), corner, size)
    given, tools = np.zeros(SHARED_BYTES, np.uint8), [Touched(), Coalescing()]
    results = launch(Program.from_ptx(text), 1, 64, (tensor, given), memory=memory, instruments=tools).results
    seen, each = results["touched"], (array.dtype.itemsize,)
    views = [seen.of(x, array.address, (*shape, *each), (*array.strides, 1)) for x in (seen.read, seen.written)]
    rows = [row for row in results["coalescing"].rows if "tensor" in row.site.opcode and row.requests]
    return *views, rows


def marked(case, steps=None):
    """The bytes of the elements that a box has, one by one."""
    shape, box, corner, _, dtype = CASES[case]
    numbers = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    found = np.isin(numbers, box_of(numbers, corner, box, steps or (1,) * len(box), 0))
    return np.repeat(found[..., None], np.dtype(dtype).itemsize, axis=-1)


@pytest.mark.parametrize("case", CASES)
def test_events_have_the_bytes_that_are_loaded(case):
    read, written, _ = touched(case, stores=False)
    assert np.array_equal(read, marked(case))
    assert not written.any()


@pytest.mark.parametrize("case", CASES)
def test_events_have_the_bytes_that_are_stored(case):
    read, written, _ = touched(case, stores=True)
    assert np.array_equal(written, marked(case))
    assert not read.any()


@pytest.mark.parametrize("case", STEPPED)
def test_events_have_only_elements_that_steps_reach(case):
    read, _, _ = touched(case, stores=False, steps=STEPPED[case])
    assert np.array_equal(read, marked(case, STEPPED[case]))


def test_events_have_the_bytes_of_a_box_that_overwrites_its_own_map():
    """The map is in shared memory, where its box goes; what arrives there would be a map of rows far outside."""
    moved = """.reg .b64 %word; .reg .b32 %to, %number; mov.u32 %to, %s; mov.u32 %number, 0;
more: ld.b64 %word, [%m]; st.shared.b64 [%to], %word; add.u64 %m, %m, 8; add.u32 %to, %to, 8;
add.u32 %number, %number, 8; setp.lt.u32 %done, %number, 128; @%done bra more;
cvt.u64.u32 %m, %s; cvta.shared.u64 %m, %m; mbarrier.init"""
    shape, box, corner, _, dtype = CASES["2d"]
    memory = Memory()
    array = memory.array(np.full(shape, 0x7FFFFFFF, "u4").view(dtype))
    text = load_text(2, corner, 4 * int(np.prod(box))).replace("mbarrier.init", moved, 1)
    program, given = Program.from_ptx(text), (TensorMap(array, box), np.zeros(SHARED_BYTES, np.uint8))
    tools = [Touched(), Coalescing(), MemoryCheck(program.module)]
    seen = launch(program, 1, 64, given, memory=memory, instruments=tools).results["touched"]
    read = seen.of(seen.read, array.address, (*shape, 4), (*array.strides, 1))
    assert np.array_equal(read, marked("2d"))


def test_sectors_of_a_box():
    """40 rows of 128 bytes, 4 sectors each; 32 pieces of 16 bytes are a request."""
    for stores in (False, True):
        (row,) = touched("2d-128", stores=stores)[2]
        assert (row.requests, row.sectors, row.bytes_used) == (10, 160, 5120)


def test_a_warp_that_stores_a_box_stores_it_once():
    """All lanes of one warp run the store, as CUTLASS has it; not with sources of their own, nor those of two warps."""
    array, given, text = np.zeros((50, 64), np.float32), np.zeros(4096, np.uint8), store_text((4, 8), 4096)
    arguments, one = (TensorMap(array, (16, 32)), given), "setp.eq.u32 %first, %t, 0"
    warp, two = (text.replace(one, f"setp.lt.u32 %first, %t, {lanes}") for lanes in (32, 64))
    results = launch(Program.from_ptx(warp), 1, 64, arguments, instruments=[Coalescing()]).results
    (row,) = (row for row in results["coalescing"].rows if "tensor" in row.site.opcode and row.requests)
    assert row.bytes_used == 16 * 32 * 4
    assert codes(warp, arguments) == set() and codes(two, arguments) == {"TW306"}
    halves = "over: mov.u32 %t, %tid.x; and.b32 %t, %t, 1; shl.b32 %t, %t, 11; add.u32 %s, %s, %t; "
    assert codes(warp.replace("over: ", halves), arguments) == {"TW306"}  # the other copy is in flight


def codes(text, arguments, grid=1, memory=None):
    return {one.code for one in tw.check(Program.from_ptx(text), grid, 64, arguments, memory=memory)}


def test_a_box_of_what_was_never_written_is_found():
    memory = Memory()
    unset, text = memory.empty((50, 64), np.float32), load_text(2, (4, 8), 16 * 32 * 4)
    out = memory.array(np.zeros(SHARED_BYTES, np.uint8))
    assert "TW201" in codes(text, (TensorMap(unset, (16, 32)), out), memory=memory)
    array = memory.array(np.ones((50, 64), np.float32))
    assert "TW201" not in codes(text, (TensorMap(array, (16, 32)), out), memory=memory)


def test_blocks_that_store_one_box_race():
    array, given, text = np.zeros((50, 64), np.float32), np.zeros(2048, np.uint8), store_text((4, 8), 2048)
    assert codes(text, (TensorMap(array, (16, 32)), given), 2) == {"TW303"}
    own = text.replace("{8, 4}", "{8, %row}").replace(".reg .pred %first", ".reg .b32 %row; .reg .pred %first")
    own = own.replace("mov.b64 %m, map;", "mov.u32 %row, %ctaid.x; shl.b32 %row, %row, 4; mov.b64 %m, map;")
    assert codes(own, (TensorMap(array, (16, 32)), given), 2) == set()
