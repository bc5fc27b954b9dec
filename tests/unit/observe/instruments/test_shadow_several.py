"""Words of shared memory that several warps use, and a warp that waits for a part of them before it writes there."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from ptx_kernels import kernel

from tilewright.observe.instruments.shadow import cells, records
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.simt import launch

LANES = 32
#: Which lanes of a warp use the words, as conditions on the lane.
PARTS = {"all": "ge.u32 %p1, %lane, 0", "first": "eq.u32 %p1, %lane, 0", "sixth": "eq.u32 %p1, %lane, 5",
         "upper": "ge.u32 %p1, %lane, 16"}  # fmt: skip
KINDS = {cells.SHARED_RACE: "not awaited", cells.SHARED_ARRIVED: "of other lanes", cells.SHARED_LANES: "lanes"}


@dataclass(frozen=True)
class User:
    """A warp that uses the words, and tells the last warp so: by all its lanes, or by its first lane alone."""

    part: str = "all"
    one_word: bool = False  # its lanes use word 0, else each its own
    syncs: bool = True  # before it tells
    tells: str = "all"
    late: bool = False  # it uses the words after it has told
    awaited: bool = True
    earlier: int = 0  # how often it arrives elsewhere before

    def race(self, means: str) -> str | None:
        """How it races with the writer: `means` other than mbarriers do not tell lanes of a warp from each other."""
        if not self.awaited or self.late:
            return "not awaited"
        told = means != "mbarrier" or self.syncs or self.tells == "all" or self.part == "first"
        return None if told else "of other lanes"


def random_user(choose: random.Random) -> User:
    part = choose.choice(list(PARTS))
    one_word = part not in ("all", "upper") and choose.random() < 0.5  # of lanes of one word the shadow keeps less
    return User(part, one_word, choose.random() < 0.5, choose.choice(["all", "first"]), choose.random() < 0.2,
                choose.random() < 0.6, choose.choice([0, 0, 1, 7]))  # fmt: skip


def told(means: str, warp: int, one: User) -> str:
    """The text by which a warp tells."""
    lanes = "setp.eq.u32 %p2, %lane, 0; @%p2 " if one.tells == "first" else ""
    match means:
        case "mbarrier":
            return f"{lanes} mbarrier.arrive.shared.b64 _, [bars+{8 * warp}];"
        case "named":
            return f"bar.arrive {warp + 1}, 64;"
    return f"setp.eq.u32 %p2, %lane, 0; fence.acq_rel.gpu; @%p2 red.shared.add.u32 [flags+{4 * warp}], 1;"


def awaited(means: str, warp: int) -> str:
    match means:
        case "mbarrier":
            return f"W{warp}: mbarrier.try_wait.parity.shared.b64 %p2, [bars+{8 * warp}], 0; @!%p2 bra W{warp};"
        case "named":
            return f"bar.sync {warp + 1}, 64;"
    spin = f"ld.relaxed.gpu.shared.u32 %r5, [flags+{4 * warp}]; setp.eq.u32 %p2, %r5, 0; @%p2 bra W{warp};"
    return f"W{warp}: {spin} fence.acq_rel.gpu;"


def text_of(users: list[User], means: str, access: str) -> str:
    """The kernel: a line for each use, and one for the last warp's write."""
    counts = [1 if one.tells == "first" else LANES for one in users]
    made = " ".join(f"mbarrier.init.shared.b64 [bars+{8 * w}], {count};" for w, count in enumerate(counts))
    clear = " ".join(f"st.shared.u32 [flags+{4 * w}], 0;" for w in range(len(users)))
    lines = [
        "shr.u32 %r9, %tid, 5; mul.lo.u32 %r8, %lane, 4;",
        f"setp.ne.u32 %p9, %tid, 0; @%p9 bra NEXT; {made} mbarrier.init.shared.b64 [bars+128], 1024; {clear} NEXT:",
        "setp.lt.u32 %p1, %tid, 32; @%p1 st.shared.u32 [%r8], 1; bar.sync 0;",
    ]
    for warp, one in enumerate(users):
        place = "0" if one.one_word else "%r8"
        act = f"ld.shared.u32 %r2, [{place}];" if access == "ld" else f"red.shared.add.u32 [{place}], 1;"
        use = f"setp.{PARTS[one.part]}; @%p1 {act} // use {warp}"
        tell = ("bar.warp.sync -1; " if one.syncs else "") + told(means, warp, one)
        elsewhere = "mbarrier.arrive.shared.b64 _, [bars+128]; " * one.earlier if means == "mbarrier" else ""
        lines += [f"setp.ne.u32 %p3, %r9, {warp}; @%p3 bra L{warp}; {elsewhere}"]
        lines += [tell, use] if one.late else [use, tell]
        lines += [f"bra END; L{warp}:"]
    lines += [awaited(means, w) for w, one in enumerate(users) if one.awaited]
    lines += ["bar.warp.sync -1; st.shared.u32 [%r8], 2; // write"]
    lines += [awaited(means, w) for w, one in enumerate(users) if not one.awaited and means == "named"]
    return "\n".join([*lines, "END:"])


class Records(MemoryCheck):
    """Every recorded race: two lines of PTX and the kind, before it becomes a finding."""

    def collect(self, sites, counters):
        return {(sites[one.row].ptx_line, sites[one.other].ptx_line if one.other < len(sites) else None, one.kind)
                for one in records.read(self._table)}  # fmt: skip


def races(users: list[User], means: str, access: str, seed: int | None) -> dict[int | None, str]:
    """The warps whose uses are recorded to race with the last warp's write, and how."""
    declared = f".shared .align 8 .b8 s[{4 * LANES}]; .shared .align 8 .b64 bars[17]; .shared .b32 flags[8];"
    program = kernel(text_of(users, means, access), declarations=declared)
    lines = program.ptx.splitlines()
    of = {n: line.partition("// use ")[2] for n, line in enumerate(lines, 1) if "// use " in line}
    (write,) = [n for n, line in enumerate(lines, 1) if "// write" in line]
    run = launch(program, 1, LANES * (len(users) + 1), (np.zeros(LANES, np.uint32),),
                 instruments=[Records(program.module)], seed=seed)  # fmt: skip
    found = {}
    for here, there, kind in run.results["memory"]:
        other = there if here == write else here
        assert write in (here, there), (here, there, kind)
        found[int(of[other]) if other is not None else None] = KINDS[kind]
    return found


def agree(users: list[User], means: str, access: str, seed: int | None) -> None:
    expected = {w: how for w, one in enumerate(users) if (how := one.race(means)) is not None}
    assert races(users, means, access, seed) == expected, (users, means, access, seed)


@pytest.mark.parametrize("access", ["ld", "red"])
@pytest.mark.parametrize("means", ["mbarrier", "named", "flag"])
@pytest.mark.parametrize("seed", range(4))
def test_a_write_races_with_exactly_the_warps_that_it_did_not_wait_for(seed, means, access):
    choose = random.Random(seed)
    users = [random_user(choose) for _ in range(choose.choice([2, 2, 3, 5]))]
    agree(users, means, access, None)
    agree(users, means, access, seed + 1)


@pytest.mark.volume
@pytest.mark.parametrize("access", ["ld", "red"])
@pytest.mark.parametrize("means", ["mbarrier", "named", "flag"])
def test_many_writes_race_with_exactly_the_warps_that_they_did_not_wait_for(means, access):
    for seed in range(4, 60):
        choose = random.Random(seed)
        agree(
            [random_user(choose) for _ in range(choose.choice([1, 2, 3, 7]))],
            means,
            access,
            choose.choice([None, seed]),
        )
