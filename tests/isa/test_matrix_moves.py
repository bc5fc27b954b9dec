"""Matrices between memory and registers: against the manual's figures, read lane by lane and byte by byte."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program
from tilewright.simt import launch

BYTES = 2048
ORDER = np.random.default_rng(2).permutation(32).astype(np.uint32)
#: The byte offset of a lane's row, and the PTX that leaves it in %o, from %t.
PLACES = {
    "neighbours": (lambda t: 16 * t, "shl.b32 %o, %t, 4;"),
    "pitch": (lambda t: 48 * t, "mul.lo.u32 %o, %t, 48;"),
    "swizzled": (
        lambda t: (t // 8 * 8 + (t % 8 ^ t // 8)) * 16,
        "shr.u32 %a, %t, 3; xor.b32 %o, %t, %a; shl.b32 %o, %o, 4;",
    ),
    "table": (lambda t: 32 * int(ORDER[t]), "shl.b32 %o, %order, 5;"),
    "same": (lambda t: 64, "mov.u32 %o, 64;"),
}
TEXT = """.version 7.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory, .param .u64 registers, .param .u64 order) {{
.reg .b32 %t, %o, %a, %s, %order, %r<4>, %v;
.reg .b64 %memory, %registers, %l, %w, %row;
.reg .pred %p, %odd;
.shared .align 16 .b8 s[{bytes}];
ld.param.u64 %memory, [memory];
ld.param.u64 %registers, [registers];
mov.u32 %t, %tid.x;
mul.wide.u32 %w, %t, 4;
ld.param.u64 %l, [order]; add.u64 %l, %l, %w; ld.global.u32 %order, [%l];
add.u64 %memory, %memory, %w;
mov.u32 %s, s;
and.b32 %a, %t, 1; setp.eq.u32 %odd, %a, 1;
{place}
add.u32 %s, %s, %o;
cvt.u64.u32 %row, %s;
{generic}
shl.b32 %a, %t, 2; mov.u32 %o, s; add.u32 %o, %o, %a;
mov.u32 %a, 0;
fill: cvt.u64.u32 %w, %a; add.u64 %l, %memory, %w; ld.global.u32 %v, [%l];
add.u32 %v, %v, 0; st.shared.u32 [%o], %v;
add.u32 %o, %o, 128; add.u32 %a, %a, 128; setp.lt.u32 %p, %a, {bytes}; @%p bra fill;
mul.wide.u32 %w, %t, 16; add.u64 %registers, %registers, %w;
ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%registers];
bar.sync 0;
{guard} {move}
bar.sync 0;
st.global.v4.u32 [%registers], {{%r0, %r1, %r2, %r3}};
shl.b32 %a, %t, 2; mov.u32 %o, s; add.u32 %o, %o, %a;
mov.u32 %a, 0;
copy: cvt.u64.u32 %w, %a; add.u64 %l, %memory, %w; ld.shared.u32 %v, [%o]; st.global.u32 [%l], %v;
add.u32 %o, %o, 128; add.u32 %a, %a, 128; setp.lt.u32 %p, %a, {bytes}; @%p bra copy;
ret;
}}
"""


def text(move: str, place: str, guard: str = "", *, generic: bool = False) -> str:
    window = "cvta.shared.u64 %row, %row;" if generic else ""
    filled = {"place": PLACES[place][1], "generic": window, "guard": guard, "bytes": BYTES}
    return TEXT.format(move=move, **filled)


def run(ptx: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Memory and registers before and after, memory as bytes, four registers of 32 lanes as 16-bit halves."""
    rng = np.random.default_rng(7)
    memory, registers = rng.integers(0, 256, BYTES).astype(np.uint8), rng.integers(0, 1 << 16, (32, 4, 2)).astype("u2")
    after, left = memory.copy(), registers.copy()
    launch(Program.from_ptx(ptx), 1, 32, (after.view(np.uint32), left.view(np.uint32), ORDER))
    return memory, registers, after, left


def halves(memory: np.ndarray, place: int) -> list[int]:
    """The eight elements of a row."""
    return [int(memory[place + 2 * i]) | int(memory[place + 2 * i + 1]) << 8 for i in range(8)]


def list_of(count: int) -> str:
    return "{" + ", ".join(f"%r{i}" for i in range(count)) + "}"


#: Addresses do not depend on the spelling of the space: every place with one spelling, two places with each other
#: spelling; `make volume` tries all of them.
SPOTS = [
    pytest.param(place, space, marks=[] if space == ".shared" or place in ("pitch", "table") else [pytest.mark.volume])
    for space in (".shared", ".shared::cta", "") for place in PLACES
]  # fmt: skip


@pytest.mark.parametrize(("place", "space"), SPOTS)
def test_loads(place, space):
    for count, trans in itertools.product((1, 2, 4), ("", ".trans")):
        name = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16"
        memory, before, _, after = run(text(f"{name} {list_of(count)}, [%row];", place, generic=not space))
        for matrix in range(count):
            of_rows = [halves(memory, PLACES[place][0](8 * matrix + row)) for row in range(8)]
            for lane, half in itertools.product(range(32), range(2)):
                row, column = lane // 4, lane % 4 * 2 + half
                want = of_rows[column][row] if trans else of_rows[row][column]
                assert after[lane, matrix, half] == want, (name, place, lane, matrix, half)
        np.testing.assert_array_equal(after[:, count:], before[:, count:])


@pytest.mark.parametrize(("place", "space"), [spot for spot in SPOTS if spot.values[0] != "same"])
def test_stores(place, space):
    for count, trans in itertools.product((1, 2, 4), ("", ".trans")):
        name = f"stmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16"
        memory, registers, after, _ = run(text(f"{name} [%row], {list_of(count)};", place, generic=not space))
        want = memory.copy()
        for matrix, lane, half in itertools.product(range(count), range(32), range(2)):
            row, column = lane // 4, lane % 4 * 2 + half
            if trans:
                row, column = column, row
            at = PLACES[place][0](8 * matrix + row) + 2 * column
            value = int(registers[lane, matrix, half])
            want[at], want[at + 1] = value & 255, value >> 8
        np.testing.assert_array_equal(after, want, err_msg=f"{name} {place}")


@pytest.mark.parametrize("space", [".shared", ""])
def test_offsets_count_from_the_address(space):
    move = f"ldmatrix.sync.aligned.m8n8.x1{space}.b16 {{%r0}}, [%row+256];"
    memory, _, _, after = run(text(move, "neighbours", generic=not space))
    assert [int(v) for v in after[:4, 0].ravel()] == halves(memory, 256)


def test_a_matrix_is_transposed_in_registers():
    _, before, _, after = run(text("movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;", "same"))
    matrix = before[:, 1].reshape(8, 8)
    np.testing.assert_array_equal(after[:, 2].reshape(8, 8), matrix.T)


def test_movmatrix_of_a_literal():
    _, _, _, after = run(text("movmatrix.sync.aligned.m8n8.trans.b16 %r2, 0x00020001;", "same"))
    np.testing.assert_array_equal(after[:, 2].reshape(8, 8), np.tile([[1], [2]], (4, 8)))


def test_a_false_guard_keeps_registers():
    move = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%row];"
    _, before, _, after = run(text(move, "neighbours", "@!%odd"))
    np.testing.assert_array_equal(after[1::2], before[1::2])
    assert (after[::8, 0] != before[::8, 0]).any()  # rows 0, 2, 4 and 6 had addresses


def test_addresses_of_unused_lanes_may_be_anything():
    wild = "setp.ge.u32 %p, %t, 16; @%p mov.u64 %row, 0x7ffffff0;"
    move = "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%row];"
    expected = run(text(move, "pitch"))[3]
    np.testing.assert_array_equal(run(text(f"{wild} {move}", "pitch"))[3], expected)
    with pytest.raises(tw.KernelError, match="out of bounds shared load of 16 bytes"):
        run(text(f"{wild} {move.replace('x2', 'x4').replace('%r1', '%r1, %r2, %r3')}", "pitch"))


@pytest.mark.parametrize(
    "move", ["ldmatrix {}.shared.b16 {{%r0}}, [%row+8];", "stmatrix {}.shared.b16 [%row+4], {{%r0}};"]
)
def test_rows_must_be_aligned_to_16_bytes(move):
    name, _, rest = move.partition(" ")
    with pytest.raises(tw.KernelError, match=r"misaligned shared (load|store) of 16 bytes.*multiple of 16"):
        run(text(f"{name}.sync.aligned.m8n8.x1{rest.format('')}", "pitch"))


def wavefronts(place: str) -> int:
    """For each eight rows, the most different rows that share four banks."""
    of_rows = [PLACES[place][0](lane) // 16 for lane in range(32)]
    return sum(max(Counter(row % 8 for row in set(of_rows[i : i + 8])).values()) for i in range(0, 32, 8))


@pytest.mark.parametrize(("place", "expected"), [("neighbours", 4), ("swizzled", 4), ("table", 14), ("same", 4)])
@pytest.mark.parametrize("opcode", ["ldmatrix", "stmatrix"])
def test_eight_rows_in_different_banks_are_one_wavefront(place, expected, opcode):
    operands = f"{list_of(4)}, [%row]" if opcode == "ldmatrix" else f"[%row], {list_of(4)}"
    ptx = text(f"{opcode}.sync.aligned.m8n8.x4.shared.b16 {operands};", place)
    memory, registers = np.zeros(BYTES, np.uint8), np.zeros((32, 4), np.uint32)
    found = tw.profile(Program.from_ptx(ptx), 1, 32, (memory.view(np.uint32), registers, ORDER))
    (site,) = [site for site in found.sites if site.opcode.startswith(opcode)]
    counts = site.counts.shared_loads if opcode == "ldmatrix" else site.counts.shared_stores
    assert (counts.requests, counts.lanes, counts.wavefronts) == (1, 32, expected)
    assert wavefronts(place) == expected


def checked(ptx: str) -> list[tuple[str, str]]:
    memory, registers = np.zeros(BYTES, np.uint8), np.zeros((32, 4), np.uint32)
    return [
        (f.code, f.opcode.partition(".")[0])
        for f in tw.check(Program.from_ptx(ptx), 1, 32, (memory.view(np.uint32), registers, ORDER))
    ]


@pytest.mark.parametrize("barrier", ["", "bar.warp.sync 0xffffffff;"])
def test_check_attributes_a_row_to_the_lane_with_its_address(barrier):
    row = "mul.lo.u32 %a, %t, 16; mov.u32 %o, s; add.u32 %o, %o, %a; st.shared.v4.u32 [%o], {%r0, %r1, %r2, %r3};"
    own = f"{row} ldmatrix.sync.aligned.m8n8.x4.shared.b16 {list_of(4)}, [%row];"
    assert checked(text(own, "neighbours")) == []
    other = own.replace("ldmatrix", f"{barrier} ldmatrix")
    assert checked(text(other, "swizzled")) == ([] if barrier else [("TW304", "st")])


def test_check_finds_rows_that_were_never_written():
    move = f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {list_of(4)}, [%row];"
    whole = text(move, "neighbours")
    part = whole.replace("st.shared.u32 [%o], %v;", "setp.lt.u32 %p, %t, 31; @%p st.shared.u32 [%o], %v;", 1)
    assert checked(whole) == []
    assert ("TW202", "ldmatrix") in checked(part)


def packed_elements(memory: np.ndarray, place: int, bits: int) -> list[int]:
    """The sixteen elements of a row of 16 bytes."""
    whole = int.from_bytes(memory[place : place + 16].tobytes(), "little")
    return [whole >> bits * i & (1 << bits) - 1 for i in range(16)]


@pytest.mark.parametrize("place", ["neighbours", "pitch", "table"])
@pytest.mark.parametrize(("packed", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
def test_narrow_elements_are_extended_by_zeros(place, packed, bits):
    for count in (1, 2, 4):
        name = f"ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{packed}"
        memory, _, _, after = run(text(f"{name} {list_of(count)}, [%row];", place))
        of_lanes = after.view(np.uint8).reshape(32, 4, 4)
        for matrix, lane in itertools.product(range(count), range(32)):
            row = packed_elements(memory, PLACES[place][0](8 * matrix + lane // 4), bits)
            assert of_lanes[lane, matrix].tolist() == row[lane % 4 * 4 :][:4], (name, matrix, lane)


@pytest.mark.parametrize("place", ["neighbours", "swizzled", "table"])
@pytest.mark.parametrize(("type_", "bits"), [("b8", 8), ("b8x16.b6x16_p32", 6), ("b8x16.b4x16_p64", 4)])
def test_16_rows_of_bytes_are_transposed(place, type_, bits):
    """A lane has columns g and g + 8 of the rows from 4 t on, two in each register."""
    for count in (1, 2):
        name = f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.{type_}"
        memory, _, _, after = run(text(f"{name} {list_of(2 * count)}, [%row];", place))
        of_lanes = after.view(np.uint8).reshape(32, 4, 4)
        for register, lane, byte in itertools.product(range(2 * count), range(32), range(4)):
            g, t = lane // 4, lane % 4
            row = register // 2 * 16 + 4 * t + register % 2 * 2 + byte % 2
            want = packed_elements(memory, PLACES[place][0](row), bits)[g + byte // 2 * 8]
            assert of_lanes[lane, register, byte] == want, (name, register, lane, byte)


@pytest.mark.parametrize("place", ["neighbours", "swizzled", "table"])
def test_bytes_of_sums_are_stored_transposed(place):
    """A register has two columns of a row, and of the row eight below: element by element as sums of 16 x 8."""
    for count in (1, 2, 4):
        name = f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8"
        memory, registers, after, _ = run(text(f"{name} [%row], {list_of(count)};", place))
        of_lanes, want = registers.view(np.uint8).reshape(32, 4, 4), memory.copy()
        for matrix, lane, byte in itertools.product(range(count), range(32), range(4)):
            row, column = lane // 4 + byte // 2 * 8, lane % 4 * 2 + byte % 2
            want[PLACES[place][0](8 * matrix + column) + row] = of_lanes[lane, matrix, byte]
        np.testing.assert_array_equal(after, want, err_msg=name)


@pytest.mark.parametrize(
    ("guard", "before", "found"),
    [
        ("", "", False),
        ("@%odd", "", True),
        ("", "setp.eq.u32 %p, %t, 31; @%p ret;", True),
        ("@%p", "setp.lt.u32 %p, %t, 32;", False),
        ("@%p", "setp.gt.u32 %p, %t, 31;", False),
    ],
)
def test_check_wants_all_lanes(guard, before, found):
    """All lanes or none must execute, and none may have exited."""
    ptx = text("movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;", "same", f"{before} {guard}")
    codes = checked(ptx.replace("bar.sync 0;\nst.global.v4", "st.global.v4"))
    assert (("TW414", "movmatrix") in codes) == found
