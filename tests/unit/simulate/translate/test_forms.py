"""Forms of loads, stores and comparisons by shape, mask and host: their text, and their results."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emitted_text import HOSTS, NARROW, WIDE, calls, emitted
from narrow_hosts import use_host
from ptx_kernels import kernel, run

from tilewright.errors import KernelError
from tilewright.instruments import Coalescing
from tilewright.observe.instruments.touched import Touched
from tilewright.simt import Memory
from tilewright.simulate.state import GLOBAL_BASE

STORE = "mad.wide.u32 %d1, %r30, 4, %out; st.global.u32 [%d1], %r30;"


@pytest.mark.parametrize("host", [WIDE, NARROW], ids=["mask registers", "none"])
def test_a_full_warp_stores_without_a_mask(host):
    text = emitted(STORE, host=host)
    assert calls(text, "store") == 0
    assert "store <32 x i32>" in text


def test_a_part_of_a_warp_stores_under_its_mask():
    """Threads that are no multiple of 32, and lanes of a branch."""
    for threads in (20, 40, 100):
        text = emitted(STORE, (threads, 1, 1))
        assert (calls(text, "store"), calls(text, "scatter")) == (1, 0)
    branch = f"setp.lt.u32 %p1, %r30, 7; @!%p1 bra OUT; {STORE} OUT: "
    assert calls(emitted(branch), "store") == 1
    again = f"setp.lt.u32 %p1, %r30, 7; @!%p1 bra OUT; add.u32 %r1, %r30, 1; OUT: {STORE}"
    assert calls(emitted(again), "store") == 0  # all lanes have reconverged
    left = f"setp.lt.u32 %p1, %r30, 7; @!%p1 exit; {STORE}"
    assert calls(emitted(left), "store") == 1  # and here they never do


def test_without_mask_registers_the_run_tests_whether_all_lanes_are_active():
    branch = f"setp.lt.u32 %p1, %r30, 7; @!%p1 bra OUT; {STORE} OUT: "
    text = emitted(branch, host=NARROW)
    full = text.index("store <32 x i32>", text.index("\nall"))
    assert text.index("\nall") < full < text.index("\nsome") < text.index("call void @llvm.masked.store")


def test_no_mask_is_made_of_bits_by_a_cast_where_hosts_have_no_registers_for_it():
    body = "setp.lt.u32 %p1, %r30, 7; @!%p1 bra OUT; ld.global.u32 %r1, [%d30]; OUT: st.global.u32 [%d30], %r1;"
    assert re.search(r"bitcast i32 %\w+ to <32 x i1>", emitted(body))
    assert not re.search(r"bitcast i32 %\w+ to <32 x i1>", emitted(body, host=NARROW))


def test_rows_of_constant_pitch_are_stored_one_by_one():
    tile = "mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mad.lo.u32 %r4, %r3, 4096, %r2;"
    text = emitted(f"{tile} mad.wide.u32 %d1, %r4, 4, %out; st.global.u32 [%d1], %r2;", (16, 16, 1))
    assert calls(text, "scatter") == 0
    assert text.count("store <16 x i32>") == 2


@pytest.mark.parametrize("relation", ["lt.s64", "ge.s64", "eq.b64", "lt.u32", "ne.s32"])
def test_indices_are_compared_in_bytes(relation):
    bits = relation[-2:]
    load = f"ld.global.u{bits} %{'d' if bits == '64' else 'r'}9, [%out];"
    index = "cvt.u64.u32 %d1, %r30; " if bits == "64" else "mov.u32 %r1, %r30; "
    operands = "%d1, %d9" if bits == "64" else "%r1, %r9"
    if relation == "lt.u32":
        load = (
            load.replace("%r9", "%r8") + "and.b32 %r9, %r8, 0xffff;"
        )  # an unsigned limit must be known to be no negative number
    text = emitted(
        f"{load} {index} setp.{relation} %p1, {operands}; selp.u32 %r2, 1, 2, %p1; st.global.u32 [%d30], %r2;"
    )
    assert re.search(r"icmp \w+ <32 x i8>", text)
    assert not re.search(rf"icmp \w+ <32 x i{bits}>", text)


def test_rows_of_a_stride_that_only_the_run_knows_are_loaded_whole():
    body = """ld.global.u32 %r9, [%a1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
        cvt.u64.u32 %d1, %r2; cvt.u64.u32 %d2, %r9;
        mul.lo.s64 %d3, %d1, %d2; cvt.u64.u32 %d4, %r1; add.s64 %d5, %d3, %d4; shl.b64 %d6, %d5, 2;
        add.s64 %d7, %a1, %d6; ld.global.u32 %r3, [%d7]; st.global.u32 [%d30], %r3;"""
    text = emitted(body, (16, 16, 1))
    rows = text[text.index("\nfast") : text.index("\nlanes")]
    assert rows.count("load <32 x i32>") == 2
    assert calls(text, "gather") == 1  # if lanes are out of bounds


# -- what they compute, in every host's form ---------------------------------------------------------------------------

#: Rows of `a` by a stride of the launch: in 32 or 64 bits, the element's index or its address. Registers are written
#: once, because each has one shape.
INDEX = {
    "32 bits": "mad.lo.s32 %r5, %r2, %r9, %r1; mul.wide.s32 %d2, %r5, 4; add.s64 %d1, %a1, %d2;",
    "64 bits": "cvt.s64.s32 %d2, %r9; cvt.u64.u32 %d3, %r2; cvt.u64.u32 %d4, %r1; mad.lo.s64 %d5, %d3, %d2, %d4; "
    "shl.b64 %d6, %d5, 2; add.s64 %d1, %a1, %d6;",
    "a row's address": "cvt.s64.s32 %d2, %r9; shl.b64 %d3, %d2, 2; cvt.u64.u32 %d4, %r2; mul.lo.s64 %d5, %d4, %d3; "
    "add.s64 %d6, %d5, %a1; mad.wide.u32 %d1, %r1, 4, %d6;",
}
SPACES = {"global": ".global", "generic": ""}
COPY = """ld.global.s32 %r9, [%a2]; ld.global.s32 %r8, [%a2+4]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
    setp.ge.s32 %p1, %tid, %r8; mov.u32 %r3, 7; @%p1 bra JOIN; {index} ld{space}.u32 %r3, [%d1]; add.u32 %r4, %r3, 1;
    st{space}.u32 [%d1], %r4; JOIN: st.global.u32 [%at], %r3;"""


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("block", [(16, 4), (8, 8), (4, 8), (32, 2), (20, 3)], ids=str)
def test_rows_of_any_stride_under_any_mask(monkeypatch, host, space, index, block):
    use_host(monkeypatch.setattr, host)
    x, y = block
    program = kernel(COPY.format(index=INDEX[index], space=SPACES[space]), 3)
    for stride in (x, x + 3, 1, 0, 1000):
        for limit in (x * y, x * y - 1, 37, 1, 0, -5):
            a = np.arange(100, 100 + 1000 * y + x, dtype=np.uint32)
            if stride < x and limit > 1:
                continue  # threads would write the same places
            wanted_a, wanted = a.copy(), np.full(x * y, 7, np.uint32)
            for thread in range(min(limit, x * y)):
                at = thread // x * stride + thread % x
                wanted[thread] = wanted_a[at]
                wanted_a[at] += 1
            out = np.zeros(x * y, np.uint32)
            run(program, out, a, np.array([stride, limit], np.int32), block=(x, y, 1))
            assert out.tolist() == wanted.tolist(), (stride, limit)
            assert a.tolist() == wanted_a.tolist(), (stride, limit)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("space", SPACES)
def test_inactive_lanes_may_be_out_of_bounds_in_rows(monkeypatch, host, space):
    """Only the first row exists; only its lanes load and store."""
    use_host(monkeypatch.setattr, host)
    a = np.arange(16, dtype=np.uint32)
    out = np.zeros(256, np.uint32)
    run(
        kernel(COPY.format(index=INDEX["64 bits"], space=SPACES[space]), 3),
        out,
        a,
        np.array([1 << 28, 16], np.int32),
        block=(16, 16, 1),
    )
    assert out.tolist() == [*range(16), *[7] * 240]
    assert a.tolist() == list(range(1, 17))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("block", [(16, 4), (8, 8), (32, 2), (20, 3)], ids=str)
def test_instruments_get_each_lane_that_is_moved_in_rows(space, index, block):
    x, y = block
    program = kernel(COPY.format(index=INDEX[index], space=SPACES[space]), 3)
    for stride, limit in ((x, x * y), (x + 3, x * y - 1), (1000, 37), (1000, 1), (0, 1), (1 << 28, min(x, 5))):
        memory = Memory()
        a = memory.array(np.zeros(1000 * y + x, np.uint32))
        facts = memory.array(np.array([stride, limit], np.int32))
        watching = [Touched(), Coalescing()]
        done = run(program, memory.empty(x * y, np.uint32), a, facts, block=(x, y, 1), instruments=watching)
        touched = done.results["touched"]
        places = [thread // x * stride + thread % x for thread in range(limit)]
        for bytes_ in (touched.read, touched.written):
            assert np.flatnonzero(touched.of(bytes_, a.address, a.shape, a.strides)).tolist() == sorted(set(places))
        loads = [row for row in done.results["coalescing"].rows if row.site.opcode == f"ld{SPACES[space]}.u32"]
        assert [row.lanes for row in loads] == [limit]  # each access is one site, reported once


#: The space is known at run time only: 0 is the array, 1 shared and 2 local memory, 3 what the array holds.
ANYWHERE = """.shared .align 16 .b32 tile[64]; .local .align 16 .b32 own[64];"""
OF_ANY_SPACE = """mov.u64 %d2, tile; cvta.shared.u64 %d2, %d2; mov.u64 %d3, own; cvta.local.u64 %d3, %d3;
    ld.global.u32 %r9, [%a2]; ld.global.u64 %d4, [%a2+8];
    setp.eq.u32 %p1, %r9, 1; setp.eq.u32 %p2, %r9, 2; setp.eq.u32 %p3, %r9, 3; mov.u64 %d1, %a1;
    selp.b64 %d1, %d2, %d1, %p1; selp.b64 %d1, %d3, %d1, %p2; selp.b64 %d1, %d4, %d1, %p3;
    mad.wide.u32 %d5, %tid, 4, %d1; add.u32 %r1, %tid, 100; st.u32 [%d5], %r1; bar.sync 0;
    ld.u32 %r2, [%d5]; st.global.u32 [%at], %r2;"""


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("space", [0, 1, 2])
def test_generic_addresses_whose_space_the_run_knows(monkeypatch, host, space):
    use_host(monkeypatch.setattr, host)
    out, a, which = np.zeros(32, np.uint32), np.zeros(32, np.uint32), np.array([space, 0], np.uint64)
    run(kernel(OF_ANY_SPACE, 3, declarations=ANYWHERE), out, a, which, block=(32, 1, 1))
    assert out.tolist() == [*range(100, 132)]
    assert a.tolist() == (out.tolist() if space == 0 else [0] * 32)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("base", [0, 8, (1 << 32) - 4, 1 << 62, "0 inside", "1 inside", "31 inside"], ids=str)
def test_generic_addresses_outside_memory_are_an_error(monkeypatch, host, base):
    """All of a warp's lanes are outside, or those after the last byte that the memory can have."""
    use_host(monkeypatch.setattr, host)
    memory = Memory(1 << 16)
    if isinstance(base, str):
        base = GLOBAL_BASE + memory.capacity_bytes - 4 * int(base.split()[0])
    out, which = memory.array(np.zeros(32, np.uint32)), memory.array(np.array([3, base], np.uint64))
    with pytest.raises(KernelError, match="outside"):
        run(kernel(OF_ANY_SPACE, 3, declarations=ANYWHERE), out, out, which, block=(32, 1, 1))
    assert out.to_host().tolist() == [0] * 32


def test_instruments_get_no_rows_with_a_lane_out_of_bounds():
    memory = Memory()
    a, facts = memory.array(np.zeros(64, np.uint32)), memory.array(np.array([1 << 28, 17], np.int32))
    program = kernel(COPY.format(index=INDEX["64 bits"], space=".global"), 3)
    with pytest.raises(KernelError) as caught:
        run(program, memory.empty(256, np.uint32), a, facts, block=(16, 16, 1), instruments=[Touched()])
    assert caught.value.thread == (0, 1, 0)
    touched = caught.value.results["touched"]
    assert not touched.of(touched.read, a.address, a.shape, a.strides).any()


RELATIONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("type_", ["s32", "s64", "u32", "u64"])
def test_comparisons_of_indices_with_any_limit(monkeypatch, host, type_):
    use_host(monkeypatch.setattr, host)
    bits = int(type_[1:])
    top = 1 << (bits - 1)
    limits = [0, 1, 5, 31, 32, 39, 40, 41, 127, 128, 300, -1, -2, -40, top - 1, -top, top - 40, -top + 40]
    letter = "r" if bits == 32 else "d"
    body = (
        f"ld.global.b{bits} %{letter}9, [%a1]; mov.u32 %r30, %tid.x; cvt.{type_}.u32 %{letter}1, %r30; mov.u32 %r3, 0;"
    )
    if bits == 32:
        body = body.replace("cvt.s32.u32", "mov.b32").replace("cvt.u32.u32", "mov.b32")
    for bit, name in enumerate(RELATIONS):
        body += f"setp.{name}.{type_} %p1, %{letter}1, %{letter}9; @%p1 or.b32 %r3, %r3, {1 << bit};"
        body += f"setp.{name}.{type_} %p2, %{letter}9, %{letter}1; @%p2 or.b32 %r3, %r3, {64 << bit};"
    program = kernel(body + "st.global.u32 [%at], %r3;", 2)
    dtype = np.dtype(f"{'int' if type_[0] == 's' else 'uint'}{bits}")
    index = np.arange(40).astype(dtype)
    for limit in limits:
        number = np.array([limit % (1 << bits)], f"uint{bits}").view(dtype)
        wanted = np.zeros(40, np.uint32)
        for bit, relation in enumerate(RELATIONS.values()):
            wanted |= relation(index, number).astype(np.uint32) << np.uint32(bit)
            wanted |= relation(number, index).astype(np.uint32) << np.uint32(bit + 6)
        out = np.zeros(40, np.uint32)
        run(program, out, number.view(f"uint{bits}"), block=40)
        assert out.tolist() == wanted.tolist(), limit


@pytest.mark.parametrize("limit", ["half", "all"])
@pytest.mark.parametrize("type_", ["u32", "u64"])
def test_an_index_is_below_a_literal_past_the_signed_numbers(type_, limit):
    bits = int(type_[1:])
    literal = {"half": 1 << (bits - 1), "all": (1 << bits) - 2}[limit]
    letter = "r" if bits == 32 else "d"
    make = "mov.b32 %r9, %tid;" if bits == 32 else "cvt.u64.u32 %d9, %tid;"
    body = f"""{make} setp.lt.u32 %p1, %tid, 12; setp.lt.and.{type_} %p2, %{letter}9, {literal}, %p1;
        selp.u32 %r1, 1, 0, %p2; set.gt.u32.{type_} %r2, %{letter}9, {literal}; mad.lo.u32 %r1, %r2, 2, %r1;
        st.global.u32 [%at], %r1;"""
    out = np.zeros(32, np.uint32)
    run(kernel(body), out)
    assert out.tolist() == [1] * 12 + [0] * 20
