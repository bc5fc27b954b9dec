"""CUDA C++ through NVRTC: its errors, its headers, and memory that it must not change."""

from __future__ import annotations

import pytest

from tilewright.drivers.linking import _compiled
from tilewright.errors import CompileError
from tilewright.programs.nvrtc import compile_cuda

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
