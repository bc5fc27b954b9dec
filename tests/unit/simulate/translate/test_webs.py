"""Webs of registers, against chains of definitions and uses that are followed one by one over random flow graphs."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st
from ptx_kernels import run

from tilewright.programs import Program
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.ptx.substitution import parts
from tilewright.simulate.translate.analysis import graph, webs
from tilewright.simulate.translate.analysis.graph import Graph, Op
from tilewright.simulate.translate.analysis.shape import AFFINE, Shape
from tilewright.simulate.translate.analysis.shapes import Shapes
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.lowering.emitter import register_bits

HEAD = """.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<4>;
"""
REGISTERS = ("%r1", "%r2", "%r3", "%p1")
#: The place before any write.
ENTRY = (-1, -1)

register = st.sampled_from(REGISTERS[:3])
guard = st.sampled_from(["", "", "", "@%p1 ", "@!%p2 "])
instruction = st.one_of(
    st.builds("{}mov.u32 {}, %tid.x;".format, guard, register),
    st.builds("{}add.s32 {}, {}, 5;".format, guard, register, register),
    st.builds("{}mul.hi.s32 {}, {}, {};".format, guard, register, register, register),
    st.builds("{}mov.b64 {{{}, %r7}}, %d1;".format, guard, register),
    st.builds("{}setp.lt.s32 %p1|%p2, {}, 7;".format, guard, register),
    st.builds("bar.red.popc.u32 {}, 0, %p1;".format, register),
)
block = st.tuples(st.lists(instruction, max_size=4), st.sampled_from(["", "", "bra", "@%p1 bra", "@%p3 bra", "ret;"]))


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """A kernel of a few blocks, each of which falls through, jumps or branches to any other."""
    blocks = draw(st.lists(block, min_size=2, max_size=7))
    text = ""
    for number, (body, end) in enumerate(blocks):
        target = draw(st.integers(0, len(blocks) - 1))
        text += f"L{number}: {' '.join(body)} {f'{end} L{target};' if end.endswith('bra') else end}\n"
    return f"{HEAD}{text} ret; }}"


def built(text: str) -> Graph:
    return graph.build(parse(text).functions["k"], "k.ptx")


def split(text: str) -> tuple[Graph, Graph]:
    before = built(text)
    after = copy.deepcopy(before)
    webs.split(after)
    return before, after


def sites(flow: Graph) -> Iterator[tuple[tuple[int, int], Op]]:
    for block in flow.blocks:
        for at, op in enumerate((*block.ops, block.end)):
            if op is not None:
                yield (block.index, at), op


def reaching(flow: Graph) -> dict[tuple[tuple[int, int], str], set[tuple[int, int]]]:
    """For each place and register, the definitions that reach it, found instruction by instruction."""
    at_block = [{name: set() for name in REGISTERS} for _ in flow.blocks]
    for name in REGISTERS:
        at_block[0][name].add(ENTRY)
    found: dict[tuple[tuple[int, int], str], set[tuple[int, int]]] = {}
    while True:
        before = copy.deepcopy(at_block)
        for block in flow.blocks:
            here = {name: set(values) for name, values in at_block[block.index].items()}
            for at, op in enumerate((*block.ops, block.end)):
                if op is None:
                    continue
                for name in REGISTERS:
                    found[(block.index, at), name] = set(here[name])
                for name in set(op.writes) & set(REGISTERS):
                    here[name] = {(block.index, at)} | (here[name] if op.guard is not None else set())
            for successor in block.successors:
                for name in REGISTERS:
                    at_block[successor][name] |= here[name]
        if before == at_block:
            return found


def tied(op: Op, name: str) -> bool:
    """Whether an instruction's result keeps the name of its source, by the module's rule."""
    return name in op.writes and (op.guard is not None or (name in op.reads and not op.form.row.linear))


def chains(flow: Graph, name: str) -> list[set[tuple[int, int]]]:
    """The webs of a register: definitions that reach one use, joined until nothing changes."""
    reach = reaching(flow)
    groups = [{site} for site, op in sites(flow) if name in op.writes] + [{ENTRY}]
    for site, op in sites(flow):
        use = set(reach[site, name]) if name in op.reads or tied(op, name) else set()
        use |= {site} if tied(op, name) else set()
        if use:
            met = [group for group in groups if group & use]
            groups = [group for group in groups if not group & use] + [set().union(use, *met)]
    return groups


def web_of(after: Graph, op: Op, name: str) -> str:
    """The name of the web that an instruction writes."""
    own = next(n for n in op.writes if webs.ptx_name(n) == name)
    return after.copies.get(own, own)


@given(kernels())
def test_definitions_share_a_name_where_one_use_reads_either(text: str) -> None:
    before, after = split(text)
    written = dict(sites(after))
    for name in REGISTERS:
        definitions = [site for site, op in sites(before) if name in op.writes]
        indices = [site for site in definitions if dict(sites(before))[site].form.row.linear]
        if len(definitions) < 2 or not (indices or name[1] == "p"):
            assert {web_of(after, written[site], name) for site in definitions} <= {name}
            continue
        group_of = {site: number for number, group in enumerate(chains(before, name)) for site in group}
        shaped = {group_of[site] for site in definitions if site in indices or name[1] == "p"}
        group_of = {site: number if number in shaped else -1 for site, number in group_of.items()}  # data's share one
        for one, other in itertools.combinations(definitions, 2):
            same = web_of(after, written[one], name) == web_of(after, written[other], name)
            assert same == (group_of[one] == group_of[other]), (name, one, other)


@given(kernels(), st.randoms(use_true_random=False))
def test_every_instruction_reads_what_it_read_before(text: str, rng: random.Random) -> None:
    """Both graphs are walked along one path; a definition writes its place, so a use shows which one it reads."""
    before, after = split(text)
    for _ in range(8):
        old: dict[str, object] = {}
        new: dict[str, object] = {}
        index = 0
        for step in range(40):
            block, other = before.blocks[index], after.blocks[index]
            pairs = zip((*block.ops, block.end), (*other.ops, other.end), strict=True)
            for at, (one, two) in enumerate((a, b) for a, b in pairs if a is not None and b is not None):
                assert [old.get(n) for n in one.reads] == [new.get(n) for n in two.reads]
                assert set(two.reads) <= set(read_by(two)) | {two.guard and two.guard.register.name}
                if one.guard is None or rng.random() < 0.5:
                    old |= dict.fromkeys(one.writes, (step, at))
                    new |= dict.fromkeys(two.writes, (step, at))
            if other.kind == "branch":
                assert other.predicate == other.end.guard.register.name
            if not block.successors:
                break
            index = rng.choice(block.successors)


def read_by(op: Op) -> list[str]:
    """The registers of an instruction's operands, as the emitter reads them."""
    return [part.name for operand in op.sources for part in parts(operand)]


@given(kernels())
def test_a_separate_name_has_one_definition_outside_loops(text: str) -> None:
    before, after = split(text)
    reach = reaching(before)
    loops = {b for tail, header in before.back_edges for b in range(header, tail + 1)}
    for (site, op), (_, new) in zip(sites(before), sites(after), strict=True):
        for name in set(op.reads) & set(REGISTERS):
            values = reach[site, name]
            (own,) = {n for n in new.reads if webs.ptx_name(n) == name}
            definition = next(iter(values))
            alone = len(values) == 1 and definition != ENTRY and definition[0] not in loops
            alone = alone and not tied(op, name) and sum(name in o.writes for _, o in sites(before)) > 1
            if alone:
                writer = dict(sites(before))[definition]
                group = next(group for group in chains(before, name) if definition in group)
                merges = any(site != definition for site in group) or len(readers(before, definition, name)) > 1
                alone = bool(writer.form.row.linear) and not tied(writer, name)
                assert (own in after.copies) <= (alone and merges)
                if len(group) > 1:
                    assert (own in after.copies) == alone
            else:
                assert own not in after.copies


def readers(flow: Graph, definition: tuple[int, int], name: str) -> list[tuple[int, int]]:
    reach = reaching(flow)
    return [site for site, op in sites(flow) if name in op.reads and definition in reach[site, name]]


@given(kernels())
def test_liveness_is_that_of_the_new_names(text: str) -> None:
    _, after = split(text)
    kept = [set(block.live_in) for block in after.blocks]
    for block in after.blocks:
        block.live_in = set()
    graph.find_liveness(after)
    assert [block.live_in for block in after.blocks] == kept
    assert all(webs.ptx_name(n) in after.registers for block in kept for n in block)


# -- effects --------------------------------------------------------------------------------------------------

#: A counter that begins as the thread's index, from which addresses are computed before the loop.
COUNTER = """ld.param.u64 %d1, [p]; mov.u32 %r5, %nctaid.x; add.s32 %r5, %r5, 2; mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; mov.u32 %r2, 0;
L: add.s32 %r2, %r2, %r1; add.s32 %r1, %r1, %r5; setp.lt.s32 %p1, %r1, 50; @%p1 bra L;
st.global.u32 [%d3], %r2; ret; }"""


def shapes_of(body: str) -> dict[str, Shape]:
    flow = built(HEAD + body)
    webs.split(flow)
    launch = LaunchClass.of((40, 1, 1), (1, 1, 1))
    return Shapes(flow, launch, lambda name: register_bits(flow.registers[name]), {"p": 0}).of


def test_addresses_are_affine_before_a_loop_that_counts_in_the_same_register() -> None:
    found = shapes_of(COUNTER)
    assert [found[name].kind for name in ("%d2", "%d3")] == [AFFINE, AFFINE]
    assert found["%d3"].lane_offsets == tuple(range(0, 128, 4))
    assert found["%r1"].lo is None  # a sum of steps that only the run knows may wrap


def test_a_register_that_holds_one_value_after_another_is_uniform_where_it_is() -> None:
    found = shapes_of("mov.u32 %r1, %tid.x; add.s32 %r2, %r1, 1; mov.u32 %r1, %ctaid.x; add.s32 %r3, %r1, 1; ret; }")
    assert found["%r2"].lane_offsets == tuple(range(32)) and not found["%r3"].kind


@pytest.mark.parametrize(
    "before",
    [
        "",
        "add.s32 %r4, %r1, 1;",
        "setp.gt.s32 %p1, %r1, 7;",
        "add.s32 %r1, %r1, 1;",
        "setp.gt.s32 %p2, %r1, 7; @%p2 add.s32 %r1, %r1, 1;",
        "mov.b64 {%r1, %r4}, %d1; and.b32 %r1, %r1, 15;",
        "setp.gt.s32 %p2, %r1, 7; bar.red.popc.u32 %r1, 0, %p2;",
        "setp.gt.s32 %p2, %r1, 7; @%p2 bra M; add.s32 %r1, %r1, 9; M:",
        "add.cc.u32 %r1, %r1, 1; addc.u32 %r1, %r1, 0;",
    ],
)
def test_a_kernel_gives_what_plain_python_gives(before: str) -> None:
    """Results of the kernel, and of one that writes each register once before the loop."""
    text = COUNTER.replace("mov.u32 %r2, 0;", f"{before} mov.u32 %r2, 0;")
    counts = sum(t > 7 for t in range(40))
    first = {
        "": lambda t: t, "add.s32 %r4": lambda t: t, "setp.gt.s32 %p1": lambda t: t, "add.s32 %r1": lambda t: t + 1,
        "@%p2 add": lambda t: t + (t > 7), "bar.red": lambda t: counts, "bra M": lambda t: t + 9 * (t <= 7),
        "add.cc": lambda t: t + 1,
    }  # fmt: skip
    if "mov.b64" in before:
        expected = None
    else:
        begin = first[next(key for key in reversed(first) if key in before)]
        expected = [total(begin(t)) for t in range(40)]
    out = np.zeros(40, np.int32)
    run(Program.from_ptx(HEAD + text), out, block=40)
    assert expected is None or out.tolist() == expected


def total(value: int) -> int:
    """The loop, in plain Python."""
    found = 0
    while True:
        found += value
        value += 3
        if value >= 50:
            return found
