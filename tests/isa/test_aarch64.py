"""Two faults in LLVM's code for AArch64, which forms avoid.

Both were found by running `tests/isa` on an emulated AArch64 processor; these tests only read the machine code.
"""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from harness import _FOOTER, function_text

from tilewright.simulate.isa import atomic, convert
from tilewright.simulate.isa.table import Table


def assembly(table: Table, name: str) -> str:
    form = table.find(name)
    assert form is not None
    text, declarations = function_text("f0", form, "scalar", ())
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(opt=1)
    module = llvm.parse_assembly("\n".join([*declarations.values(), text, _FOOTER]))
    return machine.emit_assembly(module)


@pytest.mark.parametrize("name", ["atom.cas.b128", "atom.global.cas.b128", "atom.shared.cas.b128"])
def test_a_swap_of_128_bits_is_a_call(name: str) -> None:
    # In line, the loop of ldxp and stxp changes flags that a later branch reads.
    loop = assembly(atomic.rows, name).split("f0:")[1].split(".Lfunc_end")[0]
    assert re.search(r"\bbl\ttw\.atom\.cas\.b128", loop)
    assert "xp\t" not in loop


@pytest.mark.parametrize("name", ["cvt.sat.f32.f32", "cvt.rn.sat.f16.f32", "cvt.rn.sat.bf16.f64", "cvt.sat.f64.f32"])
def test_saturation_compares_no_floats(name: str) -> None:
    # fmaxnm and fminnm give a NaN for one that signals.
    assert not re.search(r"\bf(max|min)", assembly(convert.rows, name))
