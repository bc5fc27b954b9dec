"""Every intrinsic is compiled by numba-cuda and assembled by the vendor's assembler for the least GPU that has it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from intrinsic_kernels import RUN, assembled

from tilewright.errors import ArgumentValueError, CompileError
from tilewright.gpu.intrinsics import find, records
from tilewright.programs import Program
from tilewright.simulate.intrinsics.operands import Record

pytest.importorskip("numba.cuda")


def is_alike(record: Record) -> bool:
    """A product of warpgroups that others differ from in the number of sums alone: the fewest and the most are tried.

    Of the most, which take long, one product of each type of sums, and one that keeps them.
    """
    most = ("f32_f16", "f16_f16", "s32_s8", "f32_bf16_held")
    return bool(re.match(r"wgmma_m64n(64|128)k|wgmma_m64n256k", record.name)) and not (
        "n256" in record.name and record.name.endswith(most)
    )


@pytest.mark.parametrize("record", [
    pytest.param(record, id=record.name, marks=[pytest.mark.volume] if is_alike(record) else [])
    for record in records() if not record.name.startswith(RUN)
])  # fmt: skip
def test_it_is_compiled_and_assembled_for_the_least_gpu(record: Record) -> None:
    assembled(record)


def test_names_are_reported_apart() -> None:
    names = [record.name for record in records()]
    assert len(set(names)) == len(names)
    assert len({record.form for record in records()}) == len(names)


@pytest.mark.parametrize("record", records(), ids=lambda record: record.name)
def test_a_form_has_each_operand_once(record: Record) -> None:
    named = [operand for operand in record.operands if operand.name != record.updates]
    operands = [*named, *([record.result] if record.result else [])]
    texts = {operand.name: f"<{operand.name}>" for operand in operands}
    assert len(texts) == len(operands)
    found = re.findall(r"<\w+>", record.with_operands(texts))
    assert sorted(found) == sorted(texts.values())


def refused(text: str, cc: tuple[int, int] = (8, 0)) -> str:
    """What Numba says of a kernel's line with an intrinsic."""
    import numpy as np
    from numba import cuda

    from tilewright.gpu import intrinsics

    space = {"cuda": cuda, "np": np, "STAGES": 3, "i": intrinsics}
    names = re.findall(r"i\.(\w+)", text)
    for name in names:
        space[name] = getattr(intrinsics, name)
    exec(f"def kernel(x):\n    s = cuda.shared.array((8, 8), np.float16)\n    {text.replace('i.', '')}\n", space)
    with pytest.raises(CompileError) as caught:
        Program.from_python(space["kernel"], "void(float32[::1])", cc)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i.ldmatrix_x4(3, 0)", "`row` must be an array (got Literal[int](3))"),
        ("i.ldmatrix_x4(s, 0)", "`row_index` must be 2 integers, one for each axis"),
        ("i.ldmatrix_x4(s, (0, 1.5))", "`row_index` must be 2 integers"),
        ("i.cp_async_wait_group(x.size)", "`pending` must be a constant of 0 to 1023"),
        ("i.cp_async_wait_group(STAGES - 2)", "(got int64); compute it outside of the kernel"),
        ("i.cp_async_wait_group(2000)", "`pending` must be a constant of 0 to 1023"),
        ("i.st_global_v2_b32(x, 0, (x[0], 1.0 * x.size))", "`value` must be a tuple or row of 2 values of 32 bits"),
        ("i.st_global_v2_b32(x, 0, x[0])", "`value` must be a tuple or row of 2 values of 32 bits (got float32)"),
        ("i.mma_m16n8k8_f32_f16((x[0], x[1]), x[0], (0.0, 0.0, 0.0, 0.0))", "`c` must be a tuple or row of 4 values"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_refused_in_words(text: str, words: str) -> None:
    assert words in refused(text)


def test_an_older_gpu_is_refused_in_words() -> None:
    assembled(find("cp_async_wait_all"))  # what numba-cuda keeps of one GPU does not hold for another
    assert "cp_async_wait_all needs compute capability 8.0 or newer (compiling for 7.5)" in refused(
        "i.cp_async_wait_all()", (7, 5)
    )


def test_a_name_that_is_none_is_refused_in_words() -> None:
    from tilewright.gpu import intrinsics

    with pytest.raises(AttributeError, match=r"no attribute 'ldmatrix_x3'; docs/intrinsics.md lists"):
        _ = intrinsics.ldmatrix_x3
    with pytest.raises(ArgumentValueError, match="got 'ldmatrix_x3'"):
        find("ldmatrix_x3")


def test_nothing_of_numba_is_imported_before_an_intrinsic_is_asked_for() -> None:
    code = (
        "import sys\nfrom tilewright.gpu import intrinsics\nintrinsics.records()\nassert 'numba' not in sys.modules\n"
        "sys.modules['numba'] = None\ntry:\n    from tilewright.gpu.intrinsics import ldmatrix_x4\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtraError Intrinsics of kernels needs numba-cuda, which is not installed")
    assert "[gpu]'" in done.stdout


def test_help_shows_the_record() -> None:
    from tilewright.gpu.intrinsics import cp_async_cg_16_zfill

    assert "PTX: `cp.async.cg.shared.global [target], [source], 16, valid;`" in cp_async_cg_16_zfill.__doc__
    assert "target, target_index : element of shared memory, aligned to 16 bytes" in cp_async_cg_16_zfill.__doc__
