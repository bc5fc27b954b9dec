"""CUDA C++ through NVRTC: what it says, and what it must leave alone."""

from __future__ import annotations

import pytest

from tilewright.errors import CompileError
from tilewright.gpu.nvrtc import compile_cuda
from tilewright.simulated.linking import _compiled

_SOURCE = 'extern "C" __global__ void nothing() {}'


def test_an_empty_log_leaves_pythons_own_bytes_alone() -> None:
    # NVRTC writes the log, a lone NUL here, into a `bytes`; those of length 1 are shared by the whole process
    with pytest.raises(CompileError):
        compile_cuda(_SOURCE, "missing", (9, 0), [], "file.cu", lineinfo=False)
    code, log = _compiled.__wrapped__(_SOURCE, "ptx", "file.cu", ())
    assert log == ""
    assert b".visible .entry nothing" in code
    assert [chr(i).encode("latin1")[0] for i in range(256)] == list(range(256))


def test_an_error_is_told_with_its_line() -> None:
    with pytest.raises(
        CompileError, match=r"file.cu:2: NVRTC could not compile `broken`: error: identifier \"y\" is unde"
    ):
        compile_cuda(
            'extern "C" __global__ void broken(int *x) {\n  *x = y;\n}', "broken", (9, 0), [], "file.cu", lineinfo=True
        )
