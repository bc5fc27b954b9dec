"""Shadow memory against a model that keeps every access and compares each pair."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from ptx_kernels import kernel

from tilewright.errors import KernelError, PtxError
from tilewright.observe.instruments.findings import codes as meanings
from tilewright.observe.instruments.shadow import cells, records
from tilewright.observe.instruments.shadow.accesses import how
from tilewright.observe.instruments.shadow.cells import SITE_MAX
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.simt import Limits, launch
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.ptx import parse

WARPS, LANES = 3, 32
THREADS = WARPS * LANES
WORDS = 160
WRITES = ("store", "atomic")
ACCESSES = ("load", *WRITES)


@dataclass(frozen=True)
class Step:
    """One instruction of a random kernel, of threads [low, high): an access at word `thread * stride + shift`.

    A sync is of lanes in groups of `tile` neighbours.
    """

    what: str  # "load", "store", "atomic", "barrier", "sync"
    low: int = 0
    high: int = THREADS
    stride: int = 1
    shift: int = 0
    tile: int = LANES

    def word(self, thread: int) -> int:
        return (thread * self.stride + self.shift) % WORDS

    def text(self, space: str, index: int) -> str:
        if self.what == "barrier":
            return "bar.sync 0;"
        ours = f"setp.ge.u32 %p1, %tid, {self.low}; setp.lt.and.u32 %p1, %tid, {self.high}, %p1;"
        if self.what == "sync":
            if self.tile == LANES:
                return f"{ours} @%p1 bar.warp.sync 0xffffffff;"
            first = f"and.b32 %r5, %lane, {LANES - self.tile}; mov.u32 %r6, {(1 << self.tile) - 1};"
            return f"{ours} {first} shl.b32 %r6, %r6, %r5; @%p1 bar.warp.sync %r6;"
        place = f"mul.lo.u32 %r1, %tid, {self.stride}; add.u32 %r1, %r1, {self.shift}; rem.u32 %r1, %r1, {WORDS};"
        place += "mul.lo.u32 %r1, %r1, 4;"
        address = "%r1"
        if space == "global":
            place += "cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, %out;"
            address = "%d1"
        access = {
            "load": f"ld.{space}.u32 %r2, [{address}];",
            "store": f"st.{space}.u32 [{address}], %r3;",
            "atomic": f"red.{space}.add.u32 [{address}], 1;",
        }[self.what]
        # a unique value for each thread and instruction, so that no two writes are the same
        return f"{place} mad.lo.u32 %r3, %tid, 1000, {index + 1};\n{ours} @%p1 {access}"


def random_steps(seed: int) -> list[Step]:
    """A few accesses between barriers and syncs."""
    choose = random.Random(seed)
    steps = []
    for _ in range(choose.randrange(3, 12)):
        what = choose.choice(["load", "load", "store", "store", "atomic", "barrier", "barrier", "sync", "sync"])
        low = choose.choice([0, 0, 0, 32, 5, 64])
        high = max(choose.choice([THREADS, THREADS, 64, 32, low + 1]), low + 1)
        stride, shift = choose.choice([0, 1, 1, 1, 2, 5]), choose.choice([0, 0, 1, 32])
        tile = LANES
        if what == "sync":
            tile = choose.choice([LANES, 16, 8, 2])
            low, high = low // tile * tile, -(-high // tile) * tile
            low, high = (low // LANES * LANES, -(-high // LANES) * LANES) if tile == LANES else (low, high)
        steps.append(Step(what, low, high, stride, shift, tile))
    return steps


class Instance(NamedTuple):
    """One thread's access of a word, and its clock: how many of each thread's steps come before it."""

    step: int
    thread: int
    what: str
    knows: list[int]


class Race(NamedTuple):
    """Two steps that race, and between whom: "lanes" or "warps"."""

    steps: frozenset[int]
    who: str


def by_word(steps: list[Step]) -> dict[int, list[Instance]]:
    """Every access of each word, with its vector clock over all threads."""
    knows = [[0] * THREADS for _ in range(THREADS)]
    words: dict[int, list[Instance]] = {}
    for index, step in enumerate(steps):
        if step.what in ("barrier", "sync"):
            size = THREADS if step.what == "barrier" else step.tile
            for first in range(0 if step.what == "barrier" else step.low, THREADS, size):
                if step.what == "barrier" or first < step.high:
                    group = range(first, first + size)
                    shown = [max(clocks) for clocks in zip(*(knows[t] for t in group), strict=True)]
                    shown[first : first + size] = [index] * size
                    for t in group:
                        knows[t] = shown
            continue
        for t in range(step.low, step.high):
            words.setdefault(step.word(t), []).append(Instance(index, t, step.what, knows[t]))
    return words


def races_of(instances: list[Instance]) -> set[Race]:
    """The races among accesses of one word: two threads, neither ordered before the other, and not both atomic."""
    found = set()
    for a, b in itertools.combinations(instances, 2):
        kinds = {a.what, b.what}
        if a.thread != b.thread and kinds & {*WRITES} and kinds != {"atomic"} and a.step >= b.knows[a.thread]:
            who = "lanes" if a.thread // LANES == b.thread // LANES else "warps"
            found.add(Race(frozenset((a.step, b.step)), who))
    return found


class Told(NamedTuple):
    """A reported race: the step, the other one (None where it is not known), and between whom."""

    step: int
    other: int | None
    who: str

    def means(self, race: Race) -> bool:
        known = {self.step} if self.other is None else {self.step, self.other}
        return self.who == race.who and (race.steps == known if self.other is not None else known <= race.steps)


class Records(MemoryCheck):
    """Every recorded race: two lines of PTX and the kind, before it becomes a finding."""

    def collect(self, sites, counters):
        return [
            (sites[one.row].ptx_line, sites[one.other].ptx_line if one.other < min(SITE_MAX, len(sites)) else None,
             one.kind)
            for one in records.read(self._table)
        ]  # fmt: skip


WHO = {
    cells.SHARED_RACE: "warps", cells.SHARED_LANES: "lanes", cells.GLOBAL_RACE: "warps", cells.GLOBAL_LANES: "lanes",
}  # fmt: skip


def shown(steps: list[Step], space: str, seed: int | None) -> set[Told]:
    """The races that the instrument records."""
    lines = [step.text(space, index) for index, step in enumerate(steps)]
    declared = f".shared .align 4 .b8 s[{4 * WORDS}];" if space == "shared" else ""
    fill = ""
    if space == "shared":  # write everything first, before a separate barrier
        stores = "".join(f"st.shared.u32 [%r9+{4 * THREADS * i}], %tid;" for i in range(WORDS // THREADS))
        rest = WORDS % THREADS
        last = f"setp.lt.u32 %p2, %tid, {rest}; @%p2 st.shared.u32 [%r9+{4 * (WORDS - rest)}], %tid;"
        fill = f"mul.lo.u32 %r9, %tid, 4; {stores} {last} bar.sync 0;"
    program = kernel("\n".join([fill, *lines]), declarations=declared)
    first = program.ptx.splitlines().index(lines[0].splitlines()[0])
    starts = list(itertools.accumulate((line.count("\n") + 1 for line in lines), initial=first + 1))
    step_of = {line: i for i in range(len(lines)) for line in range(starts[i], starts[i + 1])}
    memory = np.zeros(WORDS, np.uint32)
    run = launch(program, (1, 1, 1), (THREADS, 1, 1), (memory,), instruments=[Records(program.module)], seed=seed)
    return {
        Told(step_of[line], None if other is None else step_of[other], WHO[kind])
        for line, other, kind in run.results["memory"]
    }


def forgets(instances: list[Instance]) -> bool:
    """Whether an atomic comes after a plain write of the word."""
    stored = [one.step for one in instances if one.what == "store"]
    return any(one.what == "atomic" and one.step > min(stored, default=one.step) for one in instances)


def agree(seed: int, space: str) -> None:
    """Assert that reports are races; each word with races has one report, and if only two threads access it, theirs.

    Other races may be missing: a write replaces earlier accesses, and then itself races with them or with later ones; a
    read replaces reads that are ordered before it. In global memory an atomic after a plain write of its block is not
    kept, because other blocks race with the write: races of such a word may be missed.
    """
    steps = random_steps(seed)
    words = by_word(steps)
    races = {word: races_of(instances) for word, instances in words.items()}
    for order in {None, seed, seed + 1000}:
        found = shown(steps, space, order)
        every = set().union(*races.values())
        for one in found:
            assert any(one.means(race) for race in every), (seed, order, one, steps)
        for word, of_word in races.items():
            if space == "global" and forgets(words[word]):
                continue
            if of_word:
                assert any(one.means(race) for one in found for race in of_word), (seed, order, word, of_word, steps)
            if of_word and len(words[word]) == 2:
                (race,) = of_word
                exact = {Told(a, b, race.who) for a, b in itertools.product(race.steps, repeat=2)}
                assert exact & found, (seed, order, word, race, found, steps)


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("seed", [*range(10), 33, 34, 66])
def test_races_are_those_of_a_model_that_compares_each_access_with_each(seed, space):
    agree(seed, space)


@pytest.mark.volume
@pytest.mark.parametrize("space", ["shared", "global"])
def test_races_of_many_kernels_are_those_of_the_model(space):
    for seed in range(12, 600):
        agree(seed, space)


def test_the_model_is_right_about_plain_cases():
    def pairs(*steps: Step) -> set[Race]:
        return set().union(*(races_of(instances) for instances in by_word(list(steps)).values()))

    store, load, barrier, sync = Step("store"), Step("load", shift=1), Step("barrier"), Step("sync")
    lanes, warps = Race(frozenset((0, 1)), "lanes"), Race(frozenset((0, 1)), "warps")
    assert pairs(store, load) == {lanes, warps}
    assert pairs(store, barrier, load) == set()
    assert pairs(store, sync, Step("load", high=32, shift=1)) == {Race(frozenset((0, 2)), "warps")}  # thread 32 writes
    assert pairs(Step("store", high=2, stride=0)) == {Race(frozenset((0,)), "lanes")}
    assert pairs(Step("atomic", stride=0), Step("atomic", stride=0)) == set()
    halves = Step("sync", tile=16)
    assert pairs(Step("store", high=32), halves, Step("load", high=15, shift=1)) == set()
    assert pairs(Step("store", high=32), halves, Step("load", high=16, shift=1)) == {Race(frozenset((0, 2)), "lanes")}
    chain = [Step("store", high=1), Step("sync", high=16, tile=16), Step("sync", low=14, high=18, tile=2)]
    assert pairs(*chain, Step("load", low=15, high=16, stride=0)) == set()
    low = Step("load", low=17, high=18, stride=0)
    assert pairs(*chain, Step("sync", low=16, tile=2, high=18), low) == {Race(frozenset((0, 4)), "lanes")}


@pytest.mark.parametrize("warps", [1, pytest.param(2, marks=pytest.mark.volume), 5])
def test_an_access_of_all_lanes_in_order_is_judged_like_one_lane_by_lane(warps):
    """The quick test of patterns and the exact one of lanes find the same races at the same places."""
    body = """mul.lo.u32 %r1, %tid, 4; st.shared.u32 [%r1], %tid; {barrier} ld.shared.u32 %r2, [%r1+{ahead}];
        {second} st.shared.u32 [%r1], %r2; ld.shared.u32 %r3, [%r1];"""
    declared = f".shared .align 4 .b8 s[{4 * 32 * warps + 128}];"
    for barrier, second, ahead in itertools.product(["", "bar.sync 0;"], ["", "bar.sync 0;"], [0, 4, 64]):
        text = body.format(barrier=barrier, second=second, ahead=ahead)
        program = kernel(text, declarations=declared)
        found = []
        for kind in (MemoryCheck, LaneByLane):
            run = launch(
                program, (1, 1, 1), (32 * warps, 1, 1), (np.zeros(1, np.int32),), instruments=[kind(program.module)]
            )
            found.append({(f.code, f.ptx_line, f.block, f.thread, f.count) for f in run.results["memory"].findings})
        assert found[0] == found[1], (text, found)


class LaneByLane(MemoryCheck):
    """Gets no events for patterns."""

    def handler(self, site, offsets=None):
        return super().handler(site, None)


def test_cells_are_as_fine_as_the_narrowest_access():
    def cell_bytes(body: str) -> int:
        return MemoryCheck(parse(f".version 8.0 .target sm_90 .entry k(.param .u8 p) {{ {body} }}")).cell_bytes

    assert cell_bytes("ld.global.nc.v2.f32 {%f1, %f2}, [%rd1]; st.shared.u16 [%r1], %h1; ld.param.u8 %r1, [p];") == 2
    assert cell_bytes("ld.global.f64 %fd1, [%rd1];") == 4
    assert cell_bytes("atom.global.add.noftz.bf16x2 %r1, [%rd1], %r2;") == 2
    assert cell_bytes("add.s16 %h1, %h2, %h3;") == 4


def test_the_opcode_of_an_access_gives_its_effect():
    def bits(opcode: str, access: str) -> int:
        return how(Site(EventKind.ACCESS, 1, "", opcode, 1, "global", access, 4))

    assert bits("ld.global.f32", "load") == 1
    assert bits("st.volatile.global.f32", "store") == 6 | 128
    assert bits("ld.global.nc.f32", "load") == bits("ldu.global.f32", "load") == 1 | 64
    assert bits("ld.acquire.gpu.global.u32", "load") == 5
    assert bits("atom.global.add.u32", "atomic") == 7


def test_more_barriers_than_a_cell_can_count_give_no_false_race():
    """Cells of global memory have 16 bits of clock: beyond them no race is reported; shared memory is followed."""
    body = """mov.u32 %r1, 0; mul.lo.u32 %r4, %tid, 4; xor.b32 %r5, %tid, 33; mul.lo.u32 %r6, %r5, 4;
        mad.wide.u32 %a1, %r5, 4, %out;
        L: st.global.u32 [%at], %r1; st.shared.u32 [%r4], %r1; bar.sync 0;
        ld.global.u32 %r2, [%a1]; ld.shared.u32 %r3, [%r6]; bar.sync 0;
        add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 33000; @%p1 bra L; {after}"""
    declared = ".shared .align 4 .b8 s[256];"
    for after, codes in (("", set()), ("st.shared.u32 [%r4], %r1; ld.shared.u32 %r3, [%r6];", {"TW301"})):
        program = kernel(body.format(after=after), declarations=declared)
        check = MemoryCheck(program.module)
        result = launch(program, (1, 1, 1), (64, 1, 1), (np.zeros(64, np.uint32),), instruments=[check])
        assert {finding.code for finding in result.results["memory"].findings} == codes


def codes_without_strict(findings):
    """The codes of findings that are reported without `--strict`."""
    return {finding.code for finding in findings if not meanings()[finding.code].strict}


def codes_of(body: str, *, grid: int = 1, block: int = 64, seeds: int = 6, declared: str = "") -> list[set[str]]:
    """The codes found, in the default order and some shuffled ones."""
    found = []
    for seed in (None, *range(1, seeds)):
        program = kernel(body, declarations=declared)
        out = np.zeros(grid * block, np.uint32)
        check = MemoryCheck(program.module)
        extents = (grid, 1, 1), (block, 1, 1)
        run = launch(program, *extents, (out,), instruments=[check], seed=seed)
        found.append(codes_without_strict(run.results["memory"].findings))
    return found


def test_an_atomic_does_not_hide_a_plain_write():
    """`if i == 0: out[0] = 0`, then all blocks add, in any order."""
    body = "setp.eq.u32 %p1, %gid, 0; @%p1 st.global.u32 [%out], 0; {} red.global.add.u32 [%out], 1;"
    assert codes_of(body.format(""), grid=3) == [{"TW303"}] * 6
    assert codes_of(body.format("bar.sync 0;"), grid=3) == [{"TW303"}] * 6
    assert codes_of(body.format("bar.sync 0;"), grid=1) == [set()] * 6


def test_an_atomic_does_not_hide_another_one():
    """The block of the last atomic reads plainly: atomics of others are not ordered before the read."""
    body = "atom.global.add.u32 %r1, [%out], 1; setp.eq.u32 %p1, %r1, 95; @%p1 ld.global.u32 %r2, [%out];"
    assert codes_of(body, grid=3, block=32) == [{"TW303"}] * 6
    assert codes_of(body.replace("ld.", "ld.volatile."), grid=3, block=32) == [set()] * 6


def test_an_atomic_does_not_hide_a_plain_write_to_shared_memory():
    body = "setp.eq.u32 %p1, %tid, 0; @%p1 st.shared.u32 [0], 0; {} red.shared.add.u32 [0], 1;"
    declared = ".shared .align 4 .b8 s[256];"
    assert codes_of(body.format(""), block=96, declared=declared) == [{"TW301"}] * 6
    assert codes_of(body.format("bar.sync 0;"), block=96, declared=declared) == [set()] * 6


def test_a_flag_at_the_first_word_of_shared_memory_orders():
    """Warp 1 waits for a volatile flag at address 0, which warp 0 sets after a fence."""
    body = """mov.u32 %r1, 0; setp.lt.u32 %p1, %tid, 32; @!%p1 bra W;
        setp.eq.u32 %p2, %tid, 0; @!%p2 bra E;
        st.shared.u32 [128], 5; membar.cta; st.volatile.shared.u32 [0], 1; bra E;
        W: ld.volatile.shared.u32 %r2, [0]; setp.ne.u32 %p3, %r2, 1; @%p3 bra W; membar.cta;
        ld.shared.u32 %r3, [128]; E: st.global.u32 [%at], %r3;"""
    first = "setp.eq.u32 %p4, %tid, 0; @%p4 st.shared.u32 [0], 0; bar.sync 0;"
    assert codes_of(first + body, declared=".shared .align 4 .b8 s[256];") == [set()] * 6


@pytest.mark.parametrize(
    ("not_enough", "enough"),
    [("bar.arrive 0, 64;", "bar.sync 0, 32;"), ("membar.cta;", "bar.warp.sync 0xffffffff;")],
)
def test_an_arrival_or_a_fence_does_not_order_lanes(not_enough, enough):
    body = """mov.u32 %r1, %tid.x; mul.lo.u32 %r4, %r1, 4; xor.b32 %r5, %r4, 4; st.shared.u32 [%r4], %r1; {}
        ld.shared.u32 %r2, [%r5]; st.global.u32 [%at], %r2;"""
    declared = ".shared .align 4 .b8 s[128];"
    assert codes_of(body.format(not_enough), block=32, declared=declared) == [{"TW304"}] * 6
    assert codes_of(body.format(enough), block=32, declared=declared) == [set()] * 6


@pytest.mark.parametrize("syncs", [0, 100])
def test_a_warp_that_synchronised_more_often_does_not_race_after_a_barrier(syncs):
    """Readers are kept together, with one clock."""
    body = f"""mul.lo.u32 %r4, %tid, 4; st.shared.u32 [%r4], %tid; bar.sync 0; mov.u32 %r1, 0;
        setp.lt.u32 %p1, %tid, 32; setp.ge.or.u32 %p1, %tid, 64, %p1; @%p1 bra R;
        L: bar.warp.sync -1; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, {syncs}; @%p2 bra L;
        R: ld.shared.u32 %r2, [0]; {{}} setp.eq.u32 %p3, %tid, 32; @%p3 st.shared.u32 [0], 7;"""
    declared = ".shared .align 4 .b8 s[384];"
    assert codes_of(body.format("bar.sync 0;"), block=96, declared=declared) == [set()] * 6
    assert codes_of(body.format("bar.warp.sync -1;"), block=96, declared=declared) == [{"TW301"}] * 6


@pytest.mark.parametrize(("mask", "codes"), [(0xFFFF, set()), (0xFF, {"TW304"}), (0x2FFFF, set()), (0x3, {"TW304"})])
def test_a_write_races_with_reads_of_lanes_that_its_syncwarp_leaves_out(mask, codes):
    """Lanes 0 to 15 read a word together; the cell keeps only their tile."""
    body = f"""setp.lt.u32 %p1, %tid, 16; setp.eq.u32 %p2, %tid, 1; @%p2 st.shared.u32 [0], 1; bar.warp.sync -1;
        @%p1 ld.shared.u32 %r2, [0]; shr.u32 %r3, {mask}, %lane; and.b32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0;
        @%p3 bar.warp.sync {mask}; @%p2 st.shared.u32 [0], 2;"""
    assert codes_of(body, block=32, declared=".shared .align 4 .b8 s[4];") == [codes] * 6


def codes_in_every_order(body: str, blocks: int = 2) -> set[frozenset[str]]:
    """The codes found in every order of the blocks on one host thread, and on two; words are initially 7."""
    program = kernel(body)
    found, orders = set(), set()
    for threads, seed in itertools.product((1, 2), (None, *range(1, 12))):
        out = np.full(blocks * 32, 7, np.uint32)
        check = MemoryCheck(program.module)
        run = launch(program, (blocks, 1, 1), (32, 1, 1), (out,), instruments=[check], seed=seed,
                     limits=Limits(seconds=30, threads=threads))  # fmt: skip
        found.add(frozenset(codes_without_strict(run.results["memory"].findings)))
        orders.add(out[1])
    assert len(orders) == blocks, "the last block to write its number was each one once"
    return found


#: One thread of each block; %p2 in block 0, %p3 in block 1. The word after it says which block was last.
_ONE_EACH = """setp.ne.u32 %p1, %tid, 0; @%p1 bra E; setp.eq.u32 %p2, %block, 0; setp.eq.u32 %p3, %block, 1;
    {} atom.global.exch.b32 %r1, [%out+4], %block; E:"""


@pytest.mark.parametrize(
    ("stores", "races"),
    [
        ("@%p2 st.global.u32 [%out], 1; @%p2 st.global.u32 [%out], 2; @%p3 st.global.u32 [%out], 2;", True),
        ("@%p2 st.global.u32 [%out], 2; @%p2 st.global.u32 [%out], 2; @%p3 st.global.u32 [%out], 2;", False),
        ("@%p2 st.global.u32 [%out], 7; @%p3 st.global.u32 [%out], 1;", True),
        ("@%p2 st.global.u32 [%out], 1; @%p3 st.global.u32 [%out], 1;", False),
        ("@%p2 atom.global.exch.b32 %r2, [%out], 1; @%p3 st.global.u32 [%out], 1;", True),
        ("st.global.v2.u32 [%out+8], {3, %block};", True),
        ("st.global.v2.u32 [%out+8], {3, 4}; st.global.u8 [%out+12], 4;", False),
    ],
)
def test_two_blocks_race_by_what_they_store_not_by_what_memory_holds(stores, races):
    assert codes_in_every_order(_ONE_EACH.format(stores)) == {frozenset({"TW303"} if races else ())}


def test_three_blocks_of_which_one_stores_another_value_race():
    body = _ONE_EACH.format("selp.u32 %r3, 5, 6, %p3; st.global.u32 [%out], %r3;")
    assert codes_in_every_order(body, blocks=3) == {frozenset({"TW303"})}


@pytest.mark.parametrize(("later", "codes"), [("1", set()), ("%tid", {"TW302", "TW304"})])
def test_values_stored_before_a_barrier_are_not_compared(later, codes):
    body = f"setp.eq.u32 %p1, %tid, 0; @%p1 st.global.u32 [%out], 0; bar.sync 0; mov.u32 %r1, {later}; {{}}"
    found = codes_of(body.format("st.global.u32 [%out], %r1;"))
    assert all(one <= codes and bool(one) == bool(codes) for one in found)


@pytest.mark.parametrize("number", [16, 1000, 100_000, 4_000_000_000])
def test_a_barrier_that_no_gpu_has_is_an_error_and_no_more(number):
    program = kernel(f"mov.u32 %r1, {number}; add.u32 %r1, %r1, %block; bar.sync %r1, 32;")
    with pytest.raises(KernelError, match="barrier"):
        launch(program, (1, 1, 1), (32, 1, 1), (np.zeros(1, np.int32),), instruments=[MemoryCheck(program.module)])


def test_a_tree_without_barriers_gives_one_finding_whatever_the_order():
    """The last reader, and so the other line, depends on the order; the race of the line does not."""
    rounds = "".join(
        f"""setp.lt.u32 %p1, %tid, {half}; @%p1 ld.shared.u32 %r2, [%r4+{4 * half}]; @%p1 ld.shared.u32 %r3, [%r4];
        add.u32 %r3, %r3, %r2; @%p1 st.shared.u32 [%r4], %r3;"""
        for half in (128, 64, 32, 16)
    )
    program = kernel(f"mul.lo.u32 %r4, %tid, 4; st.shared.u32 [%r4], %tid; bar.sync 0; {rounds}",
                     declarations=".shared .align 4 .b8 s[1024];")  # fmt: skip
    seen = set()
    for seed in (None, *range(1, 8)):
        check = MemoryCheck(program.module)
        run = launch(program, (1, 1, 1), (256, 1, 1), (np.zeros(1, np.uint32),), instruments=[check], seed=seed)
        seen.add(tuple(sorted((finding.code, finding.ptx_line) for finding in run.results["memory"].findings)))
    assert len(seen) == 1
    assert {code for code, _ in seen.pop()} == {"TW301", "TW304"}  # the last round stays within a warp


def test_the_translator_refuses_a_barrier_of_a_warp_without_its_lanes():
    program = kernel("bar.warp.sync;")
    with pytest.raises(PtxError, match=r"'bar.warp.sync' takes 1 operands"):
        launch(program, 1, THREADS, [np.zeros(WORDS, np.uint32)], instruments=[MemoryCheck(program.module)])
