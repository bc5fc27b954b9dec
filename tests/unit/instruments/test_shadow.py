"""Shadow memory against a model that keeps every access and compares each with each."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from ptx_kernels import kernel

from tilewright.errors import KernelError
from tilewright.instruments.shadow.memory import MemoryCheck, narrowest_bytes
from tilewright.instruments.shadow.patterns import how
from tilewright.simt import launch
from tilewright.simt.events import EventKind, Site

WARPS, LANES = 3, 32
THREADS = WARPS * LANES
WORDS = 160


@dataclass(frozen=True)
class Step:
    """One instruction of a random kernel: an access of threads [low, high) at word `thread * stride + shift`."""

    what: str  # "load", "store", "atomic", "barrier", "sync"
    low: int = 0
    high: int = THREADS
    stride: int = 1
    shift: int = 0

    def words(self, thread: int) -> set[int]:
        return {(thread * self.stride + self.shift) % WORDS}

    def text(self, space: str, index: int) -> str:
        if self.what == "barrier":
            return "bar.sync 0;"
        if self.what == "sync":
            return "bar.warp.sync 0xffffffff;"
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
        ours = f"setp.ge.u32 %p1, %tid, {self.low}; setp.lt.and.u32 %p1, %tid, {self.high}, %p1;"
        # a value that no other thread and no other instruction writes, so that no two writes are the same
        return f"{place} mad.lo.u32 %r3, %tid, 1000, {index + 1};\n{ours} @%p1 {access}"


def random_steps(seed: int) -> list[Step]:
    """A few accesses between barriers and syncs."""
    choose = random.Random(seed)
    steps = []
    for _ in range(choose.randrange(3, 12)):
        what = choose.choice(["load", "load", "store", "store", "atomic", "barrier", "barrier", "sync"])
        low = choose.choice([0, 0, 0, 32, 5, 64])
        high = choose.choice([THREADS, THREADS, 64, 32, low + 1])
        steps.append(
            Step(what, low, max(high, low + 1), choose.choice([0, 1, 1, 1, 2, 5]), choose.choice([0, 0, 1, 32]))
        )
    return steps


def racing_pairs(steps: list[Step]) -> set[frozenset[int]]:
    """Pairs of instructions of which two threads' accesses to one word are not ordered, one of them a write.

    Threads of different warps are ordered by a barrier between; lanes of one warp by a barrier or a sync.
    """
    found = set()
    for (i, a), (j, b) in itertools.combinations_with_replacement(list(enumerate(steps)), 2):
        between = {step.what for step in steps[i:j]}
        writes = {"store", "atomic"}
        accesses = writes | {"load"}
        if a.what not in accesses or b.what not in accesses or {a.what, b.what} == {"atomic"}:
            continue
        if not {a.what, b.what} & writes or "barrier" in between:
            continue
        for t, u in itertools.product(range(a.low, a.high), range(b.low, b.high)):
            if t == u or not a.words(t) & b.words(u):
                continue
            if t // LANES == u // LANES and "sync" in between:
                continue
            found.add(frozenset((i, j)))
            break
    return found


def found_pairs(steps: list[Step], space: str, seed: int | None) -> tuple[set[tuple[int, int | None]], Any]:
    """What the instrument reports, as pairs of steps; the other is None where several readers' steps differ."""
    lines = [step.text(space, index) for index, step in enumerate(steps)]
    declared = f".shared .align 4 .b8 s[{4 * WORDS}];" if space == "shared" else ""
    fill = ""
    if space == "shared":  # write everything first, behind a barrier of its own
        stores = "".join(f"st.shared.u32 [%r9+{4 * THREADS * i}], %tid;" for i in range(WORDS // THREADS))
        rest = WORDS % THREADS
        last = f"setp.lt.u32 %p2, %tid, {rest}; @%p2 st.shared.u32 [%r9+{4 * (WORDS - rest)}], %tid;"
        fill = f"mul.lo.u32 %r9, %tid, 4; {stores} {last} bar.sync 0;"
    program = kernel("\n".join([fill, *lines]), declarations=declared)
    first = program.ptx.splitlines().index(lines[0].splitlines()[0])
    starts = list(itertools.accumulate((line.count("\n") + 1 for line in lines), initial=first + 1))
    step_of = {line: i for i in range(len(lines)) for line in range(starts[i], starts[i + 1])}
    check = MemoryCheck(program.ptx)
    memory = np.zeros(WORDS, np.uint32)
    result = launch(program, (1, 1, 1), (THREADS, 1, 1), (memory,), instruments=[check], seed=seed).results["memory"]
    pairs = set()
    for finding in result.findings:
        other = finding.details.get("other", "")
        partners = [step_of[int(one.removeprefix("PTX line "))] for one in other.split(", ") if one.startswith("PTX")]
        pairs |= {(step_of[finding.ptx_line], partner) for partner in partners or [None]}
    return pairs, result.findings


def agree(seed: int, space: str) -> None:
    steps = random_steps(seed)
    expected = racing_pairs(steps)
    pairs, findings = found_pairs(steps, space, None if seed % 2 else seed)
    for step, other in pairs:
        assert any(step in pair and (other is None or pair == {step, other}) for pair in expected), (steps, findings)
    assert bool(pairs) == bool(expected), (steps, findings)


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("seed", range(12))
def test_races_are_those_of_a_model_that_compares_each_access_with_each(seed, space):
    agree(seed, space)


@pytest.mark.volume
@pytest.mark.parametrize("space", ["shared", "global"])
def test_races_of_many_kernels_are_those_of_the_model(space):
    for seed in range(12, 600):
        agree(seed, space)


def test_the_model_is_right_about_plain_cases():
    store, load, barrier = Step("store"), Step("load", shift=1), Step("barrier")
    assert racing_pairs([store, load]) == {frozenset((0, 1))}
    assert racing_pairs([store, barrier, load]) == set()
    assert racing_pairs([store, Step("sync"), Step("load", high=32, shift=1)]) == {
        frozenset((0, 2))
    }  # thread 32 writes
    assert racing_pairs([Step("store", stride=0)]) == {frozenset((0,))}
    assert racing_pairs([Step("atomic", stride=0)] * 2) == set()


@pytest.mark.parametrize("warps", [1, 2, 5])
def test_an_access_of_all_lanes_in_order_is_judged_like_one_lane_by_lane(warps):
    """The quick test of patterns and the exact one of lanes find the same at the same places."""
    body = """mul.lo.u32 %r1, %tid, 4; st.shared.u32 [%r1], %tid; {barrier} ld.shared.u32 %r2, [%r1+{ahead}];
        {second} st.shared.u32 [%r1], %r2; ld.shared.u32 %r3, [%r1];"""
    declared = f".shared .align 4 .b8 s[{4 * 32 * warps + 128}];"
    for barrier, second, ahead in itertools.product(["", "bar.sync 0;"], ["", "bar.sync 0;"], [0, 4, 64]):
        text = body.format(barrier=barrier, second=second, ahead=ahead)
        program = kernel(text, declarations=declared)
        found = []
        for kind in (MemoryCheck, LaneByLane):
            run = launch(
                program, (1, 1, 1), (32 * warps, 1, 1), (np.zeros(1, np.int32),), instruments=[kind(program.ptx)]
            )
            found.append({(f.code, f.ptx_line, f.block, f.thread, f.count) for f in run.results["memory"].findings})
        assert found[0] == found[1], (text, found)


class LaneByLane(MemoryCheck):
    """Never told of patterns."""

    def handler(self, site, offsets=None):
        return super().handler(site, None)


def test_cells_are_as_fine_as_the_narrowest_access():
    assert narrowest_bytes("ld.global.nc.v4.f32 {...}; st.shared.u16 [%r1], %h1; ld.param.u8 %r1, [p];") == 2
    assert narrowest_bytes("ld.global.f64 %fd1, [%rd1];") == 4
    assert narrowest_bytes("atom.global.add.u8x4") == 4


def test_what_an_access_does_is_read_off_its_opcode():
    def bits(opcode: str, access: str) -> int:
        return how(Site(EventKind.ACCESS, 1, "", opcode, 1, "global", access, 4))

    assert bits("ld.global.f32", "load") == 1
    assert bits("st.volatile.global.f32", "store") == 6
    assert bits("ld.acquire.gpu.global.u32", "load") == 5
    assert bits("atom.global.add.u32", "atomic") == 7


def test_more_barriers_than_a_cell_can_count_give_no_false_race():
    """Cells of global memory have 16 bits of clock: beyond them nothing is said, shared memory goes on."""
    body = """mov.u32 %r1, 0; mul.lo.u32 %r4, %tid, 4; xor.b32 %r5, %tid, 33; mul.lo.u32 %r6, %r5, 4;
        mad.wide.u32 %a1, %r5, 4, %out;
        L: st.global.u32 [%at], %r1; st.shared.u32 [%r4], %r1; bar.sync 0;
        ld.global.u32 %r2, [%a1]; ld.shared.u32 %r3, [%r6]; bar.sync 0;
        add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 33000; @%p1 bra L; {after}"""
    declared = ".shared .align 4 .b8 s[256];"
    for after, codes in (("", set()), ("st.shared.u32 [%r4], %r1; ld.shared.u32 %r3, [%r6];", {"TW301"})):
        program = kernel(body.format(after=after), declarations=declared)
        check = MemoryCheck(program.ptx)
        result = launch(program, (1, 1, 1), (64, 1, 1), (np.zeros(64, np.uint32),), instruments=[check])
        assert {finding.code for finding in result.results["memory"].findings} == codes


def codes_of(body: str, *, grid: int = 1, block: int = 64, seeds: int = 6, declared: str = "") -> list[set[str]]:
    """What is found, for the order as it is and some shuffled ones."""
    found = []
    for seed in (None, *range(1, seeds)):
        program = kernel(body, declarations=declared)
        out = np.zeros(grid * block, np.uint32)
        check = MemoryCheck(program.ptx)
        extents = (grid, 1, 1), (block, 1, 1)
        run = launch(program, *extents, (out,), instruments=[check], seed=seed)
        found.append({finding.code for finding in run.results["memory"].findings})
    return found


def test_an_atomic_does_not_cover_a_plain_write_up():
    """`if i == 0: out[0] = 0`, then all blocks add: whoever runs first."""
    body = "setp.eq.u32 %p1, %gid, 0; @%p1 st.global.u32 [%out], 0; {} red.global.add.u32 [%out], 1;"
    assert codes_of(body.format(""), grid=3) == [{"TW303"}] * 6
    assert codes_of(body.format("bar.sync 0;"), grid=3) == [{"TW303"}] * 6
    assert codes_of(body.format("bar.sync 0;"), grid=1) == [set()] * 6


def test_an_atomic_does_not_cover_a_plain_write_to_shared_memory_up():
    body = "setp.eq.u32 %p1, %tid, 0; @%p1 st.shared.u32 [0], 0; {} red.shared.add.u32 [0], 1;"
    declared = ".shared .align 4 .b8 s[256];"
    assert codes_of(body.format(""), block=96, declared=declared) == [{"TW301"}] * 6
    assert codes_of(body.format("bar.sync 0;"), block=96, declared=declared) == [set()] * 6


def test_a_flag_at_the_first_word_of_shared_memory_orders():
    """Warp 1 waits for a volatile flag at address 0, which warp 0 raises behind a fence."""
    body = """mov.u32 %r1, 0; setp.lt.u32 %p1, %tid, 32; @!%p1 bra W;
        setp.eq.u32 %p2, %tid, 0; @!%p2 bra E;
        st.shared.u32 [128], 5; membar.cta; st.volatile.shared.u32 [0], 1; bra E;
        W: ld.volatile.shared.u32 %r2, [0]; setp.ne.u32 %p3, %r2, 1; @%p3 bra W; membar.cta;
        ld.shared.u32 %r3, [128]; E: st.global.u32 [%at], %r3;"""
    first = "setp.eq.u32 %p4, %tid, 0; @%p4 st.shared.u32 [0], 0; bar.sync 0;"
    assert codes_of(first + body, declared=".shared .align 4 .b8 s[256];") == [set()] * 6


def test_a_fence_does_not_order_lanes():
    body = """mov.u32 %r1, %tid.x; mul.lo.u32 %r4, %r1, 4; xor.b32 %r5, %r4, 4; st.shared.u32 [%r4], %r1; {}
        ld.shared.u32 %r2, [%r5]; st.global.u32 [%at], %r2;"""
    declared = ".shared .align 4 .b8 s[128];"
    assert codes_of(body.format("membar.cta;"), block=32, declared=declared) == [{"TW304"}] * 6
    assert codes_of(body.format("bar.warp.sync 0xffffffff;"), block=32, declared=declared) == [set()] * 6


@pytest.mark.parametrize("number", [16, 1000, 100_000, 4_000_000_000])
def test_a_barrier_that_no_gpu_has_is_an_error_and_no_more(number):
    program = kernel(f"mov.u32 %r1, {number}; add.u32 %r1, %r1, %block; bar.sync %r1, 32;")
    with pytest.raises(KernelError, match="barrier"):
        launch(program, (1, 1, 1), (32, 1, 1), (np.zeros(1, np.int32),), instruments=[MemoryCheck(program.ptx)])


def test_a_tree_without_barriers_gives_one_finding_whatever_the_order():
    """Who has read last, and so which other line is known, depends on the order; that the line races does not."""
    rounds = "".join(
        f"""setp.lt.u32 %p1, %tid, {half}; @%p1 ld.shared.u32 %r2, [%r4+{4 * half}]; @%p1 ld.shared.u32 %r3, [%r4];
        add.u32 %r3, %r3, %r2; @%p1 st.shared.u32 [%r4], %r3;"""
        for half in (128, 64, 32, 16)
    )
    program = kernel(f"mul.lo.u32 %r4, %tid, 4; st.shared.u32 [%r4], %tid; bar.sync 0; {rounds}",
                     declarations=".shared .align 4 .b8 s[1024];")  # fmt: skip
    seen = set()
    for seed in (None, *range(1, 8)):
        check = MemoryCheck(program.ptx)
        run = launch(program, (1, 1, 1), (256, 1, 1), (np.zeros(1, np.uint32),), instruments=[check], seed=seed)
        seen.add(tuple(sorted((finding.code, finding.ptx_line) for finding in run.results["memory"].findings)))
    assert len(seen) == 1
    assert {code for code, _ in seen.pop()} == {"TW301", "TW304"}  # the last round stays within a warp
