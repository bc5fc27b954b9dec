"""Clusters of several blocks: their registers, addresses, barrier and memory, against NumPy."""

from __future__ import annotations

import math
import re
from typing import Any

import narrow_hosts
import numpy as np
import pytest

from tilewright import check
from tilewright.errors import DeadlockError, KernelError, LaunchError, LimitError, MemoryAccessError
from tilewright.programs import Program
from tilewright.simt import Limits, launch

_REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<20>, %t, %rank, %at; .reg .b64 %l<12>, %out, %any;"
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"


def kernel(body: str, directives: str = "", shared: str = ".shared .align 16 .b32 own[64];") -> Program:
    """%out is each thread's word of `out` by its number in the grid; %at and %any are the block's own memory."""
    return Program.from_ptx(f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {directives} {{
{_REGISTERS} {shared}
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank;
mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3;
mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
mov.u32 %r2, %ntid.x; mad.lo.u32 %r1, %r1, %r2, %t; mad.wide.u32 %out, %r1, 4, %out;
mov.u32 %at, own; mov.u64 %any, own; cvta.shared.u64 %any, %any;
{body}
ret;
}}
""")


def run(body: str, blocks: Any, threads: int, directives: str = "", **options: Any) -> np.ndarray:
    """The threads' results in `out`, a row for each block."""
    out = np.zeros((int(np.prod(blocks)), threads), np.uint32)
    launch(kernel(body, directives), blocks, threads, (out,), **options)
    return out


def places(grid: tuple[int, int, int], size: tuple[int, int, int]) -> list[dict[str, tuple[int, ...]]]:
    """By block: its indices, those of its cluster, and those in its cluster."""
    found = []
    for z, y, x in np.ndindex(grid[::-1]):
        block = (x, y, z)
        cluster, inside = zip(*map(divmod, block, size), strict=True)
        found.append({"block": block, "cluster": cluster, "inside": inside})
    return found


@pytest.mark.parametrize(
    ("grid", "size"),
    [((4, 1, 1), (2, 1, 1)), ((6, 4, 2), (3, 2, 1)), ((4, 2, 4), (2, 2, 4)), ((8, 2, 1), (8, 1, 1)), ((2, 2, 2), None),
     ((3, 2, 1), (1, 1, 1))],
)  # fmt: skip
@pytest.mark.parametrize("seed", [None, 3])
def test_registers(grid: tuple[int, int, int], size: tuple[int, int, int] | None, seed: int | None) -> None:
    known = size or (1, 1, 1)
    for register, expected in {
        **{f"%clusterid.{a}": lambda p, i=i: p["cluster"][i] for i, a in enumerate("xyz")},
        **{f"%cluster_ctaid.{a}": lambda p, i=i: p["inside"][i] for i, a in enumerate("xyz")},
        **{f"%nclusterid.{a}": lambda p, i=i: grid[i] // known[i] for i, a in enumerate("xyz")},
        **{f"%cluster_nctaid.{a}": lambda p, i=i: known[i] for i, a in enumerate("xyz")},
        "%cluster_ctarank": lambda p: p["inside"][0] + known[0] * (p["inside"][1] + known[1] * p["inside"][2]),
        "%cluster_nctarank": lambda p: math.prod(known),
    }.items():
        out = run(f"mov.u32 %r5, {register}; st.global.u32 [%out], %r5;", grid, 3, cluster=size, seed=seed)
        assert out[:, 0].tolist() == [expected(place) for place in places(grid, known)], register
    explicit = run("mov.pred %p1, %is_explicit_cluster; selp.u32 %r5, 7, 9, %p1; st.global.u32 [%out], %r5;", grid, 1,
                   cluster=size)  # fmt: skip
    assert set(explicit.flat) == {9 if size is None else 7}


#: A thread writes its number at its place, and reads that of the same thread of the next block, each way of a load.
READS = {
    "mapa of a variable": "mapa.shared::cluster.u32 %r6, own, %r5; add.u32 %r6, %r6, %r7; "
    "ld.shared::cluster.u32 %r8, [%r6];",
    "mapa of an address": "add.u32 %r6, %at, %r7; mapa.shared::cluster.u32 %r6, %r6, %r5; "
    "ld.shared::cluster.u32 %r8, [%r6];",
    "generic": "cvt.u64.u32 %l1, %r7; add.u64 %l1, %l1, %any; mapa.u64 %l1, %l1, %r5; ld.u32 %r8, [%l1];",
    "cvta": "mapa.shared::cluster.u32 %r6, %at, %r5; cvt.u64.u32 %l1, %r6; cvta.shared::cluster.u64 %l1, %l1; "
    "cvt.u64.u32 %l2, %r7; add.u64 %l1, %l1, %l2; ld.u32 %r8, [%l1];",
    "atomic": "mapa.shared::cluster.u32 %r6, %at, %r5; add.u32 %r6, %r6, %r7; "
    "atom.shared::cluster.add.u32 %r8, [%r6], 0;",
    "generic atomic": "cvt.u64.u32 %l1, %r7; add.u64 %l1, %l1, %any; mapa.u64 %l1, %l1, %r5; "
    "atom.or.b32 %r8, [%l1], 0;",
}


@pytest.mark.parametrize("host", ["own", "avx2", "sse"])
@pytest.mark.parametrize("name", READS)
def test_reads_of_the_next_block(monkeypatch: pytest.MonkeyPatch, name: str, host: str) -> None:
    narrow_hosts.use_host(monkeypatch.setattr, host)
    blocks, threads, size = 12, 40, 4
    body = f"""
shl.b32 %r7, %t, 2; add.u32 %r6, %at, %r7; mad.lo.u32 %r9, %rank, 1000, %t; st.shared.u32 [%r6], %r9;
{SYNC}
add.u32 %r5, %rank, 1; and.b32 %r5, %r5, 3;
{READS[name]}
{SYNC}
st.global.u32 [%out], %r8;"""
    ranks = (np.arange(blocks) % size + 1) % size
    out = run(body, blocks, threads, cluster=size, limits=Limits(threads=2))
    assert (out == ranks[:, None] * 1000 + np.arange(threads)).all()


WRITES = {
    "store": "st.shared::cluster.u32 [%r6], %r9;",
    "generic store": "cvt.u64.u32 %l1, %r6; cvta.shared::cluster.u64 %l1, %l1; st.u32 [%l1], %r9;",
    "red": "red.shared::cluster.add.u32 [%r6], %r9;",
    "exchange": "atom.shared::cluster.exch.b32 %r8, [%r6], %r9;",
    "by lanes": "setp.eq.u32 %p1, %t, 5; @%p1 st.shared::cluster.u32 [%r6], %r9; "
    "@!%p1 st.shared::cluster.u32 [%r6], %r9;",
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_all_blocks(name: str) -> None:
    """A lane writes into the block of its number modulo the cluster's size, at its own place there."""
    blocks, threads, size = 8, 32, 8
    body = f"""
shl.b32 %r7, %t, 2; add.u32 %r6, %at, %r7; mov.u32 %r8, 0; st.shared.u32 [%r6], %r8;
{SYNC}
add.u32 %r5, %t, %rank; rem.u32 %r5, %r5, 8; mapa.shared::cluster.u32 %r6, %r6, %r5; mad.lo.u32 %r9, %rank, 100, %t;
{WRITES[name]}
{SYNC}
add.u32 %r6, %at, %r7; ld.shared.u32 %r8, [%r6]; st.global.u32 [%out], %r8;"""
    t = np.arange(threads)
    expected = np.zeros((blocks, threads), int)
    for rank in range(blocks):
        expected[(t + rank) % size, t] = rank * 100 + t
    assert (run(body, blocks, threads, cluster=size) == expected).all()


def test_addresses_identify_their_block() -> None:
    """An address that a block passes to another one still names the first block's memory."""
    body = f"""
mad.lo.u32 %r9, %rank, 10, 3; st.shared.u32 [%at], %r9;
mov.u32 %r5, 0; mapa.shared::cluster.u32 %r6, %at, %r5; mad.lo.u32 %r6, %rank, 8, %r6;
st.shared::cluster.u64 [%r6+16], %any;
{SYNC}
add.u32 %r5, %rank, 1; and.b32 %r5, %r5, 3; mov.u32 %r7, 0; mapa.shared::cluster.u32 %r6, %at, %r7;
mad.lo.u32 %r6, %r5, 8, %r6; ld.shared::cluster.u64 %l1, [%r6+16]; ld.u32 %r8, [%l1];
getctarank.u64 %r10, %l1; mad.lo.u32 %r8, %r10, 1000, %r8; isspacep.shared::cluster %p2, %l1;
isspacep.shared::cta %p3, %l1; isspacep.shared %p4, %any; selp.u32 %r11, 1, 0, %p2; selp.u32 %r12, 10, 0, %p3;
selp.u32 %r13, 100, 0, %p4; add.u32 %r11, %r11, %r12; add.u32 %r11, %r11, %r13; mad.lo.u32 %r8, %r11, 10000, %r8;
{SYNC}
st.global.u32 [%out], %r8;"""
    ranks = (np.arange(4) + 1) % 4
    assert run(body, 4, 1, cluster=4)[:, 0].tolist() == (1010000 + ranks * 1010 + 3).tolist()


def test_warps_arrive_early_and_wait_late() -> None:
    """Code between arrival and wait runs before others arrive; lanes may also arrive one by one."""
    body = """
st.shared.u32 [%at], %t; setp.lt.u32 %p1, %t, 7; @%p1 barrier.cluster.arrive.release; @!%p1 barrier.cluster.arrive;
mov.u32 %r8, 0;
L: add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, %t; @%p2 bra L;
setp.eq.u32 %p3, %rank, 1; @%p3 exit;
barrier.cluster.wait.acquire; barrier.cluster.arrive.relaxed; barrier.cluster.wait;
st.global.u32 [%out], %r8;"""
    assert run(body, 4, 70, cluster=2).tolist() == [
        [0] * 70 if block % 2 else [max(t, 1) for t in range(70)] for block in range(4)
    ]


def test_a_launch_without_a_cluster_barrier_runs_together() -> None:
    """A block spins on a value that another block of its cluster stores, in any order of the blocks."""
    body = """
mov.u32 %r5, 3; sub.u32 %r5, %r5, %rank; setp.eq.u32 %p1, %rank, 3; @%p1 bra S;
bar.sync 0;
mapa.shared::cluster.u32 %r6, %at, %r5;
W: ld.volatile.shared.u32 %r8, [%at]; setp.eq.s32 %p2, %r8, -1; @%p2 bra W;
bra D;
S: mov.u32 %r9, 0;
N: mapa.shared::cluster.u32 %r6, %at, %r9; st.volatile.shared::cluster.u32 [%r6], 77;
add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 3; @%p2 bra N; mov.u32 %r8, 5;
D: st.global.u32 [%out], %r8;"""
    for seed in (None, 1, 2):
        out = run(body, 8, 33, cluster=4, limits=Limits(threads=2, seconds=60), seed=seed)
        assert (out == np.where(np.arange(8)[:, None] % 4 == 3, 5, 77)).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mapa.shared::cluster.u32 %r6, %at, 2; ld.shared::cluster.u32 %r8, [%r6];", "shared::cluster load of 4 bytes"),
        ("mapa.shared::cluster.u32 %r6, %at, 99; st.shared::cluster.u32 [%r6], %r8;", "shared::cluster store"),
        ("mapa.shared::cluster.u32 %r6, %at, 1; st.shared::cluster.u32 [%r6+256], %r8;", "shared::cluster store"),
        ("mapa.shared::cluster.u32 %r6, %at, 1; red.shared::cluster.add.u32 [%r6+256], 1;", "shared::cluster atomic"),
        ("mapa.u64 %l1, %any, 1; st.u32 [%l1+256], %r8;", "generic store"),
        ("mapa.u64 %l1, %any, 1; ld.u32 %r8, [%l1+-4];", "generic load"),
        ("mapa.u64 %l1, %any, 2; atom.add.u32 %r8, [%l1], 1;", "generic atomic"),
        ("mov.u32 %r5, 1; sub.u32 %r5, %r5, %rank; mapa.shared::cluster.u32 %r6, %at, %r5; ld.shared.u32 %r8, [%r6];",
         "shared load"),
        ("st.shared.u32 [%at+256], %r8;", "shared store"),
        ("mapa.shared::cluster.u32 %r6, %at, 1; ld.shared::cluster.u32 %r8, [%r6+1];", "misaligned shared::cluster"),
    ],
    ids=lambda value: None if " " not in value or ";" in value else value.replace(" ", "_"),
)  # fmt: skip
def test_addresses_outside_are_faults(body: str, message: str) -> None:
    with pytest.raises(MemoryAccessError, match=message) as raised:
        run(f"{body} {SYNC} st.global.u32 [%out], %r8;", 2, 5, cluster=2)
    assert raised.value.block[0] in (0, 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "barrier.cluster.arrive; barrier.cluster.arrive;",
            "must wait at the barrier of the cluster before it arrives",
        ),
        ("barrier.cluster.wait;", "must arrive at the barrier of the cluster before it waits"),
        (f"{SYNC} barrier.cluster.wait;", "must arrive at the barrier of the cluster before it waits"),
    ],
)
@pytest.mark.parametrize("size", [None, 2])
def test_the_barrier_is_used_in_turn(body: str, message: str, size: int | None) -> None:
    with pytest.raises(KernelError, match=message):
        run(body, 2, 40, cluster=size)


def test_a_block_that_never_arrives_is_a_deadlock() -> None:
    body = f"""
setp.eq.u32 %p1, %rank, 1; @!%p1 bra all; setp.lt.u32 %p2, %t, 32; @%p2 bra all; bar.sync 1, 96; all: {SYNC}"""
    with pytest.raises(
        DeadlockError, match=r"block \(3, 0, 0\) cannot go on.*barrier 1 has 32 of 96 threads"
    ) as raised:
        run(body, 4, 64, cluster=2, limits=Limits(threads=1), seed=5)
    assert re.search(
        r"others wait at the barrier of the cluster, .* of the block of rank 1 have arrived", str(raised.value)
    )


def test_a_limit_ends_a_cluster_one_of_whose_blocks_spins() -> None:
    body = f"setp.eq.u32 %p1, %rank, 1; L: @%p1 bra L; {SYNC}"
    for limits in Limits(instructions=100_000), Limits(seconds=0.2):
        with pytest.raises(LimitError, match=r"in block \(\d, 0, 0\)"):
            run(body, 4, 64, cluster=2, limits=limits)


@pytest.mark.parametrize(
    ("blocks", "directives", "options", "message"),
    [
        (3, "", {"cluster": 2}, r"must be a multiple of the cluster along each axis \(got 3 x 1 x 1"),
        ((4, 3), "", {"cluster": (2, 2)}, "must be a multiple"),
        (32, "", {"cluster": (8, 4)}, "1 to 16 blocks"),
        (32, "", {"cluster": 17}, "`cluster` must be between 1 and 16 in x"),
        (4, "", {"cluster": 0}, "`cluster` must be between 1 and 16 in x"),
        (4, "", {"cluster": "2"}, "`cluster` must be an integer or 1 to 3 of them"),
        (4, ".reqnctapercluster 2, 1, 1", {"cluster": 4}, r"must be 2 x 1 x 1, as .*__cluster_dims__ says \(got 4 x 1"),
        (3, ".reqnctapercluster 2, 1, 1", {}, "must be a multiple"),
        (4, ".explicitcluster", {}, "`cluster` must be given"),
        (8, ".explicitcluster .maxclusterrank 4", {"cluster": 8}, "1 to 4 blocks"),
        (4, ".reqnctapercluster 2, 1, 1", {"gpu": "a100"}, "compute capability 9.0 or more"),
    ],
)  # fmt: skip
def test_clusters_that_are_refused(blocks: Any, directives: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        run("st.global.u32 [%out], %t;", blocks, 4, directives, **options)


@pytest.mark.parametrize("directives", [".reqnctapercluster 2, 1, 1", ".explicitcluster .reqnctapercluster 2"])
def test_the_kernel_names_its_clusters(directives: str) -> None:
    body = f"{SYNC} mov.u32 %r5, %cluster_nctarank; mad.lo.u32 %r5, %r5, 10, %rank; st.global.u32 [%out], %r5;"
    for options in {}, {"cluster": 2}, {"cluster": (2, 1, 1)}:
        assert run(body, 4, 1, directives, **options)[:, 0].tolist() == [20, 21, 20, 21]


# -- mbarriers and copies between blocks


WAIT = "W{0}: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%bar], {0}; @!%p7 bra W{0};"


def kernel_with_bars(body: str) -> Program:
    """As `kernel`, with an mbarrier a block, which a thread of it makes for so many arrivals (%r18)."""
    words = "".join(f".shared .align 16 .b32 {name}[64]; " for name in ("own", "tile"))
    shared = words + ".shared .align 8 .b64 bars[1]; .reg .b16 %h<4>; .reg .b32 %bar;"
    begin = """mov.u32 %bar, bars; setp.eq.u32 %p8, %t, 0;
@%p8 mbarrier.init.shared::cta.b64 [%bar], %r18; @%p8 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.relaxed; barrier.cluster.wait;"""
    return kernel(body.replace("BEGIN", begin), shared=shared)


def run_with_bars(body: str, blocks: int, threads: int, size: int, **options: Any) -> np.ndarray:
    """As `run`, of such a kernel."""
    out = np.zeros((blocks, threads), np.uint32)
    launch(kernel_with_bars(body), blocks, threads, (out,), cluster=size, **options)
    return out


@pytest.mark.parametrize("bar", ["%bar", "bars"])
def test_arrivals_at_other_blocks_mbarriers(bar: str) -> None:
    """Each block stores into the next one and arrives there: no barrier but the mbarrier orders both."""
    body = f"""
mov.u32 %r18, 40; BEGIN
add.u32 %r5, %rank, 1; rem.u32 %r5, %r5, 3; mapa.shared::cluster.u32 %r6, {bar}, %r5;
mapa.shared::cluster.u32 %r7, %at, %r5;
mad.lo.u32 %r7, %t, 4, %r7; mad.lo.u32 %r8, %rank, 100, %t; st.shared::cluster.u32 [%r7], %r8;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
{WAIT.format(0)}
mad.lo.u32 %r7, %t, 4, %at; ld.shared.u32 %r8, [%r7]; st.global.u32 [%out], %r8;
{SYNC}"""
    out = run_with_bars(body, 6, 40, 3, limits=Limits(threads=2))
    assert (out == (np.arange(6)[:, None] + 2) % 3 * 100 + np.arange(40)).all()


def test_lanes_arrive_at_a_block_each() -> None:
    """Thread i of each block arrives at block i, which expects an arrival of every block; it also counts bytes."""
    body = f"""
mov.u32 %r18, 5; BEGIN
setp.lt.u32 %p1, %t, 4; mapa.shared::cluster.u32 %r6, %bar, %t;
@%p1 mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%r6], 8;
@%p1 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r6], 8;
@%p8 mbarrier.arrive.shared::cta.b64 _, [%bar];
{WAIT.format(0)}
ld.shared.u64 %l1, [%bar]; shr.u64 %l1, %l1, 61; cvt.u32.u64 %r8, %l1; st.global.u32 [%out], %r8;
{SYNC}"""
    assert (run_with_bars(body, 8, 32, 4) == 1).all()


COPIES = {
    "global": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%l3], 128, [%r6];",
    "shared": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r10], 128, [%r6];",
}


@pytest.mark.parametrize("name", COPIES)
def test_bulk_copies_to_another_block(name: str) -> None:
    """A thread of each block copies 128 bytes to the next block, and signals the mbarrier there."""
    body = f"""
mov.u32 %r18, 1; mov.u32 %r10, tile; mad.lo.u32 %r11, %t, 4, %r10; mad.lo.u32 %r8, %rank, 100, %t;
st.shared.u32 [%r11], %r8; fence.proxy.async; st.global.u32 [%out], %r8;
mul.wide.u32 %l3, %t, 4; sub.u64 %l3, %out, %l3; BEGIN
@%p8 mbarrier.arrive.expect_tx.shared::cta.b64 %l4, [%bar], 128;
add.u32 %r5, %rank, 1; and.b32 %r5, %r5, 1;
mapa.shared::cluster.u32 %r6, %bar, %r5; mapa.shared::cluster.u32 %r7, %at, %r5;
@%p8 {COPIES[name]}
{WAIT.format(0)}
{SYNC}
mad.lo.u32 %r7, %t, 4, %at; ld.shared.u32 %r8, [%r7]; st.global.u32 [%out], %r8;"""
    out = run_with_bars(body, 4, 32, 2)
    assert (out == (np.arange(4)[:, None] + 1) % 2 * 100 + np.arange(32)).all()


@pytest.mark.parametrize("mask", [0b1111, 0b0110, 0b1000])
def test_multicast(mask: int) -> None:
    """The first block's copy goes to the same place of each block in the mask, and signals its mbarrier."""
    body = f"""
mov.u32 %r18, 1; mov.u32 %r8, 7; mad.lo.u32 %r11, %t, 4, %at; st.shared.u32 [%r11], %r8;
add.u32 %r8, %t, 50; st.global.u32 [%out], %r8; mul.wide.u32 %l3, %t, 4; sub.u64 %l3, %out, %l3; BEGIN
mov.u16 %h1, {mask}; mov.u32 %r9, {mask}; shr.u32 %r9, %r9, %rank; and.b32 %r9, %r9, 1; mul.lo.u32 %r9, %r9, 128;
@%p8 mbarrier.arrive.expect_tx.shared::cta.b64 %l4, [%bar], %r9;
setp.eq.and.u32 %p1, %rank, 0, %p8;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
 [%at], [%l3], 128, [%bar], %h1;
{WAIT.format(0)}
ld.shared.u32 %r8, [%r11]; {SYNC} st.global.u32 [%out], %r8;"""
    out = run_with_bars(body, 8, 32, 4)
    for block, row in enumerate(out):
        assert row.tolist() == ([50 + t for t in range(32)] if mask >> block % 4 & 1 else [7] * 32), block


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mapa.shared::cluster.u32 %r6, %bar, 3; mbarrier.arrive.shared::cluster.b64 _, [%r6];", "cluster atomic"),
        ("mapa.shared::cluster.u32 %r6, %bar, 1; mbarrier.arrive.shared::cluster.b64 _, [%r6+4];", "misaligned"),
        ("mapa.shared::cluster.u32 %r6, %bar, 1; mbarrier.arrive.shared::cluster.b64 _, [%r6+8];", "out of bounds"),
        ("mapa.shared::cluster.u32 %r6, %bar, 1; mbarrier.arrive.shared::cluster.b64 _, [%r6], 9;", "arrivals"),
        ("mov.u16 %h1, 4; @%p8 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
         "[%at], [%out], 16, [%bar], %h1;", "out of bounds shared::cluster store"),
        ("mapa.shared::cluster.u32 %r6, %at, 1; @%p8 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
         "[%r6+1024], [%out], 16, [%bar];", "out of bounds"),
    ],
    ids=["no such block", "misaligned", "behind its memory", "too many arrivals", "mask", "copy"],
)  # fmt: skip
def test_wrong_places_of_other_blocks_are_faults(body: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run_with_bars(f"mov.u32 %r18, 1; BEGIN {body}", 2, 4, 2)


def test_bytes_that_never_arrive_from_another_block_are_a_deadlock() -> None:
    body = f"""
mov.u32 %r18, 1; BEGIN setp.eq.u32 %p1, %rank, 0; @%p1 bra done;
@%p8 mbarrier.arrive.expect_tx.shared::cta.b64 %l4, [%bar], 64;
{WAIT.format(0)}
done: {SYNC}"""
    with pytest.raises(DeadlockError, match=r"block \(1, 0, 0\) cannot go on.*64 bytes") as raised:
        run_with_bars(body, 2, 32, 2)
    assert "others wait at the barrier of the cluster" in str(raised.value)


def test_checks_find_nothing_in_data_that_blocks_pass_on() -> None:
    """Arrivals at other blocks' mbarriers, copies between blocks and multicast are no findings."""
    arrive = f"""
mov.u32 %r18, 40; BEGIN
add.u32 %r5, %rank, 1; rem.u32 %r5, %r5, 3; mapa.shared::cluster.u32 %r6, %bar, %r5;
mapa.shared::cluster.u32 %r7, %at, %r5; mad.lo.u32 %r7, %t, 4, %r7; st.shared::cluster.u32 [%r7], %t;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
{WAIT.format(0)}
mul.lo.u32 %r7, %t, 4; xor.b32 %r7, %r7, 64; and.b32 %r7, %r7, 127; add.u32 %r7, %r7, %at;
ld.shared.u32 %r8, [%r7]; st.global.u32 [%out], %r8; {SYNC}"""
    copy = f"""
mov.u32 %r18, 1; BEGIN
@%p8 mbarrier.arrive.expect_tx.shared::cta.b64 %l4, [%bar], 128;
mov.u16 %h1, 7; mul.wide.u32 %l3, %t, 4; sub.u64 %l3, %out, %l3; setp.eq.and.u32 %p1, %rank, 0, %p8;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
 [%at], [%l3], 128, [%bar], %h1;
{WAIT.format(0)}
and.b32 %r11, %t, 31; mad.lo.u32 %r11, %r11, 4, %at; ld.shared.u32 %r8, [%r11]; {SYNC} st.global.u32 [%out], %r8;"""
    for body in arrive, copy:
        assert not check(kernel_with_bars(body), (6, 1, 1), (40, 1, 1), (np.zeros((6, 40), np.uint32),), cluster=3)
