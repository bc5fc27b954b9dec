"""Orders by fences and atomics, against a model that keeps every warp's clocks in a plain table."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tilewright as tw
from tilewright.observe.instruments.shadow import orders
from tilewright.observe.instruments.shadow.cells import (
    ACQUIRES,
    CLUSTER_ARRIVED,
    CLUSTER_LEFT,
    NARROW,
    READS,
    RELEASES,
    STRONG,
    THREAD_MAX,
    WARPS_MAX,
    WRITES,
)
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.observe.instruments.shadow.orders import (
    ACCESS,
    ASK,
    BARRIER_ARRIVED,
    BARRIER_LEFT,
    FENCE,
    NOT_ORDERED,
    Orders,
)
from tilewright.programs import Program
from tilewright.simulate.ptx import parse

ACQUIRING = READS | STRONG | ACQUIRES
ATOMIC = ACQUIRING | WRITES


class Model:
    """The same questions, answered from arrays of shape (blocks, warps): a copy for every warp, place and block."""

    def __init__(self, blocks: int, warps: int) -> None:
        self.nothing = np.zeros((blocks, warps), int)
        self.knows = {(b, w): self.nothing for b in range(blocks) for w in range(warps)}
        self.releases, self.places, self.joined, self.released = {}, {}, {}, {}
        self.seen = {}

    def shown(self, what: int, block: int, warp: int, a: int, b: int, c: int) -> bool:
        here = block, warp
        if what != BARRIER_LEFT:
            for place in self.seen.get(here, ()):
                self.knows[here] = np.maximum(self.knows[here], self.places.get(place, self.nothing))
        if what in (FENCE, BARRIER_ARRIVED):
            self.seen.pop(here, None)
        mine = self.knows[here].copy()
        mine[here] = max(mine[here], c + (what != BARRIER_ARRIVED))  # its barrier has advanced the clock
        if what == ASK:
            return bool(c < self.knows[here][a, b - THREAD_MAX])
        if what == ACCESS:
            self.seen.setdefault(here, set()).add(a)
            if here in self.releases:
                self.places[a] = np.maximum(self.places.get(a, self.nothing), self.releases[here])
        elif what == FENCE:
            self.releases[here] = mine
        elif what == BARRIER_ARRIVED:
            at = block, a, b >> 2
            self.joined[at] = np.maximum(self.joined.get(at, self.nothing), mine)
            if here in self.releases:
                self.released[at] = np.maximum(self.released.get(at, self.nothing), self.releases[here])
        else:
            for at in [(block, a, number) for number in range(b, 100)]:
                self.knows[here] = np.maximum(self.knows[here], self.joined.get(at, self.nothing))
                if at in self.released:
                    self.releases[here] = np.maximum(self.releases.get(here, self.nothing), self.released[at])
        return False


@pytest.mark.parametrize("blocks", [1, 2, 16, 17, 300])
def test_answers_are_those_of_plain_tables(blocks):
    warps = 2
    for seed in range(6):
        choose = random.Random(seed)
        ours, model = Orders(blocks), Model(blocks, warps)
        clocks = dict.fromkeys(model.knows, 1)
        few = [choose.randrange(blocks) for _ in range(4)]  # the active ones, so that they interact
        yes = 0
        waits, rounds = {}, {}  # of a warp, the barrier and round; of a block's barrier, its round
        for _ in range(400):
            what = choose.choice([ACCESS, ACCESS, FENCE, FENCE, BARRIER_ARRIVED, BARRIER_LEFT, ASK, ASK, ASK])
            here = choose.choice(few), choose.randrange(warps)
            clocks[here] += 1
            place, clock = choose.randrange(3), clocks[here]
            if (what == BARRIER_LEFT and here not in waits) or (what == BARRIER_ARRIVED and here in waits):
                continue
            if what == ASK:
                other = choose.choice(few), choose.randrange(warps)
                event = (ASK, *here, other[0], THREAD_MAX + other[1], choose.randrange(clocks[other] + 1))
            elif what == BARRIER_ARRIVED:
                barrier, waiting = choose.randrange(2), choose.random() < 0.8
                number = rounds.setdefault((here[0], barrier), 0)
                event = (what, *here, barrier, number << 2 | waiting, clock)
                if waiting:
                    waits[here] = barrier, number
            elif what == BARRIER_LEFT:  # the first that leaves ends the round
                barrier, number = waits.pop(here)
                rounds[here[0], barrier] = max(rounds[here[0], barrier], number + 1)
                event = (what, *here, barrier, number, clock)
            else:
                event = (what, *here, *((place, ATOMIC) if what == ACCESS else (0, 0)), clock)
            shown = ours.call(*event)
            answer = event[0] == ASK and shown != NOT_ORDERED
            assert answer == model.shown(*event), (seed, event)
            yes += answer
        assert yes > 10


@pytest.mark.parametrize("between", ["question", "another lane", "many lanes"])
def test_a_read_acquires_releases_before_its_end(between):
    """Its event comes before it reads; events of its other lanes come, and are judged, in between."""
    ours = Orders(2)
    ours.call(ACCESS, 1, 0, 64, ACQUIRING, 1)
    if between == "question":
        assert ours.call(ASK, 1, 0, 0, THREAD_MAX, 1) == NOT_ORDERED
    for lane in range({"question": 0, "another lane": 1, "many lanes": 31}[between]):
        ours.call(ACCESS, 1, 0, 72 + 8 * lane, ACQUIRING, 1)
    ours.call(FENCE, 0, 0, 0, 0, 1)
    ours.call(ACCESS, 0, 0, 64, WRITES | STRONG, 1)
    ours.call(FENCE, 1, 0, 0, 0, 1)
    assert ours.call(ASK, 1, 0, 0, THREAD_MAX, 1) != NOT_ORDERED


@pytest.mark.parametrize("narrow", ["fence", "write", "read", ""])
@pytest.mark.parametrize("reader", [0, 1])
def test_what_has_the_scope_of_its_block_orders_nothing_of_other_blocks(narrow: str, reader: int) -> None:
    ours = Orders(2, scoped=True)
    ours.call(FENCE, 0, 0, narrow == "fence", 0, 1)
    ours.call(ACCESS, 0, 0, 64, WRITES | STRONG | NARROW * (narrow == "write"), 1)
    ours.call(ACCESS, reader, 1, 64, ACQUIRING | NARROW * (narrow == "read"), 1)
    known = ours.call(ASK, reader, 1, 0, THREAD_MAX, 1) != NOT_ORDERED
    assert known is (reader == 0 or not narrow)


def test_a_finished_read_acquires_nothing():
    ours = Orders(2)
    ours.call(ACCESS, 1, 0, 64, ACQUIRING, 1)
    ours.call(FENCE, 1, 0, 0, 0, 1)
    ours.call(FENCE, 0, 0, 0, 0, 1)
    ours.call(ACCESS, 0, 0, 64, WRITES | STRONG, 1)
    assert ours.call(ASK, 1, 0, 0, THREAD_MAX, 1) == NOT_ORDERED


def test_reads_by_blocks_that_are_not_kept_are_ordered_if_another_block_is_known():
    ours = Orders(100)
    several = (ASK, 3, 0, -1, THREAD_MAX, 1)
    ours.call(FENCE, 3, 0, 0, 0, 1)
    ours.call(ACCESS, 3, 0, 64, ATOMIC, 1)
    assert ours.call(*several) == NOT_ORDERED  # it knows only itself
    ours.call(FENCE, 4, 0, 0, 0, 1)
    ours.call(ACCESS, 4, 0, 64, ATOMIC, 1)
    ours.call(ACCESS, 3, 0, 64, ATOMIC, 2)
    assert ours.call(*several) != NOT_ORDERED


def test_a_barrier_of_the_grid_takes_a_few_nodes_a_block():
    """Copies of each block's clocks would be blocks times blocks."""
    blocks = 1500
    ours = Orders(blocks)
    for clock in (1, 3, 5):
        for what in ((FENCE, 0, 0), (ACCESS, 64, ATOMIC)):
            for block in range(blocks):
                ours.call(what[0], block, 0, *what[1:], clock)
        for block in range(blocks):
            ours.call(ACCESS, block, 0, 64, ACQUIRING, clock)
            ours.call(BARRIER_ARRIVED, block, 0, 0, 1, clock)
            ours.call(BARRIER_LEFT, block, 0, 0, 0, clock + 1)
    assert all(ours.call(ASK, block, 0, 1499 - block, THREAD_MAX, 5) != NOT_ORDERED for block in range(0, blocks, 7))
    seen: set[int] = set()
    accounts = [*ours._knows.values(), *ours._releases.values()]
    below = [account.all.tree for account in accounts] + [version.tree for version in ours._places.values()]
    while below:
        node = below.pop()
        if id(node) not in seen and isinstance(node, tuple) and len(node) == orders._BRANCHES != WARPS_MAX:
            seen.add(id(node))
            below += [one for one in node if one is not None]
    assert len(seen) < 4 * blocks


@pytest.mark.parametrize(("text", "asks"), [("barrier.cluster.arrive.release", False), ("fence.acq_rel.gpu", True)])
def test_only_kernels_with_fences_query_orders(text: str, asks: bool) -> None:
    """Orders by barriers of clusters are known without it, and a query takes a hundred times as long as judging."""
    kernel = f".version 8.0 .target sm_90 .entry k() {{ {text}; st.global.u32 [%rd1], %r1; }}"
    assert MemoryCheck(parse(kernel)).orders is asks


@pytest.mark.parametrize("parts", [False, True])
def test_the_barrier_of_a_cluster_passes_on_its_blocks_clocks(parts: bool) -> None:
    known = Orders(4)
    known.call(CLUSTER_ARRIVED, 2, 1, 2, 0, 6)
    if parts:
        known.call(CLUSTER_LEFT, 3, 0, 2, 0, 0)
    assert (known.call(ASK, 3, 0, 2, 1 << 5, 5) != NOT_ORDERED) is parts
    assert known.call(ASK, 3, 0, 2, 1 << 5, 6) == NOT_ORDERED


LOCK = """
__device__ int lock_, total;
extern "C" __global__ void add(int *out)
{
    while (atomicCAS(&lock_, 0, 1)) ;
    ENTERED
    total += 1;
    LEAVING
    atomicExch(&lock_, 0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize("fences", [True, False])
def test_a_waiting_warp_notifies_once(fences: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that contend for a lock repeat atomics thousands of times, which changes nothing that is known."""
    calls: list[int] = []
    real = Orders.call

    def counted(self: Orders, what: int, *rest: int) -> int:
        calls.append(what)
        return real(self, what, *rest)

    monkeypatch.setattr(Orders, "call", counted)
    monkeypatch.setenv("TILEWRIGHT_THREADS", "1")  # how often a warp waits depends on the other threads
    source = LOCK.replace("ENTERED", "__threadfence();" * fences).replace("LEAVING", "__threadfence();" * fences)
    program = Program.from_cuda(source, "add", (8, 0))
    threads = 4 * 64
    found = tw.check(program, 4, 64, (np.zeros(threads, np.int32),), schedules=0)
    if fences:
        assert not list(found)
        assert calls.count(FENCE) == 2 * threads
        assert len(calls) < 16 * threads
    else:
        assert {one.code for one in found} == {"TW303"}


POLLING = r"""
__global__ void read_later(int *out, int *gate, int n) {
    __shared__ int near;
    const bool first = SPACE ? threadIdx.x < 32 : blockIdx.x == 0;
    int *flag = SPACE ? &near : gate;
    if (SPACE && threadIdx.x == 0) near = 0;
    __syncthreads();
    if (first) {
        int sum = 0;
        for (int i = 0; i < n; ++i) sum = sum * 3 + out[512 + i % 7];
        if (threadIdx.x == 0) {
            out[600] = sum;
            __threadfence();
            asm volatile("st.release.gpu.u32 [%0], 1;" :: "l"(flag) : "memory");
        }
    } else {
        int seen = 0;
        while (!seen) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        out[threadIdx.x] = out[600];
    }
}
"""


@pytest.mark.parametrize("shared", [False, True])
def test_warps_that_read_a_flag_again_and_again_ask_once(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = Orders.call

    def counted(self: Orders, what: int, *rest: int) -> int:
        calls.append(what)
        return real(self, what, *rest)

    monkeypatch.setattr(Orders, "call", counted)
    monkeypatch.setenv("TILEWRIGHT_THREADS", "1")
    space = "shared" if shared else "global"
    text = POLLING.replace("SPACE", str(int(shared))).replace("gpu.u32", f"gpu.{space}.u32")
    text = text.replace('"l"(flag)', '"r"((unsigned)__cvta_generic_to_shared(flag))' if shared else '"l"(flag)')
    program = Program.from_cuda(text, "read_later", (8, 0))
    grid = 1 if shared else 2
    given = np.ones(1024, np.int32), np.zeros(1, np.int32), 2000
    assert not list(tw.check(program, grid, 256, given, schedules=0))
    assert 0 < len(calls) < 8 * 256


@pytest.mark.parametrize("parts", [False, True])
def test_a_relaxed_arrival_at_a_cluster_passes_on_what_a_fence_released(parts: bool) -> None:
    known = Orders(4)
    if parts:
        known.call(FENCE, 2, 1, 0, 0, 4)
    known.call(CLUSTER_ARRIVED, 2, 1, 2, 1, 6)
    known.call(CLUSTER_LEFT, 3, 0, 2, 0, 0)
    assert (known.call(ASK, 3, 0, 2, 1 << 5, 4) != NOT_ORDERED) is parts
    assert known.call(ASK, 3, 0, 2, 1 << 5, 5) == NOT_ORDERED, "the fence releases what stands before it"


@pytest.mark.parametrize("order", ["read", "fence before", "fence", "acquiring read", "narrow fence"])
def test_a_relaxed_read_acquires_at_the_next_fence(order: str) -> None:
    """By the model's acquire pattern; a fence of another block's scope ends none."""
    ours = Orders(2, scoped=True)
    ours.call(FENCE, 0, 0, 0, 0, 1)
    ours.call(ACCESS, 0, 0, 64, WRITES | STRONG, 1)
    if order == "fence before":
        ours.call(FENCE, 1, 0, 0, 0, 1)
    ours.call(ACCESS, 1, 0, 64, READS | STRONG, 1)
    if order == "acquiring read":
        ours.call(ACCESS, 1, 0, 64, ACQUIRING, 1)
    if "fence" in order and order != "fence before":
        ours.call(FENCE, 1, 0, order == "narrow fence", 0, 1)
    known = ours.call(ASK, 1, 0, 0, THREAD_MAX, 1) != NOT_ORDERED
    assert known is (order in ("fence", "acquiring read"))


def test_a_fence_behind_a_barrier_acquires_what_another_warp_has_read() -> None:
    """Looser than the model: one thread waits for a flag, and all fence behind a barrier."""
    ours = Orders(2)
    ours.call(FENCE, 0, 0, 0, 0, 1)
    ours.call(ACCESS, 0, 0, 64, WRITES | STRONG, 1)
    ours.call(ACCESS, 1, 0, 64, READS | STRONG, 1)
    for warp in (0, 1):
        ours.call(BARRIER_ARRIVED, 1, warp, 0, 1, 2)
    ours.call(BARRIER_LEFT, 1, 1, 0, 0, 3)
    assert ours.call(ASK, 1, 1, 0, THREAD_MAX, 1) == NOT_ORDERED
    ours.call(FENCE, 1, 1, 0, 0, 3)
    assert ours.call(ASK, 1, 1, 0, THREAD_MAX, 1) != NOT_ORDERED


def test_a_releasing_write_releases_at_its_own_place_alone() -> None:
    ours = Orders(2)
    ours.call(ACCESS, 0, 0, 64, WRITES | STRONG | RELEASES, 1)
    ours.call(ACCESS, 0, 0, 128, WRITES | STRONG, 1)
    ours.call(ACCESS, 1, 0, 128, ACQUIRING, 1)
    assert ours.call(ASK, 1, 0, 0, THREAD_MAX, 1) == NOT_ORDERED
    ours.call(ACCESS, 1, 0, 64, ACQUIRING, 1)
    assert ours.call(ASK, 1, 0, 0, THREAD_MAX, 1) != NOT_ORDERED
