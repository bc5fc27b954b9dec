"""Programs that call cuBLASLt: their descriptors are in their own memory, and the simulated GPU answers the calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("cublaslt.cu")
PRINTED = """\
search CUBLAS_STATUS_SUCCESS, 3 found
bias and ReLU success, 0 wrong
bias and ReLU success, 0 wrong
bias and ReLU success, 0 wrong
gradient by its mask, 0 wrong
bytes CUBLAS_STATUS_SUCCESS, 0 wrong
floats of 8 bits CUBLAS_STATUS_SUCCESS, 0 wrong
by rows, captured, 0 before; by columns again, 0 wrong
algorithm CUBLAS_STATUS_SUCCESS, tile 20 of 4 bytes
order CUBLAS_STATUS_INVALID_VALUE
shapes CUBLAS_STATUS_INVALID_VALUE
beyond CUBLAS_STATUS_EXECUTION_FAILED
nowhere CUBLAS_STATUS_INVALID_VALUE
"""


def tilewright(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_a_program_s_layers_are_those_of_its_kernel() -> None:
    ran = tilewright("run", str(SOURCE), "-lcublasLt", "-lcublas")
    assert (ran.returncode, ran.stdout.rpartition("versions")[0]) == (0, PRINTED), ran.stderr
    assert ran.stdout.endswith(", handle CUBLAS_STATUS_NOT_INITIALIZED\n")
    assert (
        "cublasLtMatmul: CUBLAS_STATUS_INVALID_VALUE: `Cdesc` must have an ld of at least 2048 (got 48)" in ran.stderr
    )
    assert "shapes of op(A) op(B), C and D must fit (got [(32, 64), (32, 64), (64, 48), (64, 48)])" in ran.stderr
    assert "`handle` must be one that cublasCreate gave" in ran.stderr


def test_check_judges_what_an_epilogue_reads(tmp_path: Path) -> None:
    clean = tilewright("check", str(SOURCE))
    assert clean.returncode == 0, clean.stdout
    unset, text = tmp_path / "unset.cu", SOURCE.read_text()
    given = "set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, Bias);"
    assert given in text
    unset.write_text(text.replace(given, f"void *unset; cudaMalloc(&unset, 2 * M); {given.replace('Bias', 'unset')}"))
    found = tilewright("check", str(unset))
    assert (found.returncode, found.stdout.count("TW205"), found.stdout.count("TW2")) == (1, 1, 1), found.stdout
