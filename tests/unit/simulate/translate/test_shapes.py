"""The translator's claims about registers, against the values that every lane computes in Python."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from ptx_kernels import run

from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.isa import table
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.translate.analysis import graph
from tilewright.simulate.translate.analysis.frontier import thread_frontiers
from tilewright.simulate.translate.analysis.shape import AFFINE, STRIDED, UNIFORM, VECTOR, Shape
from tilewright.simulate.translate.analysis.shapes import Shapes
from tilewright.simulate.translate.analysis.special import SMALL, LaunchClass
from tilewright.simulate.translate.analysis.transfer import transfer
from tilewright.simulate.translate.lowering.emitter import register_bits

BLOCKS = [(32, 1, 1), (64, 1, 1), (20, 1, 1), (16, 16, 1), (8, 8, 1), (10, 10, 1), (3, 5, 7), (1, 64, 1), (33, 3, 1)]
LITERALS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 48, 63, 64, 255, 256, 1023, 4095, 65535, -1, -2, -4, -8, -16, -32]
LITERALS += [0x7FFFFFFF, -0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 0x80000000, 0xFFFF, 0x8000, 40000, 1 << 20, 100000]


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _value(type_: str, value: int) -> int:
    return (_signed if type_[0] == "s" else _unsigned)(value, int(type_[1:]))


@dataclass
class Line:
    """One instruction: its text's parts, and its meaning for one thread."""

    opcode: str
    destination: str
    sources: list[object]
    width: int

    def __str__(self) -> str:
        return f"{self.opcode} {self.destination}, {', '.join(map(str, self.sources))};"


def meaning(opcode: str, operands: list[int]) -> int:
    """The result, before it is truncated to its register."""
    name, *parts = opcode.split(".")
    type_ = parts[-1]
    bits = int(type_[1:])
    if name == "cvt":
        return _value(parts[0], _value(parts[1], operands[0]))
    if name in ("shl", "shr"):
        value, count = _value(type_, operands[0]), _unsigned(operands[1], 32)
        return value << min(count, bits) if name == "shl" else value >> min(count, bits)
    values = [_value(type_, v) for v in operands]
    if name == "mad" and parts[0] == "wide":
        return values[0] * values[1] + operands[2]
    return {
        "mov": lambda a: a,
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "neg": lambda a: -a,
        "not": lambda a: ~a,
        "mul": lambda a, b: a * b,
        "mad": lambda a, b, c: a * b + c,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "min": min,
        "max": max,
        "rem": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1) if b else a,
        "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else -1,
    }[name](*values)


SPECIALS = ("%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%laneid", "%ntid.x", "%nctaid.x", "%warpid")


def random_lines(rng: random.Random, count: int) -> list[Line]:
    """Straight-line integer code, each register written once; divisors are literals other than 0."""
    lines = [Line("mov.u32", f"%r{number}", [name], 32) for number, name in enumerate(SPECIALS)]
    known: dict[int, list[str]] = {16: [], 32: [line.destination for line in lines], 64: []}

    def source(bits: int) -> object:
        if known[bits] and rng.random() < 0.7:
            return rng.choice(known[bits])
        return _signed(rng.choice(LITERALS), bits) if rng.random() < 0.8 else _unsigned(rng.choice(LITERALS), bits)

    def literal(bits: int) -> int:
        return _signed(rng.choice(LITERALS), bits) or 3

    for number in range(len(lines), len(lines) + count):
        bits = rng.choice([16, 32, 32, 32, 32, 64, 64])
        sign = rng.choice("us")
        kinds = "mov add add sub neg mul mul mad wide madwide shl shr and and or xor not min max rem div cvt cvt cvt"
        kind = rng.choice(kinds.split())
        width, name = bits, f"{sign}{bits}"
        if kind == "mov":
            opcode, sources = f"mov.{name}", [source(bits)]
        elif kind in ("add", "sub", "min", "max"):
            opcode, sources = f"{kind}.{name}", [source(bits), source(bits)]
        elif kind == "neg":
            opcode, sources = f"neg.s{bits}", [source(bits)]
        elif kind in ("mul", "mad"):
            opcode = f"{kind}.lo.{name}"
            sources = [source(bits), source(bits), source(bits)][: 2 + (kind == "mad")]
        elif kind in ("wide", "madwide"):
            half = 16 if bits == 16 else 32
            width = 2 * half
            opcode = f"{'mul' if kind == 'wide' else 'mad'}.wide.{sign}{half}"
            sources = [source(half), source(half)] + ([source(width)] if kind == "madwide" else [])
        elif kind == "shl":
            opcode, sources = f"shl.b{bits}", [source(bits), rng.choice([0, 1, 2, 3, 5, 8, 16, 31, 40])]
        elif kind == "shr":
            opcode, sources = f"shr.{name}", [source(bits), rng.choice([0, 1, 2, 3, 5, 8, 16, 31, 40])]
        elif kind in ("and", "or", "xor"):
            opcode, sources = f"{kind}.b{bits}", [source(bits), source(bits)]
        elif kind == "not":
            opcode, sources = f"not.b{bits}", [source(bits)]
        elif kind in ("rem", "div"):
            opcode, sources = f"{kind}.{name}", [source(bits), literal(bits)]
        else:
            narrow = rng.choice([b for b in (16, 32, 64) if b != bits and known[b]] or [32])
            opcode, sources = f"cvt.{name}.{rng.choice('us')}{narrow}", [rng.choice(known[narrow])]
        destination = {16: "%h", 32: "%r", 64: "%d"}[width] + str(number)
        lines.append(Line(opcode, destination, sources, width))
        known[width].append(destination)
    return lines


def text_of(lines: list[Line]) -> str:
    """A kernel that stores every register of every thread as 64 bits."""
    count = len(lines)
    stores = []
    for number, line in enumerate(lines):
        wide = line.destination if line.width == 64 else "%w"
        if line.width < 64:
            stores.append(f"cvt.u64.u{line.width} %w, {line.destination};")
        stores.append(f"st.global.u64 [%at+{8 * number}], {wide};")
    body = "\n".join(map(str, lines))
    return f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 threads) {{
.reg .b16 %h<{count}>; .reg .b32 %r<{count}>; .reg .b64 %d<{count}>; .reg .b64 %w, %at; .reg .b32 %t, %n, %m;
{body}
ld.param.u64 %at, [out]; ld.param.u32 %n, [threads];
mov.u32 %t, %ctaid.y; mov.u32 %m, %nctaid.x; mul.lo.u32 %t, %t, %m; mov.u32 %m, %ctaid.x; add.u32 %t, %t, %m;
mul.lo.u32 %t, %t, %n; mov.u32 %m, %tid.x; add.u32 %t, %t, %m; mov.u32 %m, %ntid.x; mov.u32 %n, %tid.y;
mad.lo.u32 %t, %n, %m, %t; mov.u32 %n, %ntid.y; mul.lo.u32 %m, %m, %n; mov.u32 %n, %tid.z; mad.lo.u32 %t, %n, %m, %t;
mad.wide.u32 %at, %t, {8 * count}, %at;
{chr(10).join(stores)}
ret;
}}
"""


def threads_of(block: tuple[int, int, int], grid: tuple[int, int]) -> list[list[dict[str, int]]]:
    """Special registers of all threads, one list a warp."""
    x, y, z = block
    warps = []
    for by in range(grid[1]):
        for bx in range(grid[0]):
            for first in range(0, x * y * z, 32):
                warps.append(
                    [
                        {
                            "%tid.x": t % x, "%tid.y": t // x % y, "%tid.z": t // (x * y), "%laneid": t % 32,
                            "%ctaid.x": bx, "%ctaid.y": by, "%ntid.x": x, "%nctaid.x": grid[0], "%warpid": t // 32,
                        }
                        for t in range(first, min(first + 32, x * y * z))
                    ]
                )  # fmt: skip
    return warps


def evaluate(lines: list[Line], specials: dict[str, int]) -> list[int]:
    values = dict(specials)
    for line in lines:
        operands = [s if isinstance(s, int) else values[str(s)] for s in line.sources]
        values[line.destination] = _unsigned(meaning(line.opcode, operands), line.width)
    return [values[line.destination] for line in lines]


def in_rows(values: list[int], shape: Shape, bits: int) -> bool:
    """Whether one stride within its bound fits all lanes; a warp that ends before the second row has none."""
    if 1 not in shape.rows[: len(values)]:
        return True
    lane = shape.rows.index(1)
    stride = _signed(values[lane] - values[0] - shape.lane_offsets[lane], bits)
    if shape.reach is not None and abs(stride) > shape.reach:
        return False
    places = zip(values, shape.lane_offsets, shape.rows, strict=False)
    return all(v == _unsigned(values[0] + p + stride * row, bits) for v, p, row in places)


def broken_claims(shapes: Shapes, lines: list[Line], warps: list[list[list[int]]]) -> list[str]:
    """Claims that some warp's values contradict."""
    found = []
    for number, line in enumerate(lines):
        shape, bits = shapes.of[line.destination], line.width
        for warp in warps:
            values = [lane[number] for lane in warp]
            about = f"{line} is claimed {shape} but holds {values[:8]}"
            if shape.kind == UNIFORM and len(set(values)) > 1:
                found.append(about)
            if shape.kind == AFFINE and any(
                v != _unsigned(values[0] + p, bits) for v, p in zip(values, shape.lane_offsets, strict=False)
            ):
                found.append(about)
            if shape.kind == STRIDED and not in_rows(values, shape, bits):
                found.append(about)
            if shape.lo is not None and any(not shape.lo <= _signed(v, bits) <= shape.hi for v in values):
                found.append(about)
            if shape.kind != VECTOR and values[0] % shape.align:
                found.append(about)
    return found


def shapes_of(text: str, launch: LaunchClass, params=None) -> Shapes:
    function = parse(text).functions["k"]
    flow = graph.build(function, "k.ptx")
    return Shapes(flow, launch, lambda name: register_bits(flow.registers[name]), params or {})


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("far", [False, True], ids=["small grid", "large grid"])
@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 12), marks=pytest.mark.volume)], ids=str)
def test_claims_hold_for_every_lane(block, far, seeds):
    """Near the grid's origin and, without running there, at its far end."""
    kinds: set[int] = set()
    for seed in seeds:
        rng = random.Random(f"{seed}{block}{far}")
        lines = random_lines(rng, 40)
        extents = [SMALL // e if not far else 65_535 for e in block]
        launch = LaunchClass(block) if far else LaunchClass.of(block, tuple(extents))
        warps = threads_of(block, (2, 2))
        for warp in warps[len(warps) // 2 :]:  # move the upper blocks to the far end of the grid
            for lane in warp:
                lane["%ctaid.x"] = extents[0] - 1 - lane["%ctaid.x"]
                lane["%ctaid.y"] = extents[1] - 1 - lane["%ctaid.y"]
                lane["%nctaid.x"] = extents[0]
        if len(warps) > 8:
            warps = [*warps[:2], *rng.sample(warps[2:-2], 3), *warps[-2:]]
        shapes = shapes_of(text_of(lines), launch)
        found = broken_claims(shapes, lines, [[evaluate(lines, lane) for lane in warp] for warp in warps])
        assert not found, found[0]
        kinds |= {s.kind for s in shapes.of.values()}
    assert kinds - {STRIDED} == {UNIFORM, AFFINE, VECTOR}  # else there were no claims


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_values_are_right_with_all_claims_used(block):
    lines = random_lines(random.Random(f"run{block}"), 80)
    threads = block[0] * block[1] * block[2]
    out = np.zeros((4 * threads, len(lines)), np.uint64)
    run(Program.from_ptx(text_of(lines)), out, np.uint32(threads), grid=(2, 2), block=block)
    wanted = [evaluate(lines, lane) for warp in threads_of(block, (2, 2)) for lane in warp]
    for number, line in enumerate(lines):
        assert out[:, number].tolist() == [w[number] for w in wanted], str(line)


def claims(body: str, block=(32, 1, 1), small=True) -> dict[str, tuple[int, ...] | str]:
    """Register -> "uniform", "vector", or the lanes' offsets."""
    text = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{ .reg .b32 %r<30>; .reg .b64 %d<30>; .reg .pred %p<9>; {body} ret; }}"""
    shapes = shapes_of(text, LaunchClass.of(block, (1, 1, 1)) if small else LaunchClass(block))
    return {
        name: {UNIFORM: "uniform", VECTOR: "vector"}.get(shape.kind, shape.lane_offsets)
        for name, shape in shapes.of.items()
    }


def test_addresses_of_a_matrix_are_patterns():
    """The index arithmetic of every kernel here: the machine's speed depends on it."""
    got = claims(
        """mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
        cvta.to.global.u64 %d2, %d1; mul.wide.s32 %d3, %r4, 4; add.s64 %d4, %d2, %d3; cvt.s64.s32 %d5, %r4;
        shl.b64 %d6, %d5, 3; mov.u32 %r5, %tid.y; shl.b32 %r6, %r5, 6; shl.b32 %r7, %r1, 2; add.s32 %r8, %r6, %r7;""",
        (16, 16, 1),
    )
    half = tuple(range(16)) * 2
    assert got["%r4"] == half
    assert got["%d4"] == tuple(4 * v for v in half)
    assert got["%d6"] == tuple(8 * v for v in half)
    assert got["%r8"] == tuple(4 * v + 64 * (lane // 16) for lane, v in enumerate(half))
    assert got["%r2"] == "uniform"


def test_an_index_that_may_wrap_is_no_pattern_of_64_bits():
    body = """mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
        mul.wide.u32 %d3, %r4, 4;"""
    assert claims(body)["%d3"] == tuple(range(0, 128, 4))
    assert claims(body, small=False)["%d3"] == "vector"


def test_a_loop_counter_is_uniform_unless_lanes_leave_at_different_times():
    loop = """mov.u32 %r1, 0; mov.u32 %r9, %tid.x;
        L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, {bound}; @%p1 bra L; add.u32 %r2, %r1, 1;"""
    assert claims(loop.format(bound=100))["%r2"] == "uniform"
    assert claims(loop.format(bound="%r9"))["%r2"] == "vector"


def graph_of(body: str) -> graph.Graph:
    text = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k() {{ .reg .b32 %r<30>; .reg .pred %p<9>; {body} ret; }}"""
    return graph.build(parse(text).functions["k"], "k.ptx")


@pytest.mark.parametrize("kind", sorted({row.kind for row in table().rows if row.writes} | {"control"}))
def test_every_kind_of_row_that_writes_has_a_rule(kind):
    row = SimpleNamespace(kind=kind, linear="", role=None, access="store")
    op = SimpleNamespace(form=SimpleNamespace(row=row), instruction=SimpleNamespace(modifiers=()), sources=[None])
    (shape,) = transfer(op, [Shape(VECTOR)], LaunchClass((32, 1, 1)), {})
    assert shape.kind == VECTOR


def test_a_kind_without_a_rule_is_refused():
    op = SimpleNamespace(form=SimpleNamespace(row=SimpleNamespace(kind="fence")))
    with pytest.raises(AssertionError, match="fence"):
        transfer(op, [], LaunchClass((32, 1, 1)), {})


def test_frontier_of_a_diamond():
    """While one arm runs, lanes can wait in the other or after it; after the join there are none."""
    flow = graph_of("@%p1 bra A; mov.u32 %r1, 1; bra J; A: mov.u32 %r1, 2; J: mov.u32 %r2, %r1;")
    top, first, second, join = (b.index for b in flow.blocks)
    frontiers = thread_frontiers(flow, {top})
    assert second in frontiers[first]
    assert frontiers[second] == {join}
    assert frontiers[join] == set()
    assert thread_frontiers(flow, set()) == [set()] * 4


def test_frontier_of_a_loop_holds_what_follows_it():
    flow = graph_of("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2; @%p1 bra L; mov.u32 %r3, 1;")
    loop = next(b.index for b in flow.blocks if b.kind == "branch")
    after = loop + 1
    assert thread_frontiers(flow, {loop})[loop] == {after}
    assert thread_frontiers(flow, {loop})[after] == set()


@pytest.mark.parametrize("sign", ["u", "s"])
def test_the_addend_of_a_wide_product_has_twice_the_width(sign):
    out = np.zeros(32, np.uint64)
    text = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{ .reg .b32 %r<9>; .reg .b64 %d<9>;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 8, %d1;
mad.wide.{sign}32 %d3, %r1, 3, 0xFFFFFFFF; st.global.u64 [%d2], %d3; ret; }}"""
    run(Program.from_ptx(text), out)
    assert out.tolist() == [3 * t + 0xFFFFFFFF for t in range(32)]


def test_a_register_declared_as_a_float_may_hold_an_index():
    out = np.zeros(32, np.uint32)
    text = """.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 last) { .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<9>;
ld.param.u64 %d1, [p]; ld.param.u32 %r2, [last]; mov.u32 %r1, %tid.x; sub.u32 %f1, %r2, %r1;
mul.wide.u32 %d2, %f1, 4; add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %r1; ret; }"""
    launch(Program.from_ptx(text), 1, 32, (out, 31))
    assert out.tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("combine", ["and.b32 %r4, %r1, %r3;", "mul.lo.u32 %r4, %r1, %r3;", "shl.b32 %r4, %r1, %r3;"])
def test_a_constant_that_lanes_write_apart_combines_with_an_index(combine):
    """Both arms write 3, so the register is a vector of lanes, but its value is known."""
    out = np.full(32, 99, np.uint32)
    text = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{ .reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %d<9>;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 4, %d1; mov.u32 %r3, 3; mov.u32 %r4, 7;
setp.lt.s32 %p1, %r1, 10; @%p1 bra L; mov.u32 %r3, 3;
L: @%p1 {combine}
st.global.u32 [%d2], %r4; ret; }}"""
    run(Program.from_ptx(text), out)
    wanted = {"and": lambda t: t & 3, "mul": lambda t: t * 3, "shl": lambda t: t << 3}[combine[:3]]
    assert out.tolist() == [wanted(t) if t < 10 else 7 for t in range(32)]


@pytest.mark.parametrize("guard", ["", "@%p2 ", "@!%p2 "])
@pytest.mark.parametrize("index", ["mov.u32 %r2, %tid.x;", "mov.u32 %r9, %tid.y; mul.lo.u32 %r2, %r9, %r8;"])
def test_an_index_that_is_always_chosen_may_have_any_alternative(index, guard):
    """The predicate is known, so the result is the index, by lane 0's; the other value differs from lane to lane."""
    out = np.arange(64, dtype=np.uint32) + 100
    body = f"""ld.param.u32 %r8, [pitch]; {index} setp.lt.u32 %p2, %r1, 7;
        setp.lt.s32 %p1, %r1, 64; selp.b32 %r5, %r2, %r3, %p1; {guard}selp.b32 %r4, %r2, %r3, %p1;
        add.u32 %r4, %r4, %r5;"""
    text = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 pitch) {{ .reg .b32 %r<10>; .reg .pred %p<3>; .reg .b64 %d<3>;
ld.param.u64 %d1, [p]; mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mad.lo.u32 %r1, %r5, 8, %r4;
mad.wide.u32 %d2, %r1, 4, %d1; ld.global.u32 %r3, [%d2]; mov.u32 %r4, 5; {body}
st.global.u32 [%d2], %r4; ret; }}"""
    launch(Program.from_ptx(text), 1, (8, 8), (out, 11))
    chosen = [t % 8 if "tid.x" in index else t // 8 * 11 for t in range(64)]
    runs = {"": lambda t: True, "@%p2 ": lambda t: t < 7, "@!%p2 ": lambda t: t >= 7}[guard]
    assert out.tolist() == [chosen[t] + (chosen[t] if runs(t) else 5) for t in range(64)]
