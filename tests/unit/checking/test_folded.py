"""Local arrays that the compiler keeps in registers are named, and `--debug` checks them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from examples import printed

import tilewright as tw
from tilewright.checking import folded
from tilewright.cli.app import program_command
from tilewright.programs import Program

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
        ("float sum[4];", "n & 3", False),  # in local memory, as the index is not known
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


def test_debug_finds_what_is_only_named_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "")
    program = tmp_path / "program.cu"
    program.write_text(KERNEL % ("float sum[4];", "400") + MAIN)
    screen, status = printed(["tilewright", "check", str(program)], program_command())
    assert (status, "no findings" in screen) == (0, True), screen
    screen, status = printed(["tilewright", "check", "--debug", str(program)], program_command())
    assert status == 1
    assert f"{program}:5" in screen
    assert "TW104" in screen
    program.write_text(KERNEL % ("float sum[4];", "3") + MAIN)
    screen, status = printed(["tilewright", "check", "--debug", str(program)], program_command())
    assert (status, "no findings" in screen) == (0, True), screen


def test_checks_keep_the_names_of_such_kernels(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text((KERNEL % ("float sum[4];", "1")).replace("#include <cstdio>", ""))
    from tilewright.checking import Checks

    checks = Checks()
    with tw.simulated_gpu("h100", observers=[checks]):
        tw.simt.launch(Program.from_cuda(file, "sums"), 1, 32, (np.zeros(32, np.float32), np.int32(32)))
    assert list(checks.folded) == ["sums"]
