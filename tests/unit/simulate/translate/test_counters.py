"""Bounds of loop counters, against loops executed in Python."""

from __future__ import annotations

import itertools
import operator

import pytest

from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.translate.analysis import graph
from tilewright.simulate.translate.analysis.shape import AFFINE, UNIFORM, VECTOR, Shape
from tilewright.simulate.translate.analysis.shapes import Shapes
from tilewright.simulate.translate.analysis.special import SMALL, LaunchClass
from tilewright.simulate.translate.lowering.emitter import register_bits

RELATIONS = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "ne": operator.ne,
}  # fmt: skip
TURNS_MAX = 200


def shapes_of(body: str, small_params=frozenset({(0, 32)}), block=(32, 1, 1)) -> dict[str, Shape]:
    text = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 m) {{
.reg .b32 %r<30>; .reg .b64 %d<30>; .reg .pred %p<9>; {body} ret; }}"""
    flow = graph.build(parse(text).functions["k"], "k.ptx")
    launch = LaunchClass.of(block, (1, 1, 1), small_params)
    return Shapes(flow, launch, lambda name: register_bits(flow.registers[name]), {"n": 0, "m": 8}).of


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bits", [32, 64])
def test_values_of_a_counter_are_within_its_bounds(relation, bits):
    letter = "r" if bits == 32 else "d"
    known = 0
    for first, step, limit in itertools.product((-3, 0, 7), (-4, -1, 1, 3, 4), (-11, 0, 1, 8, 19)):
        body = f"""mov.s{bits} %{letter}1, {first};
            L: add.s{bits} %{letter}1, %{letter}1, {step};
            setp.{relation}.s{bits} %p1, %{letter}1, {limit}; @%p1 bra L;"""
        shape = shapes_of(body)[f"%{letter}1"]
        value, seen = first, [first]
        while len(seen) < TURNS_MAX:
            value += step
            seen.append(value)
            if not RELATIONS[relation](value, limit):
                break
        about = (first, step, limit, shape, min(seen), max(seen))
        if shape.lo is not None:
            known += 1
            assert shape.lo <= min(seen) and max(seen) <= shape.hi, about
        else:
            # no bound may exist for a loop that runs through the register's range; others should have one
            assert bits == 32 and not _bounded(relation, first, step, limit), about
    assert known >= 20


def _bounded(relation: str, first: int, step: int, limit: int) -> bool:
    towards = {"lt": step > 0, "le": step > 0, "gt": step < 0, "ge": step < 0}
    return towards.get(relation, (limit - first) % step == 0 and (limit - first) // step > 0)


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 32; setp.lt.s32 %p1, %r1, %r9; @%p1 bra L;",
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 32; setp.gt.s32 %p1, %r9, %r1; @%p1 bra L;",
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 32; setp.ge.s32 %p1, %r1, %r9; @!%p1 bra L;",
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 32; setp.lt.u32 %p1, %r1, %r9; @%p1 bra L;",
        "mov.u32 %r1, 0; L: setp.ge.s32 %p1, %r1, %r9; @%p1 bra X; add.u32 %r1, %r1, 32; bra L; X:",
        "mov.u32 %r1, 0; L: mov.u32 %r2, %r1; add.u32 %r3, %r2, 32; mov.u32 %r1, %r3; "
        "setp.lt.s32 %p1, %r1, %r9; @%p1 bra L;",
    ],
)
def test_a_limit_of_the_launch_bounds_a_counter(body):
    shape = shapes_of(f"ld.param.u32 %r9, [n]; {body}")["%r1"]
    assert (shape.kind, shape.lo, shape.hi) == (UNIFORM, 0, SMALL - 1 + 32)


@pytest.mark.parametrize(
    "body",
    [
        # a step that no comparison precedes
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; add.u32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50; @%p1 bra L;",
        # one path around the loop omits the comparison
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; ld.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, 0; @%p2 bra L; "
        "setp.lt.s32 %p1, %r1, 50; @%p1 bra L;",
        # the register is changed between the comparison and the branch
        "mov.u32 %r1, 0; L: setp.lt.s32 %p1, %r1, 50; add.u32 %r1, %r1, 1; @%p1 bra L;",
        # nothing is known of the limit
        "ld.global.u32 %r9, [%d1]; mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r9; @%p1 bra L;",
        # an unsigned comparison with a limit that may be large
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 0xfffffff0; @%p1 bra L;",
        # it steps over the one value that ends it
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 3; setp.ne.s32 %p1, %r1, 50; @%p1 bra L;",
        # it begins past that value
        "mov.u32 %r1, 60; L: add.u32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, 50; @%p1 bra L;",
        # two such values: past one of them, the other is no bound
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; ld.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, 0; @%p2 bra B; "
        "setp.ne.s32 %p1, %r1, 50; @%p1 bra L; exit; B: setp.ne.s32 %p3, %r1, 60; @%p3 bra L;",
        # a guarded comparison
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; @%p5 setp.lt.s32 %p1, %r1, 50; @%p1 bra L;",
    ],
)
def test_nothing_is_claimed_of_a_counter_of_32_bits(body):
    shape = shapes_of(f"ld.param.u64 %d1, [m]; {body}", frozenset())["%r1"]
    assert (shape.lo, shape.hi) == (None, None)


def test_no_warp_counts_64_bits_through():
    loop = "ld.param.u64 %d2, [m]; mov.u64 %d1, 16; L: add.s64 %d1, %d1, {step}; setp.ne.s64 %p1, %d1, %d2; @%p1 bra L;"
    rising = shapes_of(loop.format(step=16))["%d1"]
    assert rising.lo == 16
    assert 1 << 50 < rising.hi < 1 << 62
    falling = shapes_of(loop.format(step=-16))["%d1"]
    assert falling.hi == 16
    assert -(1 << 62) < falling.lo < -(1 << 50)
    assert shapes_of(loop.format(step=1 << 20))["%d1"].lo is None  # large steps come around


def test_a_counter_that_differs_between_lanes_is_also_bounded_for_lanes_that_left():
    """The base is lane 0's value, which continues with the other lanes, so it must be within the bounds too."""
    body = """mov.u32 %r2, %tid.x; mov.u32 %r3, 31; sub.u32 %r1, %r3, %r2;
        L: add.u32 %r1, %r1, 32; setp.lt.s32 %p1, %r1, 100; @%p1 bra L;"""
    shape = shapes_of(body)["%r1"]
    if shape.kind == AFFINE:
        assert shape.lo <= 0 - 31 and shape.hi >= 131 + 31
    else:
        assert shape.kind == VECTOR and shape.lo <= 0 and shape.hi >= 131


@pytest.mark.parametrize("operation", ["add", "sub"])
@pytest.mark.parametrize("bits", [32, 64])
def test_values_of_a_counter_that_steps_by_a_choice_are_within_its_bounds(bits, operation):
    """`i += (i < limit)`, as compilers write it: the step is a register that holds one of two constants."""
    letter = "r" if bits == 32 else "d"
    sign = 1 if operation == "add" else -1
    known = 0
    for first, (yes, no), limit in itertools.product((-3, 0, 7), ((1, 0), (4, 1), (-1, 0), (2, -2)), (-11, 8, 19)):
        relation = "lt" if sign * yes > 0 else "gt"
        body = f"""mov.s{bits} %{letter}1, {first};
            L: setp.{relation}.s{bits} %p1, %{letter}1, {limit}; selp.b{bits} %{letter}2, {yes}, {no}, %p1;
            {operation}.s{bits} %{letter}1, %{letter}1, %{letter}2; @%p1 bra L;"""
        shape = shapes_of(body)[f"%{letter}1"]
        value, seen, again = first, [first], True
        while again and len(seen) < TURNS_MAX:
            again = RELATIONS[relation](value, limit)
            value += sign * (yes if again else no)
            seen.append(value)
        if shape.lo is not None:
            known += 1
            assert shape.lo <= min(seen) and max(seen) <= shape.hi, (first, yes, no, limit, shape, seen)
    assert known == (36 if bits == 64 else 0)  # the step comes after the comparison, but before the branch


@pytest.mark.parametrize(
    ("body", "bounded"),
    [
        ("selp.b64 %d3, 1, 0, %p2;", True),
        ("mov.b64 %d3, 1; @%p2 bra M; mov.b64 %d3, 2; M:", True),
        ("selp.b64 %d3, 1, %d4, %p2;", False),  # the other value is not known
        ("mov.b64 %d3, 1; @%p2 mov.b64 %d3, 2;", False),  # guarded
        ("mov.b64 %d3, 1; @%p2 bra M; ld.global.b64 %d3, [%d2]; M:", False),  # another definition
        ("mov.b64 %d3, %d2;", False),
    ],
)
def test_a_step_by_a_register_is_known_if_all_its_definitions_are_constants(body, bounded):
    loop = "L: setp.ne.s64 %p1, %d1, %d2; add.s64 %d1, %d1, %d3; @%p1 bra L;"
    start = f"ld.param.u64 %d2, [m]; ld.global.u64 %d4, [%d2]; setp.ne.s64 %p2, %d4, 0; mov.u64 %d1, 0; {body}"
    assert (shapes_of(start + loop)["%d1"].lo == 0) == bounded


def test_a_step_that_is_read_before_its_definition_is_zero_then():
    loop = "mov.u64 %d1, 5; L: add.s64 %d1, %d1, %d3; mov.b64 %d3, 2; setp.lt.s64 %p1, %d1, 90; @%p1 bra L;"
    assert shapes_of(loop)["%d1"].lo == 5


@pytest.mark.parametrize("small", [False, True])
def test_a_64_bit_parameter_is_bounded_in_its_own_width_only(small):
    found = shapes_of(
        "ld.param.u64 %d1, [m]; ld.param.u32 %r1, [m]; ld.param.u64 %d2, [n];", frozenset({(8, 64)} if small else ())
    )
    assert (found["%d1"].hi is not None) == small
    assert found["%r1"].hi is None
    assert found["%d2"].hi is None
