"""Stores and reductions that an mbarrier counts, those without a wait, and filling in bulk, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import KernelError, MemoryAccessError, PtxError
from tilewright.programs import Program
from tilewright.simt import launch

THREADS = 40
COUNTED = "mbarrier::complete_tx::bytes"
WAIT = "wait: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra wait;"
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"


def kernel(body: str, expected: int) -> Program:
    """%r0 is the thread's number, %to where its 16 bytes lie in the next block of the cluster, %there that's mbarrier.

    `own` and `bar` are the block's own; %any and %far are those two as generic addresses; %out and %x are its words.
    """
    return Program.from_ptx(f""".version 9.1
.target sm_100
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 x) {{
.reg .pred %p<4>, %first; .reg .b32 %r<20>, %rank, %to, %there, %bytes; .reg .b64 %l<12>, %out, %x, %any, %far;
.shared .align 16 .b8 own[{THREADS * 16}]; .shared .align 8 .b64 bar;
ld.param.u64 %out, [out]; ld.param.u64 %x, [x]; mov.u32 %r0, %tid.x; mov.u32 %rank, %cluster_ctarank;
mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, {THREADS}, %r0;
mad.wide.u32 %out, %r1, 16, %out; mad.wide.u32 %x, %r1, 16, %x;
mov.u32 %r2, %cluster_nctarank; add.u32 %r3, %rank, 1; rem.u32 %r3, %r3, %r2;
mapa.shared::cluster.u32 %to, own, %r3; mapa.shared::cluster.u32 %there, bar, %r3; mad.lo.u32 %to, %r0, 16, %to;
cvt.u64.u32 %any, %to; cvta.shared.u64 %any, %any; cvt.u64.u32 %far, %there; cvta.shared.u64 %far, %far;
setp.eq.u32 %first, %r0, 0;
mov.u32 %r4, own; mad.lo.u32 %r4, %r0, 16, %r4;
ld.global.v4.u32 {{%r5, %r6, %r7, %r8}}, [%x]; st.shared.v4.u32 [%r4], {{%r5, %r6, %r7, %r8}};
@%first mbarrier.init.shared.b64 [bar], 1;
@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], {expected * THREADS};
fence.mbarrier_init.release.cluster; {SYNC}
mov.b64 %l5, {{%r5, %r6}}; mov.b64 %l6, {{%r7, %r8}};
{body}
{SYNC}
ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r4]; st.global.v4.u32 [%out], {{%r5, %r6, %r7, %r8}};
ret;
}}
""")


def run(body: str, expected: int, x: np.ndarray, **options: Any) -> np.ndarray:
    """The blocks' memory at the end: as `x`, 16 bytes a thread."""
    out = np.zeros_like(x)
    launch(kernel(body, expected), x.nbytes // (16 * THREADS), THREADS, (out.reshape(-1), x.reshape(-1)), **options)
    return out


def given(blocks: int) -> np.ndarray:
    return np.random.default_rng(blocks).integers(1, 2**32, (blocks, THREADS, 4), np.uint32)


#: What a store writes of the four words, and its bytes.
STORES = {
    f"st.async.weak.shared::cluster.{COUNTED}.b32 [%to], %r8, [%there];": ([3], 4),
    f"st.async.{COUNTED}.f32 [%any+4], %r5, [%far];": ([None, 0], 4),
    f"st.async.cluster.shared::cluster.{COUNTED}.u64 [%to+8], %l5, [%there];": ([None, None, 0, 1], 8),
    f"st.async.shared::cluster.{COUNTED}.v2.s32 [%to], {{%r6, 77}}, [%there];": ([1, "77"], 8),
    f"st.async.weak.{COUNTED}.v2.b64 [%any], {{%l6, %l5}}, [%far];": ([2, 3, 0, 1], 16),
    f"st.async.weak.shared::cluster.{COUNTED}.v4.b32 [%to], {{%r8, %r7, %r6, %r5}}, [%there];": ([3, 2, 1, 0], 16),
}


@pytest.mark.parametrize("cluster", [None, 3])
@pytest.mark.parametrize("instruction", STORES, ids=lambda x: x.split(" ")[0])
def test_counted_stores(instruction: str, cluster: int | None) -> None:
    words, bytes_ = STORES[instruction]
    x = given(6)
    blocks, size = np.arange(6), cluster or 1
    before = x[blocks // size * size + (blocks - 1) % size]
    wanted = x.copy()
    for at, word in enumerate(words):
        if word is not None:
            wanted[..., at] = 77 if word == "77" else before[..., word]
    assert np.array_equal(run(instruction + WAIT, bytes_, x, cluster=cluster), wanted)


def test_only_executing_lanes_store_and_are_waited_for() -> None:
    body = f"setp.eq.u32 %p2, %r0, 7; @%p2 st.async.shared::cluster.{COUNTED}.b32 [%to], 5, [%there];"
    body += f"@!%p2 st.async.shared::cluster.{COUNTED}.b32 [%to], %r6, [%there];"
    x = given(1)
    wanted = x.copy()
    wanted[..., 0] = x[..., 1]
    wanted[0, 7, 0] = 5
    assert np.array_equal(run(body + WAIT, 4, x), wanted)


def wrapped(old: int, b: int, bits: int, signed: bool) -> tuple[int, int]:
    """Both as the type has them."""
    half = 1 << (bits - 1)
    return tuple((v + half) % (2 * half) - half if signed else v % (2 * half) for v in (old, b))  # type: ignore[return-value]


OPERATIONS = {
    "add": lambda old, b: old + b, "min": min, "max": max, "and": lambda old, b: old & b,
    "or": lambda old, b: old | b, "xor": lambda old, b: old ^ b,
    "inc": lambda old, b: 0 if old >= b else old + 1, "dec": lambda old, b: b if old == 0 or old > b else old - 1,
}  # fmt: skip
TYPES = {"add": "u32 s32 u64 s64", "min": "u32 s32", "max": "u32 s32", "inc": "u32", "dec": "u32"}
REDUCTIONS = [(op, type_) for op in OPERATIONS for type_ in TYPES.get(op, "b32").split()]


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("op", "type_"), REDUCTIONS)
def test_reductions(op: str, type_: str, counted: bool) -> None:
    """All threads of a warp combine with the first one's word, a lane after another."""
    bits, signed, warp = int(type_[1:]), type_[0] == "s", 32
    b = "%r5" if bits == 32 else "%l5"
    x = given(2)
    x[:, :2] = [[3, 0, 9, 9], [0, 0, 1, 1]]
    if counted:
        body = "and.b32 %r9, %r0, 31; mul.lo.u32 %r9, %r9, 16; sub.u32 %to, %to, %r9;"
        body += f"red.async.relaxed.cluster.shared::cluster.{COUNTED}.{op}.{type_} [%to+8], {b}, [%there];" + WAIT
        found = run(body, bits // 8, x, cluster=2)[::-1]
    else:
        body = "and.b32 %r9, %r0, 31; mul.wide.u32 %l9, %r9, 16; sub.u64 %l9, %x, %l9;"
        body += f"red.async.release.gpu.global.{op}.{type_} [%l9+8], {b};"
        found = x.copy()
        launch(kernel(body, 0), 2, THREADS, (np.zeros(x.size, np.uint32), found.reshape(-1)))
    words = np.ascontiguousarray(x).view(np.uint64 if bits == 64 else np.uint32)
    # by the counted form a block's words are combined with those of the other's threads
    starts = words[::-1] if counted else words
    for block in range(2):
        for first in range(0, THREADS, warp):
            total = int(starts[block, first, 8 * 8 // bits])
            for number in words[block, first : first + warp, 0]:
                old, new = wrapped(total, int(number), bits, signed)
                total = OPERATIONS[op](old, new)
            place = found[block, first].view(words.dtype)[8 * 8 // bits]
            assert int(place) == total % (1 << bits)


def test_stores_without_a_wait() -> None:
    body = """mov.b16 %h0, 0x1234; cvt.u8.u16 %b0, %h0;
st.async.release.sys.global.b8 [%x], %b0; st.async.mmio.release.sys.u16 [%x+2], %h0;
st.async.release.gpu.global.f32 [%x+4], %r8; st.async.release.gpu.b64 [%x+8], %l5;"""
    source = kernel(".reg .b16 %h0; .reg .b8 %b0;" + body, 0)
    x = given(2)
    found = x.copy()
    launch(source, 2, THREADS, (np.zeros(x.size, np.uint32), found.reshape(-1)))
    wanted = x.copy()
    wanted[..., 0] = x[..., 0] & 0xFF00 | 0x12340034
    wanted[..., 1:] = x[..., [3, 0, 1]]
    assert np.array_equal(found, wanted)


FILLED = 1024


def filling(instruction: str, threads: int = 64) -> np.ndarray:
    """Shared memory of so many bytes, which held 0xAA, after thread 5 has filled some of it."""
    out = np.zeros(FILLED, np.uint8)
    launch(fill_kernel(instruction), 1, threads, (out,))
    return out


def fill_kernel(instruction: str, after: str = "bar.sync 0;") -> Program:
    return Program.from_ptx(f""".version 9.1
.target sm_100
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %l<9>;
.shared .align 16 .b8 own[{FILLED}];
ld.param.u64 %l0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r2, own; mad.lo.u32 %r1, %r0, 16, %r2; mov.u32 %r3, 0xAAAAAAAA;
mov.u64 %l2, own; cvta.shared.u64 %l2, %l2; mov.u64 %l3, 136; mov.u32 %r4, 24;
st.shared.v4.u32 [%r1], {{%r3, %r3, %r3, %r3}};
bar.sync 0;
setp.eq.u32 %p0, %r0, 5; setp.eq.u32 %p1, %r0, 9;
{instruction}
{after}
ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r1]; mad.wide.u32 %l0, %r0, 16, %l0;
st.global.v4.u32 [%l0], {{%r4, %r5, %r6, %r7}};
ret;
}}
""")


@pytest.mark.parametrize(
    ("instruction", "ranges"),
    [("@%p0 st.bulk.weak.shared::cta [%r2+16], 1000, 0;", [(16, 1016)]),
     ("@%p0 st.bulk [%l2+8], %l3, 0;", [(8, 144)]), ("@%p0 st.bulk.weak [%l2], 0, 0;", []),
     ("@%p0 add.u32 %r2, %r2, 512; add.u32 %r4, %r4, 8; @%p0 st.bulk.shared::cta [%r2], %r4, 0; "
      "@%p1 st.bulk.shared::cta [%r2], %r4, 0;", [(512, 544), (0, 32)])],
)  # fmt: skip
def test_filling(instruction: str, ranges: list[tuple[int, int]]) -> None:
    wanted = np.full(FILLED, 0xAA, np.uint8)
    for start, end in ranges:
        wanted[start:end] = 0
    assert np.array_equal(filling(instruction), wanted)


def test_what_filling_refuses() -> None:
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        filling("@%p0 st.bulk.weak.shared::cta [%r2+16], 1016, 0;")
    with pytest.raises(MemoryAccessError, match="misaligned"):
        filling("@%p0 st.bulk.weak.shared::cta [%r2+4], 8, 0;")
    with pytest.raises(KernelError, match=r"multiple of 8 \(got 20\)"):
        filling("mov.u32 %r4, 20; @%p0 st.bulk.weak.shared::cta [%r2], %r4, 0;")
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        filling("mov.u64 %l3, 0x100000008; @%p0 st.bulk.weak.shared::cta [%r2], %l3, 0;")
    for wrong in "20, 0", "16777224, 0", "8, 1", "8, %r4":
        with pytest.raises(PtxError, match="fills"):
            filling(f"st.bulk.weak.shared::cta [%r2], {wrong};")


def test_a_store_outside_is_a_fault() -> None:
    for change, message in ("add.u32 %to, %to, 0x100000;", "out of bounds"), ("add.u32 %to, %to, 4;", "misaligned"):
        body = f"{change} st.async.shared::cluster.{COUNTED}.v2.b32 [%to], {{%r5, %r6}}, [%there];"
        for cluster in None, 2:
            with pytest.raises(MemoryAccessError, match=message):
                run(body + WAIT, 8, given(2), cluster=cluster)


def codes(program: Program, *arguments: Any, **options: Any) -> list[str]:
    return [finding.code for finding in tw.check(program, 1, 64, arguments, **options)]


def test_filling_is_ordered_by_barriers() -> None:
    fill = "@%p0 st.bulk.weak.shared::cta [%r2], 1024, 0;"
    out = np.zeros(FILLED, np.uint8)
    assert codes(fill_kernel(fill), out) == []
    assert codes(fill_kernel(fill, ""), out) == ["TW306"]


def test_what_is_read_before_its_mbarrier_was_waited_for() -> None:
    x = given(1)

    def found(body: str) -> list[str]:
        arguments = (np.zeros_like(x).reshape(-1), x.reshape(-1))
        return [finding.code for finding in tw.check(kernel(body, 4), 1, THREADS, arguments)]

    store = f"st.async.shared::cluster.{COUNTED}.b32 [%to], %r5, [%there];"
    combine = f"red.async.relaxed.cluster.shared::cluster.{COUNTED}.add.u32 [%to], %r5, [%there];"
    read = "ld.shared.u32 %r9, [%r4]; st.global.u32 [%out], %r9;"
    assert found(store + WAIT + read) == []
    assert found(store + read + WAIT) == ["TW306"]
    assert found(combine + WAIT + read) == []
