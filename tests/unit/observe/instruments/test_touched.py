"""Maps of read and written bytes, against addresses computed in Python."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.observe.instruments.touched import Touched
from tilewright.simt import DeviceArray, Memory

#: How a thread computes the byte offset %d1 of its access, and the same in Python.
PLACES = {
    "uniform": ("mov.u64 %d1, 48;", lambda t: 48),
    "run": ("mul.wide.u32 %d1, %tid, {size};", lambda t, size: t * size),
    "stride": ("mul.wide.u32 %d1, %tid, 48;", lambda t: t * 48),
    "backwards": ("mad.wide.s32 %d1, %tid, -16, 1600;", lambda t: 1600 - 16 * t),
    "free": (
        "xor.b32 %r1, %tid, 5; mul.lo.u32 %r1, %r1, %r1; and.b32 %r1, %r1, 255; mul.wide.u32 %d1, %r1, 16;",
        lambda t: ((t ^ 5) ** 2 & 255) * 16,
    ),
}
#: An access at %d2 of this many bytes.
LOADS = {
    1: "ld.global.u8 %r2, [%d2];",
    2: "ld.global.u16 %r2, [%d2];",
    4: "ld.global.u32 %r2, [%d2];",
    8: "ld.global.v2.u32 {%r2, %r3}, [%d2];",
    16: "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d2];",
}
STORES = {
    1: "st.global.u8 [%d2], %r2;",
    2: "st.global.u16 [%d2], %r2;",
    4: "st.global.u32 [%d2], %r2;",
    8: "st.global.u64 [%d2], %d3;",
    16: "st.global.v4.u32 [%d2], {%r2, %r3, %r4, %r5};",
}


def touched(body: str, guard: str, block: int) -> tuple[list[int], list[int]]:
    """Byte offsets read and written in an array of 8,192 bytes."""
    memory = Memory()
    memory.empty(8, np.uint8)
    x = memory.empty(8192, np.uint8)
    done = run(kernel(f"{body} add.u64 %d2, %d1, %out; {guard}"), x, block=block, instruments=[Touched()])
    result = done.results["touched"]
    return tuple(
        np.flatnonzero(result.of(bytes_, x.address, x.shape, x.strides)).tolist()
        for bytes_ in (result.read, result.written)
    )


def bytes_of(place: str, size: int, threads: range) -> list[int]:
    function = PLACES[place][1]
    starts = [function(t, size) if place == "run" else function(t) for t in threads]
    return sorted({start + i for start in starts for i in range(size)})


@pytest.mark.parametrize("size", LOADS)
@pytest.mark.parametrize("place", PLACES)
def test_exactly_the_bytes_of_every_lane_are_recorded(place: str, size: int) -> None:
    body = PLACES[place][0].format(size=size)
    expected = bytes_of(place, size, range(40))
    assert touched(body, LOADS[size], 40) == (expected, [])
    assert touched(body, STORES[size], 40) == ([], expected)


@pytest.mark.parametrize("place", PLACES)
def test_inactive_lanes_touch_nothing(place: str) -> None:
    guard = "setp.gt.u32 %p1, %tid, 6; @%p1 st.global.u32 [%d2], %r2;"
    assert touched(PLACES[place][0].format(size=4), guard, 40) == ([], bytes_of(place, 4, range(7, 40)))
    never = "setp.gt.u32 %p1, %tid, 99; @%p1 st.global.u32 [%d2], %r2;"
    assert touched(PLACES[place][0].format(size=4), never, 40) == ([], [])


#: In blocks of 16 or fewer threads a row, lanes access rows of a stride that only the run knows; some of them store.
ROWS = """
ld.global.s32 %r9, [%a2]; cvt.s64.s32 %d2, %r9; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
cvt.u64.u32 %d3, %r2; cvt.u64.u32 %d4, %r1; mad.lo.s64 %d5, %d3, %d2, %d4; shl.b64 %d6, %d5, 2;
add.s64 %d1, %a1, %d6; ld.global.u32 %r3, [%d1+14040];
setp.ge.s32 %p1, %tid, 40; @%p1 bra JOIN; st.global.u32 [%d1+14000], %r3; JOIN:"""


@pytest.mark.parametrize("block", [(16, 4), (8, 8), (2, 32)], ids=str)
@pytest.mark.parametrize("stride", [100, -100, 17, 16, 3, 0])
def test_rows_of_a_stride_that_only_the_run_knows(block: tuple[int, int], stride: int) -> None:
    memory = Memory()
    x, facts = memory.empty(8000, np.int32), memory.array(np.array([stride], np.int32))
    done = run(kernel(ROWS, 3), memory.empty(1, np.int32), x, facts, block=block, instruments=[Touched()])
    result = done.results["touched"]
    at = 3500 + np.array([t // block[0] * stride + t % block[0] for t in range(64)])
    read, written = (result.of(map_, x.address, x.shape, x.strides) for map_ in (result.read, result.written))
    assert np.flatnonzero(read).tolist() == sorted(set(at + 10))
    assert np.flatnonzero(written).tolist() == sorted(set(at[:40]))


def test_an_atomic_reads_and_writes() -> None:
    expected = bytes_of("run", 4, range(40))
    assert touched(PLACES["run"][0].format(size=4), "red.global.add.u32 [%d2], 1;", 40) == (expected, expected)


def test_the_last_lanes_of_memory_may_be_inactive() -> None:
    x = Memory().empty(40, np.uint32)
    body = "setp.lt.u32 %p1, %tid, 40; @%p1 st.global.u32 [%at], 1;"
    result = run(kernel(body), x, block=64, instruments=[Touched()]).results["touched"]
    assert result.of(result.written, x.address, x.shape, x.strides).all()


def test_an_array_of_any_strides_has_its_own_shape() -> None:
    x = Memory().empty((6, 8), np.uint32)
    result = run(kernel("st.global.u32 [%at], 1;"), x, block=24, instruments=[Touched()]).results["touched"]
    assert isinstance(x, DeviceArray)
    assert result.of(result.written, x.address, (6, 8), (32, 4)).tolist() == [[True] * 8] * 3 + [[False] * 8] * 3
    assert result.of(result.written, x.address, (8, 6), (4, 32)).tolist() == [[True] * 3 + [False] * 3] * 8
    assert result.of(result.written, x.address + 8 * 4, (3,), (-4,)).tolist() == [True] * 3
    assert result.of(result.written, x.address, (0, 6), (4, 32)).shape == (0, 6)
