"""The table of machine instructions: each that the assembler emits has a row, and others are reported."""

from __future__ import annotations

import pytest

from tilewright import catalogue, machine
from tilewright.observe.prediction import opcodes, pipes
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.simulate.programs.disassembler import disassembled

pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")

CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
KERNELS = [
    pytest.param(record.name, cc, id=f"{record.name}-{cc}")
    for record in catalogue.records() if record.backend == "gpu"
    for cc in CAPABILITIES if not record.unfit(cc)
]  # fmt: skip


def unknown(name: str, cc: tuple[int, int]) -> set[str]:
    record = catalogue.find(name)
    cc = record.cc if record.family else cc
    programs = [record.program(dtype, cc) for dtype in record.dtypes]
    return {
        name for program in programs
        for name in opcodes.unknown(one.name for one in disassembled(program.ptx, program.entry, cc))
    }  # fmt: skip


@pytest.mark.parametrize(("name", "cc"), [("tiled", (12, 0)), ("results_8", (7, 5))], ids=str)
def test_what_the_assembler_emits_has_a_row(name: str, cc: tuple[int, int]) -> None:
    assert unknown(name, cc) == set()


@pytest.mark.volume
@pytest.mark.parametrize(("name", "cc"), KERNELS)
def test_what_the_assembler_emits_of_each_kernel_has_a_row(name: str, cc: tuple[int, int]) -> None:
    assert unknown(name, cc) == set()


def test_an_instruction_without_a_row_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    record, product, gpu = catalogue.find("results_8"), Product(64, 64, 64), machine.gpu("a6000")
    assert predict_product(record, product, gpu).notes == ()
    known = dict(opcodes._rows())
    del known["IADD3"]
    monkeypatch.setattr(opcodes, "_rows", lambda: known)
    assert predict_product(record, product, gpu).notes == (
        "taken for ALU instructions, being unknown to the model: IADD3",
    )


@pytest.mark.parametrize(
    ("name", "what"), [("OMMA", "tensor cores"), ("UTMAREDG", "bulk reductions"), ("TEX", "textures")]
)
def test_unknown_instructions_are_refused_by_name(name: str, what: str) -> None:
    with pytest.raises(Exception, match=f"got {name}, of {what}"):
        pipes.taken(name, machine.gpu("a6000"))


def test_every_row_has_a_pipe_or_is_refused() -> None:
    rows = opcodes._rows()
    pipe_less = {row.pipe for row in rows.values()} - {*pipes._NUMBERS, "memory"}
    assert pipe_less == {"orders", "tensor cores", "bulk reductions", "textures"}
    assert all((row.pipe == "memory") == bool(row.access) for row in rows.values())
