"""Reading the output of the vendor's disassembler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright import catalogue
from tilewright.simulate.programs import disassembler
from tilewright.simulate.programs.disassembler import NO_COUNTER, Instruction, disassembled

pytest.importorskip("cuda.pathfinder", reason="the gpu extra brings the disassembler")

#: As `nvdisasm --print-code --print-line-info-ptx --print-instruction-encoding` prints; the control bits of the upper
#: words were set by hand: stall 11 and counter 3 freed by the result; waits for 0 and 3, keeps the first operand.
TEXT = """
	.section	.text.k,"ax",@progbits
.text.k:
	//## File ".nv_debug_ptx_txt", line 7
        /*0000*/                   LDG.E.64 R4, [R2.64+0x8] ;     /* 0x0000000402047981 */
                                                                   /* 0x000ef6000c1e1900 */
.L_x_1:
        /*0010*/              @!P0 FFMA R1, R4.reuse, R5, R1 ;     /* 0x0000000504017223 */
                                                                   /* 0x0490c20000000001 */
	//## File ".nv_debug_ptx_txt", line 9
        /*0020*/               @P1 BRA `(.L_x_1) ;                 /* 0xffffffe000007947 */
                                                                   /* 0x000fea000383ffff */
//--------------------- .text.other
"""


def test_fields_of_an_instruction() -> None:
    code = disassembler._read(disassembler._section(TEXT, "k"))
    assert code == (
        Instruction("LDG.E.64", "", ("R4", "[R2.64+0x8]"), 7, None, 11, False, 3, NO_COUNTER, 0, 0),
        Instruction("FFMA", "@!P0", ("R1", "R4.reuse", "R5", "R1"), 7, None, 1, True, 3, 0, 9, 1),
        Instruction("BRA", "@P1", ("`(.L_x_1)",), 9, 1, 5, False, NO_COUNTER, NO_COUNTER, 0, 0),
    )


@pytest.mark.parametrize("cc", [(7, 5), (8, 6), (9, 0), (12, 0)])
def test_instructions_have_the_lines_of_their_ptx(cc: tuple[int, int]) -> None:
    program = catalogue.find("results_8").program("float32", cc)
    lines = program.ptx.splitlines()
    forms = {"FFMA": "fma.rn.f32", "LDG": "ld.global", "STG": "st.global", "LDS": "ld.shared", "STS": "st.shared"}
    code = disassembled(program.ptx, program.entry, cc)
    seen = [(one.name, lines[one.ptx_line - 1]) for one in code if one.name in forms]
    assert {name for name, _ in seen} == set(forms)
    assert all(forms[name] in line for name, line in seen)


def test_every_load_frees_a_counter_that_its_reader_waits_for() -> None:
    """If the control bits were read from wrong places, a load's register would be read too early."""
    program = catalogue.find("shared_memory_16").program("float32", (8, 6))
    code = disassembled(program.ptx, program.entry, (8, 6))
    pending: dict[str, int] = {}
    readers = 0
    for one in code:
        for operand in one.operands[1:]:
            register = operand.removesuffix(".reuse")
            if register in pending:
                assert one.waits >> pending.pop(register) & 1, one
                readers += 1
        if (
            one.name in ("LDG", "LDS") and one.sets < 6
        ):  # loads of shared memory end in order: the last may stand for all
            pending = {r: counter for r, counter in pending.items() if not one.waits >> counter & 1}
            pending[one.operands[0]] = one.sets
        elif one.target is not None or one.operands[:1]:
            pending = {r: counter for r, counter in pending.items() if not one.waits >> counter & 1}
    assert readers >= 4


def test_machine_code_is_kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The disassembler takes most of a second a run."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    program = catalogue.find("tiled").program("float32", (8, 6))
    asked = program.ptx, program.entry, (8, 6)
    first = disassembled.__wrapped__(*asked)
    monkeypatch.setattr(disassembler, "_text", lambda *_: pytest.fail("it is run again"))
    assert disassembled.__wrapped__(*asked) == first
