"""Every kind of event reaches a handler, with the lanes and values that it promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ptx_kernels import kernel, run

from tilewright.simulate.events import (
    FIELDS,
    VALUES_STRIDE_BYTES,
    EventKind,
    Facts,
    Handler,
    Instrument,
    Site,
    Storage,
    parameters,
)


class Adder(Instrument):
    """Adds one i64, made by a piece of LLVM text as `%x`, to a counter of each opcode that has sites of a kind."""

    slots = 1

    def __init__(
        self,
        kind: EventKind,
        text: str,
        *,
        affine: bool = False,
        values: bool = False,
        each: tuple[int, ...] = (),
    ) -> None:
        self.name = "adder"
        self.kind, self.text, self.affine, self.values, self.each = kind, text, affine, values, each

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        if site.kind is not self.kind or (self.kind is EventKind.VALUE and not site.opcode.startswith("mad")):
            return None
        values = self.values and site.access == "store"
        affine = self.affine and offsets is not None
        listed = parameters(site.kind, affine=affine, values=values)
        text = f"""declare i32 @llvm.ctpop.i32(i32)
        define void @tw.adder({listed}) {{
          {self.text}
          %old = load i64, ptr %counters
          %new = add i64 %old, %x
          store i64 %new, ptr %counters
          ret void
        }}"""
        return Handler("tw.adder", text, affine, values, each=self.each)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> Any:
        sums = dict.fromkeys((site.opcode for site in sites), 0)
        for site, row in zip(sites, counters, strict=True):
            sums[site.opcode] += int(row[0])
        return sums


def added(body: str, adder: Instrument, grid: int = 1, block: int = 64, **options: Any) -> Any:
    out = np.zeros(grid * block, np.uint32)
    return run(kernel(body, **options), out, grid=grid, block=block, instruments=[adder]).results["adder"]


COUNT = "%x = add i64 0, 1"


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (EventKind.ARRIVE, "bar.sync 0;", {"bar.sync": 2}),
        (EventKind.ARRIVE, "bar.arrive 1, 64;", {"bar.arrive": 2}),
        (EventKind.RELEASE, "bar.sync 0;", {"bar.sync": 2}),
        (
            EventKind.RELEASE,
            "setp.eq.u32 %p1, %lane, 3; @%p1 bar.sync 0; @!%p1 barrier.sync 0;",
            {"bar.sync": 2, "barrier.sync": 2},
        ),
        (EventKind.SYNC, "bar.warp.sync 0xffffffff;", {"bar.warp.sync": 2}),
        (EventKind.FENCE, "membar.gl;", {"membar.gl": 2}),
        (
            EventKind.TOGETHER,
            "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;",
            {"movmatrix.sync.aligned.m8n8.trans.b16": 2},
        ),
        (EventKind.COMMIT, "cp.async.commit_group;", {"cp.async.commit_group": 2}),
        (EventKind.WAIT, "cp.async.wait_group 3;", {"cp.async.wait_group": 6}),
        (EventKind.COMMIT, "cp.async.wait_all;", {"cp.async.wait_all": 2}),
        (EventKind.WAIT, "cp.async.wait_all;", {"cp.async.wait_all": 0}),
        (EventKind.EXIT, "", {"ret": 2}),
        (EventKind.RUN, "", {"ld.param.u64": 2}),
    ],
)
def test_events_happen_once_a_warp(kind, body, expected):
    counted = "%x = zext i32 %groups to i64" if kind is EventKind.WAIT else COUNT
    assert added(body, Adder(kind, counted)) == expected


def test_a_branch_event_has_the_lanes_that_take_it():
    text = """%taken.lanes = call i32 @llvm.ctpop.i32(i32 %taken)
        %x = zext i32 %taken.lanes to i64"""
    body = "setp.lt.u32 %p1, %lane, 5; @%p1 bra L; add.u32 %r1, %r1, 1; L: st.global.u32 [%at], %r1;"
    assert added(body, Adder(EventKind.BRANCH, text)) == {"bra": 10}


def test_a_uniform_branch_event_has_all_lanes_or_none():
    adder = Adder(EventKind.BRANCH, "%x = zext i32 %taken to i64")
    body = "setp.{}.u32 %p1, %block, 0; @%p1 bra L; add.u32 %r1, %r1, 1; L: st.global.u32 [%at], %r1;"
    assert added(body.format("lt"), adder, block=32) == {"bra": 0}
    assert added(body.format("ge"), adder, block=32) == {"bra": 0xFFFF_FFFF}


def test_a_pattern_access_has_its_base():
    adder = Adder(EventKind.ACCESS, "%x = add i64 %base, 0", affine=True)
    body = "mov.u32 %r1, %tid.x; mad.lo.u32 %r3, %r1, 4, 64; st.shared.u32 [%r3+8], %r2;"
    assert added(body, adder, block=32, declarations=".shared .align 8 .b8 s[256];") == {"st.shared.u32": 64}


def test_an_access_has_each_lane_s_address_and_its_width():
    text = """%p = getelementptr i64, ptr %addresses, i64 5
        %q = load i64, ptr %p
        %r = load i64, ptr %addresses
        %d = sub i64 %q, %r
        %w = zext i32 %bytes to i64
        %x = mul i64 %d, %w"""
    assert added("st.global.u32 [%at], 1;", Adder(EventKind.ACCESS, text), block=32)["st.global.u32"] == 5 * 4 * 4


def test_a_store_has_its_values():
    text = f"""%p = getelementptr i8, ptr %values, i64 {VALUES_STRIDE_BYTES + 4 * 7}
        %v = load i32, ptr %p
        %x = zext i32 %v to i64"""
    adder = Adder(EventKind.ACCESS, text, values=True)
    found = added("mul.lo.u32 %r1, %lane, 3; st.shared.v2.u32 [s], {%r2, %r1};", adder, block=32,
                  declarations=".shared .align 8 .b8 s[8];")  # fmt: skip
    assert found["st.shared.v2.u32"] == 21


def test_a_computation_has_its_operands_by_sign():
    text = f"""%p = getelementptr i8, ptr %values, i64 {VALUES_STRIDE_BYTES * 2 + 8 * 3}
        %x = load i64, ptr %p"""
    body = "mov.u32 %r1, -7; mad.lo.s32 %r2, %lane, 3, %r1; st.global.u32 [%at], %r2;"
    assert added(body, Adder(EventKind.VALUE, text), block=32)["mad.lo.s32"] == (1 << 64) - 7


#: A loop of three rounds, lanes that diverge, and a guard that holds in one block.
LINES = """mov.u32 %r9, 0;
    L: brev.b32 %r1, %r9; st.shared.b32 [s], %r1; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra L;
    setp.lt.u32 %p1, %lane, 5; @%p1 bra M; popc.b32 %r2, %r1; st.shared.b16 [s], %h1; M:
    st.shared.v2.b16 [s], {%h1, %h1}; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p2, %r8, 1; @%p2 st.shared.b8 [s], %h1;
    @%p1 st.shared.b64 [s], %d1;"""


@pytest.mark.parametrize(
    ("block", "whole", "parts"), [(64, 2, 0), (40, 1, 1)], ids=["whole warps", "a warp of eight lanes"]
)
def test_constant_counts_are_multiplied_and_partial_masks_are_reported(block, whole, parts):
    options = {"grid": 2, "block": block, "declarations": ".shared .align 8 .b8 s[8];"}
    both, each = 2 * (1000 * whole + parts), (1000,)
    ran = added(LINES, Adder(EventKind.RUN, COUNT, each=each), **options)
    assert (ran["brev.b32"], ran["popc.b32"]) == (3 * both, 2 * (whole + parts))
    stored = added(LINES, Adder(EventKind.ACCESS, COUNT, affine=True, each=each), **options)
    some = 2 * (whole + parts)
    assert {name: n for name, n in stored.items() if ".shared" in name} == {
        "st.shared.b32": 3 * both, "st.shared.v2.b16": both, "st.shared.b8": both // 2,
        "st.shared.b16": some, "st.shared.b64": some,
    }  # fmt: skip


class Memories(Instrument):
    """Counts in its own memory: blocks' numbers in that of the launch, rounds in that of the block."""

    name = "memories"

    def __init__(self) -> None:
        self.name = "memories"

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        if site.kind is not EventKind.EXIT:
            return None
        text = f"""define void @tw.memories({parameters(site.kind)}) {{
          %at = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
          %number = load i64, ptr %at
          %wp = getelementptr i8, ptr %warp, i64 {FIELDS["warp.index"]}
          %w = load i32, ptr %wp
          %wide = zext i32 %w to i64
          %n = load i64, ptr %block
          %n1 = add i64 %n, 1
          store i64 %n1, ptr %block
          %place = getelementptr i64, ptr %launch, i64 %number
          %value = add i64 %n1, %wide
          store i64 %value, ptr %place
          ret void
        }}"""
        return Handler("tw.memories", text)

    def begin(self, facts: Facts) -> Storage:
        self.seen = np.zeros(facts.grid[0], np.int64)
        return Storage(self.seen, np.array([100], np.int64).view(np.uint8))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> Any:
        return self.seen.tolist()


def test_an_instrument_has_memory_of_the_launch_and_of_each_block():
    memories = Memories()
    run(kernel("st.global.u32 [%at], 1;"), np.zeros(64 * 9, np.uint32), grid=9, block=64, instruments=[memories])
    assert memories.seen.tolist() == [103] * 9  # initially 100, two warps, and the second's number
