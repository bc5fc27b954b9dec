"""A few modules of numba-cuda's own tests, run on the simulated GPU; `make numba` runs them all."""

from __future__ import annotations

import pytest
from suite import compared, run_module

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
#: Small modules of many kinds: arguments and slices, records, constants, callbacks, errors, linked CUDA C++.
QUICK = (
    "cudapy.test_array_args",
    "cudapy.test_slicing",
    "cudapy.test_stream_api",
    "cudapy.test_userexc",
    "doc_examples.test_ffi",
)


def test_numba_cuda_s_own_tests_have_the_kept_results() -> None:
    assert compared(run_module(",".join(QUICK)), [*QUICK]) == []


def test_a_different_result_is_reported() -> None:
    def outcome(what: str) -> dict[str, str]:
        return {"outcome": what, "reason": "because"}

    name = "doc_examples.test_ffi::TestFFI::test_ex_linking_cu"
    shown = compared(
        {name: outcome("failed"), "doc_examples.test_ffi::x": outcome("passed")}, ["doc_examples.test_ffi"]
    )
    assert shown[0] == f"{name} failed, and passed before: because"
    assert "::x passed, and is new" in shown[1]
    assert (
        compared({name: outcome("skipped")}, ["doc_examples.test_ffi"])[0]
        == f"{name} was skipped, and ran before: because"
    )
    assert all("was not run" in line for line in shown[2:])
    assert len(shown) > 2
