"""Recorded requests: every warp's sectors in order, against a list of the addresses."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright import simt
from tilewright.instruments import Coalescing
from tilewright.observe.instruments.coalescing import CoalescingResult
from tilewright.observe.instruments.requests import LOCAL_SECTORS
from tilewright.programs import Program
from tilewright.simulate.events import GLOBAL_BASE, Handler, Site

#: Loads a row by a pattern, gathers by addresses, stores by lanes below a limit, and uses local memory.
TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry mixed(.param .u64 x, .param .u64 where, .param .u32 limit) {
  .local .align 8 .b8 room[64];
  .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [where]; ld.param.u32 %r8, [limit];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; ld.global.u32 %r5, [%d4+4];
  mul.wide.u32 %d5, %r4, 4; add.u64 %d5, %d2, %d5; ld.global.u32 %r6, [%d5];
  mul.wide.u32 %d6, %r6, 4; add.u64 %d6, %d1, %d6; ld.global.u32 %r7, [%d6];
  st.local.u32 [room+4], %r7;
  setp.lt.u32 %p1, %r1, %r8;
  @%p1 st.global.u32 [%d4], %r5;
  ret;
}"""
THREADS, BLOCKS, LIMIT = 80, 5, 50


def read(result: CoalescingResult) -> dict[int, list[tuple[str, list[int]]]]:
    """Each warp's requests: the opcode, and the sectors in ascending order."""
    assert result.requests is not None
    found: dict[int, list[tuple[str, list[int]]]] = defaultdict(list)
    for buffer in result.requests.buffers:
        at = 0
        while at < len(buffer):
            header = int(buffer[at])
            count = header & 255
            words = [int(word) for word in buffer[at + 1 : at + 1 + count]]
            numbers = [word // 16 * 4 + sector for word in words for sector in range(4) if word >> sector & 1]
            assert len(set(numbers)) == len(numbers) >= count > 0
            # neighbours in one line are one word
            assert all(one // 4 != other // 4 for one, other in itertools.pairwise(word >> 2 for word in words))
            site = result.rows[header >> 8 & 0xFFFF].site
            found[header >> 24].append((f"{site.access} {site.space}", sorted(numbers)))
            at += 1 + count
        assert at == len(buffer)
    return found


@pytest.fixture(scope="module", params=["any", "rising"])
def places(request: pytest.FixtureRequest) -> np.ndarray:
    found = np.random.default_rng(1).integers(0, 5000, THREADS * BLOCKS).astype(np.uint32)
    return np.sort(found) if request.param == "rising" else found


@pytest.mark.parametrize("seed", [None, 3])
def test_every_warps_requests_are_in_order(places: np.ndarray, seed: int | None) -> None:
    x = np.zeros(5000, np.uint32)
    memory = simt.Memory(1 << 20)
    x_there, places_there = memory.array(x), memory.array(places)
    run = simt.launch(
        Program.from_ptx(TEXT), BLOCKS, THREADS, (x_there, places_there, np.uint32(LIMIT)), memory=memory, seed=seed,
        instruments=[Coalescing(("global", "local"), record=True)],
    )  # fmt: skip
    result = run.results["coalescing"]
    assert result.requests.complete
    start, start_of_places = x_there.address, places_there.address
    assert start >= GLOBAL_BASE
    found = read(result)
    warps = -(-THREADS // 32)
    assert set(found) == set(range(BLOCKS * warps))
    for warp, requests in found.items():
        block, index = divmod(warp, warps)
        lanes = range(32 * index, min(32 * index + 32, THREADS))
        each = [block * THREADS + lane for lane in lanes]
        wanted = [
            ("load global", {(start + 4 * lane + 4) // 32 for lane in lanes}),
            ("load global", {(start_of_places + 4 * i) // 32 for i in each}),
            ("load global", {(start + 4 * int(places[i])) // 32 for i in each}),
            # 64 bytes a thread are 16 words, of four sectors each for the warp; word 1 of 8 lanes is a sector
            ("store local", {LOCAL_SECTORS + 64 * warp + 4 + lane % 32 // 8 for lane in lanes}),
            ("store global", {(start + 4 * lane) // 32 for lane in lanes if lane < LIMIT}),
        ]
        assert requests == [(name, sorted(sectors)) for name, sectors in wanted if sectors]


def test_thirty_two_bytes_a_lane() -> None:
    """The most words that a header can count; each of a lane's eight words is a line of the warp's local memory."""
    text = """
.version 8.8
.target sm_100
.address_size 64
.visible .entry wide() {
  .local .align 32 .b8 room[64];
  .reg .b32 %r<2>;
  mov.u32 %r1, 1; st.local.v8.b32 [room+32], {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1};
  ret;
}"""
    instrument = Coalescing(("global", "local"), record=True)
    run = simt.launch(Program.from_ptx(text), 1, 32, (), instruments=[instrument], gpu="b200")
    result = run.results["coalescing"]
    assert (result.rows[0].sectors, result.rows[0].bytes_used) == (32, 32 * 32)
    assert read(result) == {0: [("store local", list(range(LOCAL_SECTORS + 32, LOCAL_SECTORS + 64)))]}


def test_counts_are_those_without_recording(places: np.ndarray) -> None:
    results = [
        simt.launch(
            Program.from_ptx(TEXT), BLOCKS, THREADS, (np.zeros(5000, np.uint32), places, np.uint32(LIMIT)),
            instruments=[Coalescing(("global", "local"), record=record)],
        ).results["coalescing"]
        for record in (False, True)
    ]  # fmt: skip
    assert results[0].rows == results[1].rows
    assert results[0].requests is None


def test_a_lack_of_room_is_reported_and_earlier_requests_stay(places: np.ndarray) -> None:
    arguments = (np.zeros(5000, np.uint32), places, np.uint32(LIMIT))
    many = 3000
    run = simt.launch(
        Program.from_ptx(TEXT), many, THREADS, (arguments[0], np.resize(places, many * THREADS), arguments[2]),
        instruments=[Coalescing(record=True, most_bytes=1 << 19)],
    )  # fmt: skip
    found = run.results["coalescing"]
    assert not found.requests.complete
    assert found.rows[0].requests == many * 3
    assert sum(len(buffer) for buffer in found.requests.buffers) <= 1 << 16
    assert read(found)


class ByAddresses(Coalescing):
    """Gets no events for rows."""

    def strided(self, site: Site, offsets: tuple[int, ...], rows: tuple[int, ...]) -> Handler | None:
        return None


#: In blocks of 16 or 8 threads a row, lanes access rows of a stride that only the run knows; some of them store.
ROWS = """
ld.global.s32 %r9, [%a2]; ld.global.s32 %r8, [%a2+4]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
cvt.s64.s32 %d2, %r9; cvt.u64.u32 %d3, %r2; cvt.u64.u32 %d4, %r1; mad.lo.s64 %d5, %d3, %d2, %d4;
shl.b64 %d6, %d5, 3; add.s64 %d1, %a1, %d6;
ld.global.u64 %d7, [%d1+40]; setp.ge.s32 %p1, %tid, %r8; @%p1 bra JOIN; st.global.u64 [%d1], %d7; JOIN:"""


@pytest.mark.parametrize("block", [(16, 4), (8, 8), (2, 16)], ids=str)
@pytest.mark.parametrize("stride", [200, -200, 37, 33, 16, 3, 0])
def test_rows_are_counted_and_recorded_like_their_addresses(block: tuple[int, int], stride: int) -> None:
    program = kernel(ROWS, 3)
    seen = []
    for instrument in (Coalescing(record=True), ByAddresses(record=True)):
        memory = simt.Memory()
        room = memory.array(np.zeros(8000, np.uint64))
        facts = memory.array(np.array([stride, 40], np.int32))
        done = run(program, memory.empty(1, np.uint64), room[3500:], facts, block=block, instruments=[instrument])
        result = done.results["coalescing"]
        seen.append(([(row.site, row.requests, row.lanes, row.sectors, row.bytes_used, row.ideal_sectors)
                      for row in result.rows], read(result)))  # fmt: skip
    assert seen[0] == seen[1]
