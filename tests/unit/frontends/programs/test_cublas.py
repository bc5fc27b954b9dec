"""Programs that call cuBLAS: their source is compiled with our header, and the simulated GPU answers the calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright import catalogue, machine
from tilewright.frontends.cublas import answers, calls, header
from tilewright.observe.prediction.products import Product, predict_product

HERE = Path(__file__).parent
PRINTED = """\
sgemm CUBLAS_STATUS_SUCCESS, 0 wrong
counts of 64 bits CUBLAS_STATUS_SUCCESS, 0 wrong, largest at 196
halves CUBLAS_STATUS_SUCCESS, 0 wrong
added by a type of CUDA 10, 0 wrong
strided CUBLAS_STATUS_SUCCESS, 0 wrong
batched, 0 wrong
captured, 0 before, 0 wrong
numbers on the device, 0 wrong, largest at 196, norm 6.0828
lda CUBLAS_STATUS_INVALID_VALUE
beyond CUBLAS_STATUS_EXECUTION_FAILED
handle not initialized
"""


def tilewright(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_a_program_s_products_are_those_of_its_kernel() -> None:
    ran = tilewright("run", str(HERE / "cublas.cu"))
    assert (ran.returncode, ran.stdout) == (0, PRINTED), ran.stderr
    assert "cublasSgemm_v2: CUBLAS_STATUS_INVALID_VALUE: `lda` must be at least 65 (got 1)" in ran.stderr
    assert "memory must be in one allocation" in ran.stderr
    assert "`handle` must be one that cublasCreate gave" in ran.stderr


def test_check_judges_what_a_product_reads(tmp_path: Path) -> None:
    source = (HERE / "cublas.cu").read_text()
    clean = tilewright("check", str(HERE / "cublas.cu"))
    assert clean.returncode == 0, clean.stdout
    unset = tmp_path / "unset.cu"
    unset.write_text(source.replace("cublasSetMatrix(K, N, 4, b.data(), K, B, K);", ""))
    found = tilewright("check", str(unset))
    assert (found.returncode, "TW205" in found.stdout) == (1, True), found.stdout
    assert "→ in the program  10 times\n" in found.stdout and "typer" not in found.stdout


def test_a_program_of_several_files_is_compiled_with_the_compiler_s_words(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "run.h").write_text("void run(int size);\n")
    (tmp_path / "run.cu").write_text(
        """#include <cstdio>
#include <run.h>
__global__ void fill(int *out) { *out = STEP; }
void run(int size) {
    int *at, host;
    cudaMalloc(&at, 4);
    fill<<<1, 1>>>(at);
    cudaMemcpy(&host, at, 4, cudaMemcpyDeviceToHost);
    printf("%d %d\\n", host, size);
}
"""
    )
    (tmp_path / "main.cu").write_text(
        "#include <cstdlib>\n#include <run.h>\nint main(int, char **words) { run(atoi(words[1])); }\n"
    )
    names = [str(tmp_path / name) for name in ("main.cu", "run.cu")]
    words = [f"-I{tmp_path}/include", "-arch=sm_80", "-O2", "-DSTEP=7", "-lcublas"]
    ran = tilewright("run", *names, *words, "512", "-DSTEP=8")
    assert (ran.returncode, ran.stdout) == (0, "7 512\n"), ran.stderr
    ended = tilewright("run", *names, *words, "--", "-3")
    assert (ended.returncode, ended.stdout) == (0, "7 -3\n"), ended.stderr


def test_a_ladder_of_kernels_is_judged_by_cublas_and_has_its_tensor_cores() -> None:
    """nvcc 13.5 compiles `-arch=compute_90a` for compute_90 too, which has no warp groups' products."""
    sources = [str(HERE / name) for name in ("ladder.cu", "ladder_rungs.cu")]
    words = [f"-I{HERE}", "-O3", "-DNDEBUG", "-w", "--expt-relaxed-constexpr", "-Xcompiler=-fPIE", "-arch=sm_90a"]
    ran = tilewright("run", "--gpu", "h100", *sources, *words, "-lcublas", "-lcuda", "0", "1", "2")
    rungs = [f"rung {rung}: cudaSuccess, 0 wrong, timed 1\n" for rung in range(3)]
    assert (ran.returncode, ran.stdout) == (0, "".join(rungs)), ran.stderr


def test_predict_gives_a_product_the_time_of_our_kernel() -> None:
    ran = tilewright("predict", "--json", "--gpu", "h100", str(HERE / "products.cu"))
    found = json.loads(ran.stdout)
    rows = [(one["call"], one["shape"], one["dtype"], one["products"]) for one in found["library"]]
    assert rows == [
        ("cublasSgemm", [64, 128, 256], "float32", 3),
        ("cublasSgemmBatched", [64, 128, 256], "float32", 2),
        ("cublasGemmEx", [64, 128, 256], "float16", 1),
        ("cublasCgemm", [32, 32, 32], "complex64", 1),
        ("cublasLtMatmul", [64, 128, 256], "float32", 1),
    ]
    complexes = found["library"].pop(3)
    for one in found["library"]:
        alone = predict_product(
            catalogue.find(one["kernel"]), Product(128, 64, 256, one["dtype"]), machine.gpu("h100"), changes=False
        )
        assert one["seconds"] == alone.seconds
    assert (complexes["kernel"], complexes["seconds"]) == (None, None)
    assert "cublasCgemm has no prediction" in ran.stderr
    shown = tilewright("predict", "--gpu", "h100", str(HERE / "products.cu")).stdout
    assert max(map(len, shown.splitlines())) <= 80 and "a time is that of our kernel" in " ".join(shown.split())


@pytest.mark.parametrize("name", ["cublas_v2.h", "cublasLt.h"])
def test_the_headers_are_what_the_tables_make(name: str) -> None:
    written = HERE.parents[3] / "src/tilewright/frontends/programs/include" / name
    assert written.read_text() == header.text(name), f"run: python -m tilewright.frontends.cublas.header {name} > it"


def test_every_function_has_an_implementation() -> None:
    assert all(one.statements or callable(answers.answer_of(one)) for one in calls.functions())
