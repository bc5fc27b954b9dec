"""CUDA C++ through NVRTC: its errors, its headers, and memory that it must not change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tilewright.errors import ArgumentValueError, CompileError
from tilewright.simulate.device.linking import _compiled
from tilewright.simulate.programs.nvrtc import compile_cuda

_SOURCE = 'extern "C" __global__ void nothing() {}'


def test_an_empty_log_leaves_pythons_own_bytes_alone() -> None:
    # NVRTC writes the log, a lone NUL here, into a `bytes`; those of length 1 are shared by the whole process
    with pytest.raises(CompileError):
        compile_cuda(_SOURCE, "missing", (9, 0), [], "file.cu", lineinfo=False)
    code, log = _compiled.__wrapped__(_SOURCE, "ptx", "file.cu", ())
    assert log == ""
    assert b".visible .entry nothing" in code
    assert [chr(i).encode("latin1")[0] for i in range(256)] == list(range(256))


def test_an_error_is_reported_with_its_line() -> None:
    with pytest.raises(
        CompileError, match=r"file.cu:2: NVRTC could not compile `broken`: error: identifier \"y\" is unde"
    ):
        compile_cuda(
            'extern "C" __global__ void broken(int *x) {\n  *x = y;\n}', "broken", (9, 0), [], "file.cu", lineinfo=True
        )


def test_headers_of_c_that_files_of_kernels_include() -> None:
    includes = "assert.h cassert math.h stdio.h cstdio stdlib.h cstdlib stdint.h cstdint cuda_runtime.h".split()
    source = "\n".join(f"#include <{name}>" for name in includes) + "\n#include <cuda/std/cstdint>\n"
    source += """__global__ void k(uint8_t *x, int64_t n) {
        assert(n < 9); printf("%d", x[0]); free(malloc(4)); x[1] = sqrtf(x[0]) + static_cast<uint64_t>(n); }"""
    assert "sqrt" in compile_cuda(source, "k", (9, 0), (), "k.cu", lineinfo=True)[0]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            "typedef int a;\ntypedef int b;\n#line 1\n__global__ void k(int *p) {\n  nonsense(p);\n}\n",
            "2 |   nonsense(p);",
        ),
        ('#line 70 "other.cu"\n__global__ void k() { nonsense(); }', "70 | __global__ void k() { nonsense(); }"),
        ("# 7\n__global__ void k() {\n\tnonsense();\n}", "8 | \tnonsense();"),
        ("__device__ void f(int);\n__global__ void k() {\n  f(\n    1, 2);\n}", "4 |     1, 2);"),
        ("#define M nonsense()\n__global__ void k() {\n  M;\n}", "3 |   M;"),
        (
            "__device__ void f(int); void __device__ f(int, int);\n__global__ void k() {\n  f(k, k, k);\n}",
            "3 |   f(k, k, k);",
        ),
    ],
)
def test_an_error_shows_the_line_that_the_compiler_means(source: str, shown: str) -> None:
    with pytest.raises(CompileError) as raised:
        compile_cuda(source, "k", (9, 0), [], "k.cu", lineinfo=True)
    assert str(raised.value).splitlines()[1] == f"  {shown}"


@pytest.mark.parametrize(
    ("cc", "got"),
    [((7, 0), "7.0, which is too old for it"), ((5, 2), "5.2, which is too old"), ((9, 9), "9.9)"), ((99, 9), "99.9)")],
)
def test_a_gpu_that_the_compiler_does_not_know(cc: tuple[int, int], got: str) -> None:
    with pytest.raises(ArgumentValueError, match=r"`cc` must be of a GPU that NVRTC \d+\.\d+ compiles for: ") as raised:
        compile_cuda(_SOURCE, "nothing", cc, [], "file.cu", lineinfo=True)
    assert f"(got {got}" in str(raised.value)


def test_an_option_that_is_none_is_not_blamed_on_the_gpu() -> None:
    with pytest.raises(ArgumentValueError, match="`options` must be NVRTC options"):
        compile_cuda(_SOURCE, "nothing", (9, 0), ["--nonsense"], "file.cu", lineinfo=True)


OLDER = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)  # as torch's wheels load another release
from tilewright.programs import Program
program = Program.from_cuda("#include <cuda_fp8.h>\\n__global__ void k(int *x) { *x = 1; }", "k")
from cuda.bindings import nvrtc
print(nvrtc.nvrtcVersion()[1:])
"""


def test_the_compiler_is_that_of_its_own_package_whatever_release_is_loaded(tmp_path: Path) -> None:
    """A library with the name of an older release, which has no functions, is loaded first."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not run: there is no C compiler")
    source, library = tmp_path / "empty.c", tmp_path / "libnvrtc.so.12"
    source.write_text("int nothing;")
    subprocess.run([compiler, "-shared", "-Wl,-soname,libnvrtc.so.12", source, "-o", library], check=True)
    environment = os.environ | {"TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", OLDER, library], capture_output=True, text=True, check=False, env=environment
    )
    release = metadata.version("nvidia-cuda-nvrtc").split(".")[:2]
    assert (done.stdout, done.returncode) == (f"({release[0]}, {release[1]})\n", 0), done.stderr
