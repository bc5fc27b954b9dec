"""Checks of one launch: findings, errors, and memory that stays unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_programs import flipped
from numba import cuda
from ptx_kernels import kernel

import tilewright as tw
from tilewright.checking import check
from tilewright.errors import ArgumentTypeError, ArgumentValueError, LaunchError, LimitError, TrapError
from tilewright.simt import Limits, Memory
from tilewright.simulate.run.staging import SpacedArray, spaced

CLEAN = "st.global.u32 [%at], %gid;"


def codes(body: str, *args: Any, grid: Any = (1, 1, 1), block: Any = (32, 1, 1), **options: Any) -> list[str]:
    given = args or (np.zeros(64, np.uint32),)
    declarations = ".shared .align 8 .b8 s[64]; .local .align 8 .b8 l[64];"
    return [f.code for f in check(kernel(body, declarations=declarations), grid, block, given, **options)]


@cuda.jit
def total_of_rows(image, out):
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for j in range(image.shape[1]):
            total += image[i, j]
        out[i] = total  # tilewright: ignore[TW101]


@cuda.jit
def quiet_total(image, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0.5 * image[i, 0] + 0.1 * image[i, 1]  # tilewright: ignore[TW601]


def test_check_is_public() -> None:
    assert tw.check is check


def test_a_clean_kernel_runs_and_writes_the_arrays() -> None:
    out = np.zeros(64, np.uint32)
    assert codes(CLEAN, out, block=(64, 1, 1)) == []
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("ld.global.u32 %r1, [%at+1];", "TW102"),
        ("ld.global.u32 %r1, [%at+1000000000];", "TW101"),
        ("ld.global.u32 %r1, [%at+-256];", "TW101"),
        ("ld.shared.u32 %r1, [s+1000000];", "TW103"),
        ("ld.local.u32 %r1, [l+1000000];", "TW104"),
        ("mov.u64 %d1, 0; ld.u32 %r1, [%d1+8];", "TW101"),
        ("mov.u64 %d1, 0x1234567890; st.u32 [%d1], 1;", "TW101"),
        ("mov.u64 %d1, 0xdeadbeefdeadbee0; atom.add.u32 %r1, [%d1], 1;", "TW101"),
        ("cvta.shared.u64 %d1, s; ld.u32 %r1, [%d1+1000000];", "TW103"),
        ("cvta.local.u64 %d1, l; ld.u32 %r1, [%d1+1000000];", "TW104"),
        ("ld.u32 %r1, [%at+1];", "TW102"),
        ("mov.u32 %r1, 33; bar.sync 1, %r1;", "TW403"),
        ("bar.sync 1, 64;", "TW403"),
        ("add.u32 %r1, %block, 16; bar.sync %r1;", "TW401"),
        ("add.u32 %r2, %r1, 1; st.global.u32 [%at], %r2;", "TW204"),
    ],
)
def test_an_error_of_the_machine_is_a_finding(body: str, code: str) -> None:
    assert code in codes(f"{body} {CLEAN}")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"block": (64, 32, 1)}, "TW502", "a block has 2,048 threads (64 x 32 x 1), and may have 1,024"),
        ({"block": (1, 1, 65)}, "TW502", "a block has 65 threads in z (1 x 1 x 65), and may have 64"),
        ({"grid": (1, 65536, 1)}, "TW504", "the grid has 65,536 blocks in y, and may have 65,535"),
        ({"grid": 4}, None, None),
        ({"grid": 4, "block": 32}, None, None),
        (
            {"shared_bytes": 300_000},
            "TW505",
            "a block takes 300,000 bytes of shared memory (0 static, 300,000 dynamic)",
        ),
    ],
)
def test_launches_that_no_gpu_accepts(options: dict[str, Any], code: str | None, said: str | None) -> None:
    out = np.zeros(256, np.uint32)
    program = kernel(CLEAN)
    found = check(program, **({"grid": (1, 1, 1), "block": (32, 1, 1), "args": (out,)} | options))
    assert [f.code for f in found] == ([code] if code else [])
    if found:
        assert said in found[0].message
        assert program.ptx.splitlines()[found[0].ptx_line - 1].startswith(".visible .entry k")
        assert not out.any(), "it is not run"


def test_limits_depend_on_the_gpu() -> None:
    assert codes(CLEAN, shared_bytes=150_000, gpu="a100") == []
    assert codes(CLEAN, shared_bytes=150_000, gpu="rtx4090") == ["TW505"]
    with pytest.raises(ArgumentValueError, match="h100"):
        codes(CLEAN, gpu="h1000")


@pytest.mark.parametrize(
    ("body", "args", "options", "error"),
    [
        ("trap;", (), {}, TrapError),
        ("L: bra L;", (), {"limits": Limits(instructions=10_000)}, LimitError),
        (CLEAN, (1, 2), {}, LaunchError),
        (CLEAN, (np.zeros(3, object),), {}, ArgumentTypeError),
        (CLEAN, (), {"grid": "x"}, LaunchError),
        (CLEAN, (), {"grid": (-1, 1, 1)}, LaunchError),
        (CLEAN, (), {"ignore": ["TW1"]}, ArgumentValueError),
    ],
)
def test_other_errors_stay_errors(body: str, args: Any, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        codes(body, *args, **options)


def test_an_array_is_unset_until_it_is_written() -> None:
    memory = Memory()
    reads = f"ld.global.u32 %r1, [%at]; {CLEAN}"
    for fill, expected in ((False, ["TW201"]), (True, [])):
        out = memory.empty(32, np.uint32)
        if fill:
            out.view()[...] = 1
        assert codes(reads, out) == expected
        assert codes(reads, out) == [], "the launch wrote it"
    assert codes(reads, memory.array(np.zeros(32, np.uint32))) == []


def test_the_callers_memory_is_unchanged() -> None:
    memory = Memory()
    out = memory.empty(32, np.uint32)
    before = memory.allocations()
    for body in (CLEAN, "trap;", "ld.global.u32 %r1, [%at+1];"):
        try:
            codes(body, out)
        except TrapError:
            pass
        assert (memory.allocations(), memory.red_zones) == (before, False)
    assert out.to_host().tolist() == list(range(32))


def test_an_index_beyond_its_row_is_found_inside_the_array() -> None:
    image, out = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((6, 4), np.float32)
    assert check(flipped, (1, 1), (8, 8), (image, out)) == ()
    assert out.tolist() == image.T.tolist(), "gaps are not copied back"
    wrong = np.zeros((4, 6), np.float32)
    found = check(flipped, (1, 1), (8, 8), (image, wrong))
    assert [(f.code, f.details["array"]) for f in found] == [("TW101", "out")]
    found = check(flipped, (1, 1), (8, 8), (image, np.zeros((7, 3), np.float32)))
    assert [(f.code, f.details["array"]) for f in found] == [("TW107", "out")]


def test_the_same_array_twice_stays_one() -> None:
    image = np.zeros((4, 4), np.float32)
    program, args = spaced(flipped, (image, image))
    assert args[0] is args[1]
    assert isinstance(args[0], SpacedArray)
    assert program.arguments[0].layout == "A"
    assert [f.code for f in check(flipped, 1, (4, 4), (image, image))] == ["TW304"]


def test_comments_and_codes_suppress() -> None:
    image, out = np.ones((4, 5), np.float32), np.zeros(4, np.float32)
    found = check(total_of_rows, 1, 32, (image, out))
    assert [f.code for f in found] == ["TW601"]
    text = Path(__file__).read_text(encoding="utf-8").splitlines()[found[0].line - 1]
    assert re.search(r"total \+= image\[i, j\]$", text)
    assert check(total_of_rows, 1, 32, (image, out), ignore=["TW601"]) == ()
    assert check(quiet_total, 1, 32, (image, out)) == ()
