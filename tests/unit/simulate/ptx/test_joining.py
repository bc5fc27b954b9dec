"""PTX texts joined into one: each name once, private names distinct, lines numbered consecutively."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tilewright.errors import PtxError
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.programs import assembler, listing
from tilewright.simulate.ptx import joining, parse, to_text


def join(texts: Sequence[str]) -> str:
    return to_text(joining.join([parse(text) for text in texts]))


HEAD = ".version {}\n.target sm_90\n.address_size 64\n"
MAIN = (
    HEAD.format("8.0")
    + """
.extern .func (.param .b32 r) twice (.param .b32 x);
.extern .global .align 4 .u32 base;
.global .align 4 .u32 own = 100;  // each text has one
.visible .entry k(.param .u64 out) {
    .reg .b32 %r<6>; .reg .b64 %rd<4>;
    .loc 1 7 0
    ld.param.u64 %rd1, [out];
    ld.global.u32 %r1, [base]; ld.global.u32 %r2, [own]; add.u32 %r1, %r1, %r2;
    { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), twice, (a); ld.param.b32 %r3, [b]; }
    st.global.u32 [%rd1], %r3; ret;
}
.file 1 "main.py"
"""
)
OTHER = (
    HEAD.format("8.3")
    + """
/* a library } of its own */
.visible .global .align 4 .u32 base = 10;
.global .align 4 .u32 own = 1;
.weak .func shared_one () { ret; }
.visible .func (.param .b32 r) twice (.param .b32 x) {
    .reg .b32 %r<4>;
    .loc 1 3 0
    ld.param.b32 %r1, [x]; ld.global.u32 %r2, [own]; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r1;
    st.param.b32 [r], %r1; ret;
}
.file 1 "other.cu"
.section .debug_str { info: .b8 1, 2 }
"""
)


@pytest.mark.parametrize("texts", [(MAIN, OTHER), (OTHER, MAIN)], ids=["main first", "main last"])
def test_functions_and_variables_are_linked(texts: tuple[str, str]) -> None:
    ptx = join(texts)
    out = np.zeros(1, np.uint32)
    launch(Program.from_ptx(ptx, "k"), 1, 1, (out,))
    assert out[0] == 2 * (10 + 100 + 1)
    assert ptx.count(".version") == 1
    assert ".version 8.3" in ptx
    lines = Program.from_ptx(ptx, "k").source_lines.values()
    assert {"main.py:7", "other.cu:3"} <= set(lines)


def test_places_of_inlined_code_are_numbered_consecutively() -> None:
    name = ".section .debug_str { $s: .b8 107, 0 }"
    inlined = ".loc 1 9 0, function_name $s, inlined_at 2 7 0\n    ld.param.u64 %rd1, [out];"
    main = MAIN.replace("ld.param.u64 %rd1, [out];", inlined).replace(".loc 1 7 0", ".loc 2 7 0")
    main = main.replace('.file 1 "main.py"', f'.file 1 "lib.py"\n.file 2 "main.py"\n{name}')
    joined = join([OTHER, main])
    table = listing.line_table(parse(joined)).values()
    assert {("lib.py:9", "main.py:7"), ("other.cu:3",)} <= set(table)
    assert assembler.resources(joined, "k", (9, 0)).registers_per_thread > 0


def test_the_assembler_accepts_joined_ptx() -> None:
    assert assembler.resources(join([MAIN, OTHER]), "k", (9, 0)).registers_per_thread > 0


def test_one_module_stays_as_it_is() -> None:
    module = parse(MAIN)
    assert joining.join([module]) is module


def test_weak_definitions_are_replaced() -> None:
    strong = HEAD.format("8.0") + ".visible .func shared_one () { trap; ret; }\n"
    for texts in ([OTHER, strong], [strong, OTHER], [OTHER.replace(".visible", ".weak"), OTHER]):
        ptx = join(texts)
        assert ptx.count("shared_one()") == 2  # its declaration and its definition
        assert ("trap" in ptx) == (strong in texts)


def test_a_name_defined_twice_is_refused() -> None:
    with pytest.raises(PtxError, match="define each name once \\(got 'twice' twice\\)"):
        join([OTHER, OTHER.replace("shared_one", "another").replace("base", "basis")])


def test_joined_builds_for_the_debugger_can_be_assembled() -> None:
    """The joined text has no debug information, which the assembler would miss in a build that is called one."""
    texts = [text.replace(".target sm_90", ".target sm_90, debug") for text in (MAIN, OTHER)]
    assert parse(texts[0]).debug
    assert Program.from_ptx(join(texts), "k").resources((9, 0)).registers_per_thread > 0
