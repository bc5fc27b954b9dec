"""State spaces, widths, vectors and addresses, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run, words

from tilewright.programs import Program
from tilewright.simt import launch

TYPES = ["u8", "s8", "b8", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"]
REGISTER = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}
#: Places of a thread's element, in each shape that the translator distinguishes.
INDEX = {
    "own": ("mov.u32 %r60, %tid;", lambda t: t),
    "reversed": ("sub.u32 %r60, 63, %tid;", lambda t: 63 - t),
    "strided": ("mul.lo.u32 %r60, %tid, 5;", lambda t: 5 * t),
    "same": ("mov.u32 %r60, 11;", lambda t: 11),
    "by halves": ("shr.u32 %r60, %tid, 4;", lambda t: t // 16),
    "any": ("mul.lo.u32 %r60, %tid, 37; and.b32 %r60, %r60, 63; xor.b32 %r60, %r60, 9;", lambda t: (t * 37 & 63) ^ 9),
}


def bytes_of(count: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, count, np.uint8)


def register(type_: str) -> str:
    return {"f32": "%f", "f64": "%e"}.get(type_) or REGISTER[int(type_[1:])]


def load_text(type_: str, space: str, number: int) -> str:
    """A thread's element of a type, from its own part of each array, which %d51, %d52 and %d53 point to."""
    size = int(type_[1:]) // 8
    target = register(type_) + "41"
    # an integer is widened where the register is wider than the type
    widened = "%d45" if type_[0] != "f" else target
    load = {
        "global": f"ld.global.{type_} {target}, [%d1];",
        "generic": f"cvta.global.u64 %d9, %d1; ld.{type_} {target}, [%d9];",
        "shared": f"""bar.sync 0; mov.u32 %r62, %tid; COPY{number}: mad.wide.u32 %d7, %r62, 1, %d51;
            ld.global.u8 %h9, [%d7]; mov.u32 %r63, s; add.u32 %r63, %r63, %r62; st.shared.u8 [%r63], %h9;
            add.u32 %r62, %r62, 64; setp.lt.u32 %p1, %r62, {320 * size}; @%p1 bra COPY{number}; bar.sync 0;
            mov.u32 %r63, s; mad.lo.u32 %r63, %r60, {size}, %r63; ld.shared.{type_} {target}, [%r63];""",
    }[space]
    return f"""mad.wide.u32 %d1, %r60, {size}, %d51; {load}
        ld.global.{type_} {widened}, [%d1];
        mad.wide.u32 %d2, %tid, {size}, %d52; st.global.{type_} [%d2], {target};
        mad.wide.u32 %d3, %tid, 8, %d53; {f"st.global.u64 [%d3], {widened};" if type_[0] != "f" else ""}
        add.u64 %d51, %d51, {320 * size}; add.u64 %d52, %d52, {64 * size}; add.u64 %d53, %d53, 512;"""


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_loads_of_every_width_space_and_shape(space, index):
    """Of each type: loaded, copied by a store of the same type, and widened to 64 bits by the load's own rule."""
    code, at = INDEX[index]
    sizes = [int(type_[1:]) // 8 for type_ in TYPES]
    data, out, wide = bytes_of(320 * sum(sizes)), np.zeros(64 * sum(sizes), np.uint8), np.zeros((len(TYPES), 64), "u8")
    parts = [load_text(type_, space, number) for number, type_ in enumerate(TYPES)]
    program = kernel(
        "\n".join(["mov.u64 %d51, %a1; mov.u64 %d52, %out; mov.u64 %d53, %a2;", code, *parts]), 3,
        declarations=".shared .align 16 .b8 s[2560];",
    )  # fmt: skip
    run(program, out, data, wide, block=64)
    ends = np.cumsum(sizes)
    for type_, size, end, widened in zip(TYPES, sizes, ends, wide, strict=True):
        elements = data[320 * (end - size) : 320 * end].view(f"u{size}")
        picked = np.array([elements[at(t)] for t in range(64)])
        assert out[64 * (end - size) : 64 * end].view(f"u{size}").tolist() == picked.tolist(), type_
        if type_[0] != "f":
            signed = picked.view(f"i{size}").astype(np.int64).view(np.uint64)
            assert widened.tolist() == (signed if type_[0] == "s" else picked).tolist(), type_


VECTORS = ["v2.u8", "v4.u8", "v2.b16", "v4.u16", "v2.u32", "v4.u32", "v2.f32", "v2.u64"]


def vector_text(vector: str, space: str) -> str:
    """A thread's vector, stored in reverse; %d51 and %d52 point to the source's and the target's part."""
    count, type_ = int(vector[1]), vector[3:]
    whole = int(type_[1:]) // 8 * count
    names = [f"{register(type_)}{i}" for i in range(41, count + 41)]
    back = names[::-1]
    through = (
        f"st.global.{vector} [%d2], {{{', '.join(back)}}};"
        if space == "global"
        else f"""mov.u32 %r63, s; mad.lo.u32 %r63, %tid, {whole}, %r63;
        st.shared.{vector} [%r63], {{{", ".join(back)}}};
        ld.shared.{vector} {{{", ".join(names)}}}, [%r63]; st.global.{vector} [%d2], {{{", ".join(names)}}};"""
    )
    return f"""mad.wide.u32 %d1, %r60, {whole}, %d51; mad.wide.u32 %d2, %tid, {whole}, %d52;
        ld.global.{vector} {{{", ".join(names)}}}, [%d1]; {through} bar.sync 0;
        add.u64 %d51, %d51, {320 * whole}; add.u64 %d52, %d52, {64 * whole};"""


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_vectors(space, index):
    code, at = INDEX[index]
    counts = [int(vector[1]) for vector in VECTORS]
    sizes = [int(vector[4:]) // 8 for vector in VECTORS]
    wholes = [size * count for size, count in zip(sizes, counts, strict=True)]
    data, out = bytes_of(320 * sum(wholes)), np.zeros(64 * sum(wholes), np.uint8)
    parts = [vector_text(vector, space) for vector in VECTORS]
    program = kernel(
        "\n".join(["mov.u64 %d51, %a1; mov.u64 %d52, %out;", code, *parts]), 2,
        declarations=".shared .align 16 .b8 s[2048];",
    )  # fmt: skip
    run(program, out, data, block=64)
    for vector, size, count, whole, end in zip(VECTORS, sizes, counts, wholes, np.cumsum(wholes), strict=True):
        elements = data[320 * (end - whole) : 320 * end].view(f"u{size}").reshape(-1, count)
        wanted = [elements[at(t)][::-1].tolist() for t in range(64)]
        assert out[64 * (end - whole) : 64 * end].view(f"u{size}").reshape(64, count).tolist() == wanted, vector


def test_stores_of_parts_leave_neighbours_alone():
    out = np.full(256, 0xEE, np.uint8)
    program = kernel(
        "mul.lo.u32 %r1, %tid, 4; cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, %out; st.global.u8 [%d1+1], %r1;"
    )
    run(program, out, block=64)
    wanted = np.full(256, 0xEE, np.uint8)
    wanted[1::4] = np.arange(64) * 4
    assert out.tolist() == wanted.tolist()


def test_the_last_active_lane_that_stores_to_a_place_determines_it():
    got = words("setp.lt.u32 %p1, %tid, 20; @%p1 st.global.u32 [%out], %tid; st.global.u32 [%out+4], 77;", 2)
    assert 0 <= got[0] < 20
    assert got[1] == 77


@pytest.mark.parametrize("generic", [False, True], ids=["local", "generic"])
def test_local_arrays_with_dynamic_index(generic):
    """Every thread has its own array, in its own order."""
    prefix = "cvta.local.u64 %d1, %d1;" if generic else ""
    space = "" if generic else ".local"
    got = words(
        f"""mov.u64 %d1, array; {prefix} mov.u32 %r1, 0;
        FILL: add.u32 %r2, %r1, %tid; rem.u32 %r2, %r2, 13; mad.wide.u32 %d2, %r2, 4, %d1;
        mad.lo.u32 %r3, %r1, 100, %tid; st{space}.u32 [%d2], %r3; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 13;
        @%p1 bra FILL;
        and.b32 %r4, %tid, 7; mad.wide.u32 %d3, %r4, 4, %d1; ld{space}.u32 %r5, [%d3]; ld{space}.u32 %r6, [%d1+48];
        ld.local.u32 %r7, [array+16]; add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7; st.global.u32 [%at], %r5;""",
        80,
        block=80,
        declarations=".local .align 8 .b8 array[52];",
    )

    def one(t):
        array = [0] * 13
        for i in range(13):
            array[(i + t) % 13] = 100 * i + t
        return array[t & 7] + array[12] + array[4]

    assert got.tolist() == [one(t) for t in range(80)]


def test_two_local_variables_and_a_vector_access():
    got = words(
        """st.local.v4.u32 [b], {%tid, %lane, %gid, %block}; mov.u64 %d1, a; mul.lo.u32 %r9, %tid, 3;
        st.local.u64 [%d1], %out; st.local.u32 [a+8], %r9; ld.local.v2.u32 {%r1, %r2}, [b+8]; ld.local.u32 %r3, [%d1+8];
        ld.local.u64 %d2, [a]; sub.u64 %d2, %at, %d2; cvt.u32.u64 %r4, %d2;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; st.global.u32 [%at], %r1;""",
        96,
        grid=2,
        block=48,
        declarations=".local .align 8 .b8 a[12]; .local .align 16 .b8 b[16];",
    )
    assert got.tolist() == [g + g // 48 + 3 * (g % 48) + 4 * g for g in range(96)]


def test_static_and_dynamic_shared_memory():
    """Two static arrays, and after them a dynamic one that two names share."""
    got = words(
        """mov.u32 %r1, dyn; mad.lo.u32 %r2, %tid, 4, %r1; mov.u32 %r3, a; mad.lo.u32 %r4, %tid, 4, %r3;
        mov.u32 %r5, b; mad.lo.u32 %r6, %tid, 4, %r5; add.u32 %r7, %tid, 1000; add.u32 %r8, %tid, 2000;
        st.shared.u32 [%r2], %tid; st.shared.u32 [%r4], %r7; st.shared.u32 [%r6], %r8; bar.sync 0;
        xor.b32 %r9, %tid, 63; mad.lo.u32 %r10, %r9, 4, %r1; ld.shared.u32 %r11, [%r10]; mad.lo.u32 %r10, %r9, 4, %r3;
        ld.shared.u32 %r12, [%r10]; mad.lo.u32 %r10, %r9, 4, %r5; ld.shared.u32 %r13, [%r10];
        mov.u32 %r14, dyn2; sub.u32 %r14, %r14, %r1; ld.shared.u32 %r15, [dyn2+8];
        mad.lo.u32 %r11, %r12, 10000, %r11; mad.lo.u32 %r11, %r14, 7, %r11; add.u32 %r11, %r11, %r13;
        add.u32 %r11, %r11, %r15; mov.u32 %r16, %dynamic_smem_size; add.u32 %r11, %r11, %r16;
        st.global.u32 [%at], %r11;""",
        64,
        block=64,
        shared_bytes=256,
        module=".extern .shared .align 16 .b8 dyn[]; .extern .shared .align 16 .b8 dyn2[];",
        declarations=".shared .align 4 .b8 a[256]; .shared .align 4 .u32 b[64];",
    )
    wanted = [(1000 + (t ^ 63)) * 10000 + (t ^ 63) + 2000 + (t ^ 63) + 2 + 256 for t in range(64)]
    assert got.tolist() == wanted


def test_dynamic_shared_memory_begins_where_its_declaration_wants():
    """The vendor's assembler puts it at 1024, after 60 static bytes."""
    got = words(
        """mov.u32 %r1, dyn; mov.u32 %r2, a; sub.u32 %r3, %r1, %r2; st.shared.u32 [%r1+252], %r3;
        ld.shared.u32 %r4, [dyn+252]; st.global.u32 [%at], %r4;""",
        1, block=1, shared_bytes=256,
        module=".extern .shared .align 1024 .b8 dyn[];", declarations=".shared .align 4 .b8 a[60];",
    )  # fmt: skip
    assert got.tolist() == [1024]


def test_shared_memory_belongs_to_one_block_and_does_not_survive_it():
    got = words(
        """setp.ne.u32 %p1, %tid, 0; @%p1 bra W; ld.shared.u32 %r1, [s]; add.u32 %r2, %block, 5; st.shared.u32 [s], %r2;
        W: bar.sync 0; ld.shared.u32 %r3, [s]; setp.eq.u32 %p2, %r1, 5; @%p2 mov.u32 %r3, 999999;
        st.global.u32 [%at], %r3;""",
        40 * 33,
        grid=40,
        block=33,
        declarations=".shared .u32 s;",
    )
    assert got.tolist() == [b + 5 for b in range(40) for _ in range(33)]


MODULE = """.global .align 4 .u32 counter = 5;
.global .align 8 .u64 table[3] = {values, values+8, generic(letters)};
.const .align 4 .u32 primes[8] = {2, 3, 5, 7, 11, 13};
.global .align 2 .u16 values[6] = {100, 200, 300, 400, 500, 65535};
.global .align 1 .b8 letters[4] = {72, 105, 33, 0};
.global .align 4 .f32 ratio = 0f3FC00000;
.global .align 4 .b8 untouched[8];"""


def test_constants_and_module_variables_with_initialisers():
    got = words(
        """and.b32 %r1, %tid, 7; mov.u64 %d1, primes; mad.wide.u32 %d1, %r1, 4, %d1; ld.const.u32 %r2, [%d1];
        ld.const.u32 %r3, [primes+16]; ld.global.u64 %d2, [table+8]; ld.global.u16 %h1, [%d2]; cvt.u32.u16 %r4, %h1;
        ld.global.u64 %d3, [table]; ld.global.u16 %h2, [%d3+10]; cvt.u32.u16 %r5, %h2; ld.global.u64 %d4, [table+16];
        ld.u8 %h3, [%d4+1]; cvt.u32.u16 %r6, %h3; ld.global.f32 %f1, [ratio]; add.f32 %f1, %f1, %f1;
        cvt.rni.u32.f32 %r7, %f1; ld.global.u32 %r8, [untouched+4]; ld.global.u32 %r9, [counter];
        add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; add.u32 %r2, %r2, %r5; add.u32 %r2, %r2, %r6;
        add.u32 %r2, %r2, %r7; add.u32 %r2, %r2, %r8; add.u32 %r2, %r2, %r9; st.global.u32 [%at], %r2;""",
        32,
        module=MODULE,
    )
    primes = [2, 3, 5, 7, 11, 13, 0, 0]
    assert got.tolist() == [primes[t & 7] + 11 + 500 + 65535 + 105 + 3 + 0 + 5 for t in range(32)]


def test_module_variables_are_initialised_in_each_launch():
    program = kernel("atom.global.add.u32 %r1, [counter], 1; st.global.u32 [%at], %r1;", module=MODULE)
    for _ in range(2):
        out = np.zeros(32, np.uint32)
        run(program, out)
        assert sorted(out.tolist()) == list(range(5, 37))


def test_generic_addresses_and_isspacep():
    """One instruction accesses three spaces together; isspacep tells them apart."""
    got = words(
        """mov.u64 %d1, g; cvta.global.u64 %d1, %d1; mov.u64 %d2, s; cvta.shared.u64 %d2, %d2; mov.u64 %d3, l;
        cvta.local.u64 %d3, %d3; add.u32 %r9, %tid, 30; st.shared.u32 [s], 20; st.local.u32 [l], %r9; bar.sync 0;
        rem.u32 %r1, %tid, 3; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r1, 2; selp.b64 %d4, %d2, %d1, %p1;
        selp.b64 %d4, %d3, %d4, %p2; ld.u32 %r2, [%d4]; isspacep.global %p3, %d4; isspacep.shared %p4, %d4;
        isspacep.local %p5, %d4; @%p3 add.u32 %r2, %r2, 1000; @%p4 add.u32 %r2, %r2, 2000; @%p5 add.u32 %r2, %r2, 3000;
        cvta.to.shared.u64 %d5, %d2; mov.u64 %d6, s; setp.eq.u64 %p6, %d5, %d6; @%p6 add.u32 %r2, %r2, 10000;
        cvta.to.local.u64 %d7, %d3; ld.local.u32 %r3, [%d7]; add.u32 %r2, %r2, %r3; st.global.u32 [%at], %r2;""",
        64,
        block=64,
        module=".global .u32 g = 10;",
        declarations=".shared .u32 s; .local .u32 l;",
    )
    assert got.tolist() == [[1010, 2020, 3030 + t][t % 3] + 10000 + 30 + t for t in range(64)]


def test_generic_stores_and_atomics_by_space():
    got = words(
        """mov.u64 %d2, s; cvta.shared.u64 %d2, %d2; and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 0;
        setp.eq.u32 %p3, %tid, 0; @%p3 st.shared.u32 [s], 0; bar.sync 0; selp.b64 %d4, %d2, %out, %p1;
        atom.add.u32 %r2, [%d4], %tid; bar.sync 0; setp.ne.u32 %p2, %tid, 5; @%p2 exit; ld.shared.u32 %r3, [s];
        st.global.u32 [%out+4], %r3;""",
        2,
        block=64,
        declarations=".shared .u32 s;",
    )
    assert got.tolist() == [sum(range(1, 64, 2)), sum(range(0, 64, 2))]


def test_parameters_by_name_by_address_and_of_every_width():
    program = Program.from_ptx(
        """.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u8 a, .param .s16 b, .param .u32 c, .param .f64 d,
                  .param .align 8 .b8 e[24], .param .f32 f) {
.reg .b16 %h<9>; .reg .b32 %r<19>; .reg .b64 %d<19>; .reg .f32 %f<9>; .reg .f64 %e<9>;
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 8, %d1;
ld.param.u8 %h1, [a]; ld.param.s16 %r2, [b]; ld.param.u32 %r3, [c]; ld.param.f64 %e1, [d]; ld.param.f32 %f1, [f];
ld.param.v2.u32 {%r4, %r5}, [e+8]; mov.b64 %d3, e; and.b32 %r6, %r1, 1; mad.wide.u32 %d3, %r6, 16, %d3;
ld.param.u64 %d4, [%d3]; cvt.u32.u16 %r7, %h1; add.s32 %r7, %r7, %r2; add.s32 %r7, %r7, %r3; add.s32 %r7, %r7, %r4;
add.s32 %r7, %r7, %r5; cvt.f64.f32 %e2, %f1; add.f64 %e1, %e1, %e2; cvt.rni.s64.f64 %d5, %e1;
cvt.s64.s32 %d6, %r7; add.s64 %d5, %d5, %d6; add.s64 %d5, %d5, %d4; st.global.u64 [%d2], %d5; ret; }"""
    )
    out = np.zeros(32, np.int64)
    packed = np.array([1 << 40, 3 | 4 << 32, 2 << 40], np.uint64)
    launch(
        program, 1, 32, (out, np.uint8(200), np.int16(-3000), np.uint32(50000), 2.5, packed.tobytes(), np.float32(1.5))
    )
    assert out.tolist() == [200 - 3000 + 50000 + 7 + 4 + (1 << 40 if t % 2 == 0 else 2 << 40) for t in range(32)]


def test_a_cache_hint_brings_an_operand_that_changes_nothing():
    got = words(
        """mov.b64 %d2, 0; ld.global.L2::cache_hint.v2.u32 {%r1, %r2}, [%out+8], %d2; add.u32 %r2, %r2, 1;
        st.global.L2::cache_hint.v2.u32 [%out], {%r2, %r1}, %d2;""",
        4,
        fill=7,
    )
    assert got.tolist() == [8, 7, 7, 7]
