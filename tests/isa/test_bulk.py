"""Bulk copies: the bytes that they move, their signals to mbarriers, and invalid operands."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import KernelError, MemoryAccessError
from tilewright.instruments import Coalescing
from tilewright.programs import Program
from tilewright.simt import launch

SIZE = 4096


def kernel(body: str) -> Program:
    """A kernel of `out`, `x` and `n`; `tile` and `twin` are shared, `bar` holds two mbarriers for one arrival."""
    return Program.from_ptx(f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 x, .param .u32 n) {{
.reg .pred %p<9>, %first; .reg .b16 %h<4>; .reg .b32 %r<9>, %t, %bar, %tile, %twin, %n; .reg .b64 %l<9>, %out, %x;
.shared .align 128 .b8 tile[{SIZE}]; .shared .align 128 .b8 twin[{SIZE}]; .shared .align 8 .b64 bars[2];
ld.param.u64 %out, [out]; ld.param.u64 %x, [x]; ld.param.u32 %n, [n];
mov.u32 %t, %tid.x; mov.u32 %bar, bars; mov.u32 %tile, tile; mov.u32 %twin, twin; setp.eq.u32 %first, %t, 0;
@%first mbarrier.init.shared.b64 [%bar], 1;
@%first mbarrier.init.shared.b64 [%bar+8], 1;
bar.sync 0;
{body}
ret;
}}
""")


def loads(place: str = "%tile", source: str = "%x", more: str = "", space: str = "shared::cluster.global") -> str:
    """Thread 0 copies n bytes to shared memory, and all wait."""
    bar = "%bar+8" if place == "%twin" else "%bar"
    label = "wait" + "2" * (place == "%twin")
    words, comma, operands = more.partition(",")
    return f"""
@%first mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], %n;
@%first cp.async.bulk.{space}.mbarrier::complete_tx::bytes{words} [{place}], [{source}], %n, [{bar}]{comma}{operands};
{label}: mbarrier.try_wait.parity.shared.b64 %p1, [{bar}], 0;
@!%p1 bra {label};
"""


def stores(place: str = "%tile", target: str = "%out", more: str = "") -> str:
    """Thread 0 copies n bytes of shared memory back, and waits."""
    words, comma, operands = more.partition(",")
    return f"""
@!%first bra end;
cp.async.bulk.global.shared::cta.bulk_group{words} [{target}], [{place}], %n{comma}{operands};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
end:
"""


def run(body: str, count: int, threads: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """The contents of `out`, and the input."""
    x, out = np.random.default_rng(count).integers(1, 255, SIZE, np.uint8), np.zeros(SIZE, np.uint8)
    launch(kernel(body), 1, threads, (out, x, np.uint32(count)))
    return out, x


@pytest.mark.parametrize("count", [16, 32, 496, 512, 528, 1040, 4096])
@pytest.mark.parametrize("space", ["shared::cluster.global", "shared::cta.global"])
def test_bytes_go_to_shared_memory_and_back(count: int, space: str) -> None:
    out, x = run(loads(space=space) + stores(), count)
    assert (out[:count] == x[:count]).all()
    assert not out[count:].any()


def test_bytes_go_from_shared_to_shared_memory() -> None:
    out, x = run(loads() + loads("%twin", "%tile", space="shared::cluster.shared::cta") + stores("%twin"), 1040)
    assert (out[:1040] == x[:1040]).all()


def test_a_policy_and_a_mask_of_blocks_change_nothing_for_this_block() -> None:
    policy = "createpolicy.fractional.L2::evict_first.b64 %l1; mov.u16 %h1, 1;"
    hinted = loads(more=".multicast::cluster.L2::cache_hint, %h1, %l1")
    out, x = run(policy + hinted + stores(more=".L2::cache_hint, %l1"), 64)
    assert (out[:64] == x[:64]).all()


def test_blocks_that_a_mask_does_not_name_get_nothing() -> None:
    body = "mov.u16 %h1, 2;\n" + loads(more=".multicast::cluster, %h1")
    with pytest.raises(KernelError, match="16 bytes pending"):
        run(body, 16)


def test_bytes_that_a_mask_does_not_name_are_left() -> None:
    out, x = run("mov.u16 %h1, 0x8005;\n" + loads() + stores(more=".cp_mask, %h1"), 64)
    named = np.array([0x8005 >> i & 1 for i in range(16)] * 4, bool)
    assert (out[:64] == np.where(named, x[:64], 0)).all()


def test_each_lane_copies_its_own_bytes() -> None:
    body = """
@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 1024;
mad.lo.u32 %r1, %t, 32, %tile; sub.u32 %r2, 31, %t; mad.wide.u32 %l1, %r2, 32, %x;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%l1], 32, [%bar];
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0;
@!%p1 bra wait;
cp.async.bulk.prefetch.L2.global [%x], %n;
"""
    out, x = run(body + stores(), 1024, 32)
    assert (out[:1024].reshape(32, 32) == x[:1024].reshape(32, 32)[::-1]).all()


@pytest.mark.parametrize(
    ("body", "count", "words"),
    [
        (loads(), 24, r"must be a multiple of 16 \(got 24\)"),
        (loads("%tile+8"), 16, "misaligned shared store of 16 bytes at address"),
        (loads(source="%x+8"), 16, "misaligned global load of 16 bytes"),
        (loads(), 1 << 19, "out of bounds shared store|out of bounds global load"),
        (loads("%tile+0x20000"), 16, "out of bounds shared store of 16 bytes at address 0x20000"),
        (stores(target="%out+0x4000000"), 64, "out of bounds global store"),
    ],
)
def test_copies_that_are_refused(body: str, count: int, words: str) -> None:
    with pytest.raises(KernelError, match=words) as caught:
        run(body, count)
    assert isinstance(caught.value, MemoryAccessError) or "multiple" in words


def test_copies_of_a_thread_arrive_at_an_mbarrier() -> None:
    body = """
@%first mbarrier.inval.shared.b64 [%bar];
@%first mbarrier.init.shared.b64 [%bar], 64;
bar.sync 0;
mad.lo.u32 %r1, %t, 4, %tile; mad.wide.u32 %l1, %t, 4, %x;
cp.async.ca.shared.global [%r1], [%l1], 4;
cp.async.mbarrier.arrive.shared.b64 [%bar];
cp.async.mbarrier.arrive.noinc.shared.b64 [%bar];
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0;
@!%p1 bra wait;
xor.b32 %r2, %t, 63; mad.lo.u32 %r2, %r2, 4, %tile; ld.shared.u32 %r3, [%r2];
mad.wide.u32 %l2, %t, 4, %out; st.global.u32 [%l2], %r3;
"""
    out, x = run(body, 0)
    assert (out[:256].view(np.uint32) == x[:256].view(np.uint32)[::-1]).all()
    assert not tw.check(kernel(body), 1, 64, (np.zeros(SIZE, np.uint8), x, np.uint32(0)))


def test_bytes_that_copies_move_are_counted() -> None:
    x = np.zeros(SIZE, np.uint8)
    arguments = (x.copy(), x, np.uint32(1040))
    seen = launch(kernel(loads() + stores()), 1, 64, arguments, instruments=[Coalescing()]).results["coalescing"]
    moved = [row for row in seen.rows if "bulk" in row.site.opcode]
    assert [(row.site.access, row.sectors) for row in moved] == [("load", 33), ("store", 33)]
