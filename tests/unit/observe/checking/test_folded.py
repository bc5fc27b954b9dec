"""Local arrays that the compiler keeps in registers are checked in a second run of the first block."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import printed
from numba import cuda

import tilewright as tw
from tilewright.checking import Checks
from tilewright.cli.app import program_command
from tilewright.multiply.kernels import catalogue
from tilewright.observe.checking import folded
from tilewright.programs import Program
from tilewright.simulate.observer import Run
from tilewright.simulate.run.observed_launch import Alone

KERNEL = """#include <cstdio>
__global__ void sums(float *c, int n) {
    %s
    for (int i = 0; i < 4; i++) sum[i] = i;
    c[threadIdx.x] = sum[%s];
}
"""
MAIN = """int main() {
    float *c, h[32];
    cudaMalloc(&c, sizeof h);
    sums<<<1, 32>>>(c, 32);
    cudaMemcpy(h, c, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g\\n", h[0]);
}
"""


@pytest.mark.parametrize(
    ("declared", "index", "in_registers"),
    [
        ("float sum[4];", "1", True),
        ("const int k = 2; unsigned sum[2][2][1];", "0][1][0", True),
        ("float sum[4];", "n & 3", True),  # in local memory, as the index is not known; other accesses may be folded
        ("__shared__ float sum[4];", "1", False),
        ("float *sum = c; // float sum[4];", "1", False),
    ],
)
def test_arrays_in_registers_are_told_from_others(
    declared: str, index: str, in_registers: bool, tmp_path: Path
) -> None:
    file = tmp_path / "kernel.cu"
    text = (KERNEL % (declared, index)).replace("#include <cstdio>", "")
    file.write_text(text.replace("sum[i]", "sum[i / 2][i % 2][0]") if "][" in index else text)
    assert folded.holds_arrays(Program.from_cuda(file, "sums")) is in_registers


KERNELS = """
__global__ void past(float *c) {
    float sum[64];
    for (int i = 0; i < 64; i++) sum[i] = 0;
    for (int y = 0; y < %s; y++)
        for (int x = 0; x < 8; x++)
            sum[y * 8 + x] += y;
    for (int i = 0; i < 64; i++) c[i] = sum[i];
}
__global__ void unset(float *c) {
    float sum[8];
    for (int x = %s; x < 8; x++) sum[x] = x;
    for (int x = 0; x < 8; x++)
        c[x] = sum[x];
}
"""


@cuda.jit
def past(c):
    own = cuda.local.array(64, np.float32)
    for i in range(64):
        own[i] = i
    for y in range(9):
        own[y * 8] += 1  # past
    for i in range(64):
        c[i] = own[i]


@cuda.jit
def past_mended(c):
    own = cuda.local.array(64, np.float32)
    for i in range(64):
        own[i] = i
    for y in range(8):
        own[y * 8] += 1
    for i in range(64):
        c[i] = own[i]


@pytest.mark.parametrize(
    ("entry", "bounds", "code", "line"), [("past", (16, 0), "TW104", 7), ("unset", (8, 1), "TW203", 14)]
)
def test_what_was_folded_away_is_found_in_cuda(
    entry: str, bounds: tuple[int, int], code: str, line: int, tmp_path: Path
) -> None:
    file, c = tmp_path / "kernel.cu", np.zeros(64, np.float32)
    file.write_text(KERNELS % bounds)
    (found,) = tw.check(Program.from_cuda(file, entry), 1, 1, (c,))
    assert (found.code, found.line, found.details["variable"]) == (code, line, "sum")
    assert "; the array is `sum`" in found.message
    file.write_text(KERNELS % (8, 0))
    assert tw.check(Program.from_cuda(file, entry), 1, 1, (c,)) == ()


PARTLY = """
__global__ void partly(float *c, int n) {
    float sum[8], total = 0;
    for (int i = 0; i < 8; i++) sum[i] = 0;
    for (int k = 0; k < n; k++)
        sum[k %% %s] += c[k];
    for (int i = 0; i < %s; i++)
        total += sum[i];
    c[0] = total;
}
"""


@pytest.mark.parametrize(("wrap", "end", "line"), [(8, 9, 8), (11, 8, 6)])
def test_an_array_that_is_partly_in_memory_is_judged_in_both_parts(
    wrap: int, end: int, line: int, tmp_path: Path
) -> None:
    """The index in the loop is in the PTX, and the launch itself judges it; the sum's is folded away."""
    file, c = tmp_path / "kernel.cu", np.zeros(64, np.float32)
    file.write_text(PARTLY % (wrap, end))
    found = tw.check(Program.from_cuda(file, "partly"), 1, 1, (c, 20))
    assert {(one.code, one.line) for one in found} == {("TW104", line)}
    file.write_text(PARTLY % (8, 8))
    assert tw.check(Program.from_cuda(file, "partly"), 1, 1, (c, 20)) == ()


def test_what_was_folded_away_is_found_in_numba() -> None:
    c = np.zeros(64, np.float32)
    text = Path(__file__).read_text().splitlines()
    (line,) = (number for number, one in enumerate(text, 1) if one.endswith("# past"))
    (found,) = tw.check(past, 1, 1, (c,))
    assert (found.code, found.line, found.details["variable"]) == ("TW104", line, "own")
    assert tw.check(past_mended, 1, 1, (c,)) == ()
    assert (c[7], c[8]) == (7, 9)


PRINTING = """
__global__ void k(int *c, int n) {
    int sum[4];
    for (int i = 0; i < 4; i++) sum[i] = i;
    c[0] += sum[3];
    printf("once\\n");
}
__device__ int scale = 1;
"""


def test_the_second_run_leaves_no_output_and_no_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, c = tmp_path / "kernel.cu", np.zeros(1, np.int32)
    file.write_text(PRINTING)
    program, checks = Program.from_cuda(file, "k"), Checks()
    assert folded.holds_arrays(program)
    with tw.simulated_gpu("h100", observers=[checks]):
        run = tw.simt.launch(program, 1, 1, (c, np.int32(1)))
    assert (checks.findings, list(checks.folded), c.tolist()) == ((), [], [3])
    assert (run.printed, capsys.readouterr().out) == ("once\n", "")


def test_a_program_of_cuda_is_checked_with_its_local_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "")
    program = tmp_path / "program.cu"
    for index, wanted in (("400", 1), ("3", 0)):
        program.write_text(KERNEL % ("float sum[4];", index) + MAIN)
        screen, status = printed(["tilewright", "check", str(program)], program_command())
        assert (status, "in registers" in screen) == (wanted, False), screen
        assert (f"{program}:5" in screen, "TW104" in screen, "`sum`" in screen) == (bool(wanted),) * 3, screen


def test_debug_leaves_the_environment_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.cu"
    program.write_text(KERNEL % ("float sum[4];", "400") + MAIN)
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DMINE")
    screen, status = printed(["tilewright", "check", "--debug", str(program)], program_command())
    assert (status, "TW104" in screen, os.environ["NVCC_APPEND_FLAGS"]) == (1, True, "-DMINE")


SCRIPT = """
import numpy as np
from numba import cuda

@cuda.jit
def sums(c):
    own = cuda.local.array(4, np.float32)
    for i in range(4):
        own[i] = i
    c[0] = own[%s]

sums[1, 1](np.zeros(1, np.float32))
"""


@pytest.mark.parametrize(("index", "wanted"), [("4", 1), ("3", 0)])
def test_a_script_with_numba_is_checked_with_its_local_arrays(index: str, wanted: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT % index)
    screen, status = printed(["tilewright", "check", str(script)], program_command())
    assert (status, "TW104" in screen, f"{script}:10" in screen) == (wanted, bool(wanted), bool(wanted)), screen


ENDLESS = """
__global__ void k(float *c, int n) {
    float sum[4];
    for (int i = 0; i < 4; i++) sum[i] = i;
    for (int i = 0; i < n; i++) sum[i % 4 == 5] += c[i % 64];
    c[threadIdx.x] = sum[3];
}
"""


def test_a_kernel_whose_second_run_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded, "_INSTRUCTIONS", 1000)
    file, checks = tmp_path / "kernel.cu", Checks()
    file.write_text(ENDLESS)
    with tw.simulated_gpu("h100", observers=[checks]):
        tw.simt.launch(Program.from_cuda(file, "k"), 1, 32, (np.zeros(64, np.float32), np.int32(10_000)))
    assert (checks.findings, list(checks.folded)) == ((), ["k"])


def test_a_kernel_whose_second_build_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text(KERNELS % (16, 0))
    program = Program.from_cuda(file, "past")
    assert program.with_arrays is not None
    length = folded.length(program.with_arrays())
    for most, named in ((length - 1, ["past"]), (length, [])):
        monkeypatch.setattr(folded, "_LONGEST_BUILD", most)
        checks = Checks()
        with tw.simulated_gpu("h100", observers=[checks]):
            tw.simt.launch(program, 1, 1, (np.zeros(64, np.float32),))
        assert ([*checks.folded], len(checks.findings)) == (named, 1 - len(named))


def test_the_length_of_a_build_has_only_what_the_kernel_reaches(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text(KERNELS % (16, 0))
    alone = folded.length(Program.from_cuda(file, "past", options=["-G"]))
    file.write_text(
        KERNELS % (16, 0) + "__device__ float of_another(float x) { return x * x + 1; }\n"
        "__global__ void another(float *c) { for (int i = 0; i < 9; i++) c[i] = of_another(c[i]); }"
    )
    assert folded.length(Program.from_cuda(file, "past", options=["-G"])) == alone > 10
    assert folded.length(Program.from_cuda(file, "another", options=["-G"])) > 10


def test_the_second_run_of_a_register_tile_costs_less_than_half_of_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    record, size, counts = catalogue.find("thread_tile_1d"), 128, []
    run = Alone.run

    def counted(*given: Any) -> Run:
        counts.append(run(*given).warp_instructions)
        return run(*given)

    monkeypatch.setattr(Alone, "run", counted)
    a, c, shape = (
        np.ones((size, size), np.float32),
        np.zeros((size, size), np.float32),
        record.launch_rule(size, size, size),
    )
    checks = Checks()
    with tw.simulated_gpu("h100", observers=[checks]):
        launched = tw.simt.launch(record.program("float32"), shape.grid, shape.block, record.arguments(a, a, c))
    assert (checks.findings, list(checks.folded), len(counts)) == ((), [], 1)
    assert counts[0] < launched.warp_instructions / 2
