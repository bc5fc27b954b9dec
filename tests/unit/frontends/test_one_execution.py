"""A launch by `tilewright.simt.launch` runs once, and each observer sees what it would see alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.checking import Checks
from tilewright.errors import KernelError, LaunchError
from tilewright.instruments import Banks, Coalescing, Mix
from tilewright.observe.prediction.programs import Predictions
from tilewright.profiling import Profiles, profile
from tilewright.programs import Program
from tilewright.simt import Memory
from tilewright.simulate.observer import Observer
from tilewright.simulate.run.execution import Execution


@cuda.jit
def columns(a, out):
    """Reads what no thread has written, and columns of a row-major array."""
    i = cuda.threadIdx.x
    tile = cuda.shared.array(64, np.float32)
    tile[i] = a[i, 3]
    out[i] = tile[(i + 1) % 64]


@cuda.jit
def clean(a, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * a[i % a.shape[0], 3]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that the machine has run."""
    found: list[str] = []
    run = Execution.run

    def counted(execution: Execution) -> None:
        found.append(execution.launch.name)
        run(execution)

    monkeypatch.setattr(Execution, "run", counted)
    return found


def arrays() -> tuple[Any, ...]:
    return np.arange(64 * 8, dtype=np.float32).reshape(64, 8), np.zeros(64, np.float32)


@pytest.mark.parametrize(
    "kinds", [(), (Checks,), (Profiles,), (Checks, Profiles), (Checks, Profiles, Predictions)], ids=str
)
def test_a_kernel_runs_once_whoever_watches(kinds: tuple[Callable[[], Observer], ...], runs: list[str]) -> None:
    given, watching = arrays(), [kind() for kind in kinds]
    alone = tw.simt.launch(columns, 1, 64, given)
    assert len(runs) == 1
    with tw.simulated_gpu(observers=watching):
        watched = arrays()
        run = tw.simt.launch(columns, 1, 64, watched)
        assert runs == ["columns"] * 2
    assert [one.tobytes() for one in watched] == [one.tobytes() for one in given]
    assert (run.results, run.printed, run.grid, run.block) == ({}, "", alone.grid, alone.block)


def test_findings_and_profiles_are_those_of_the_commands(runs: list[str]) -> None:
    """Together with a twin without a defect: of its launch nothing is found."""
    profiles = Profiles()
    with tw.simulated_gpu(check=True, observers=[profiles]) as gpu:
        tw.simt.launch(columns, 1, 64, arrays())
        tw.simt.launch(clean, 1, 64, arrays())
        found = gpu.findings
    assert runs == ["columns", "clean"]
    expected = tw.check(columns, 1, 64, arrays())
    assert {one.code for one in expected} >= {"TW301"}
    assert [(one.code, one.line, one.message) for one in found] == [(o.code, o.line, o.message) for o in expected]
    for kernel, seen in zip((columns, clean), profiles.profiles, strict=True):
        alone = profile(kernel, 1, 64, arrays())
        same = replace(seen, launch=0, launched_at="", seconds=0.0, findings=())
        assert same == replace(alone, launch=0, launched_at="", seconds=0.0, findings=())


@pytest.mark.parametrize("kernel", [columns, clean])
def test_the_callers_instruments_do_not_depend_on_who_watches(kernel: Any) -> None:
    def counts() -> list[Any]:
        run = tw.simt.launch(kernel, 1, 64, arrays(), instruments=[Mix(), Coalescing(), Banks()])
        assert [*run.results] == ["mix", "coalescing", "banks"]
        return [run.warp_instructions, *run.results.values()]

    alone = counts()
    with tw.simulated_gpu(check=True, observers=[Profiles()]):
        assert counts() == alone


@cuda.jit
def beyond(a, out):
    out[cuda.threadIdx.x] = a[cuda.threadIdx.x, 8 - cuda.threadIdx.x]


def test_an_index_beyond_its_row_is_found_if_no_instrument_of_the_caller_counts_addresses() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        a, out = arrays()
        tw.simt.launch(beyond, 1, 8, (a, out))
        assert [one.code for one in gpu.findings] == [one.code for one in tw.check(beyond, 1, 8, arrays())]
        assert "TW107" in {one.code for one in gpu.findings}


def test_a_failed_launch_raises_once_and_is_a_finding(runs: list[str]) -> None:
    @cuda.jit
    def far(out):
        out[cuda.threadIdx.x + (1 << 20)] = 1

    out = np.zeros(32, np.float32)
    with tw.simulated_gpu(check=True) as gpu:
        with pytest.raises(KernelError, match="out of bounds"):
            tw.simt.launch(far, 1, 32, (out,))
        with pytest.raises(LaunchError, match="`block` must have at most 1,024 threads"):
            tw.simt.launch(far, 1, 2048, (out,))
        assert {one.code for one in gpu.findings} == {"TW101", "TW502"}
    assert runs == ["far"] and not out.any()


def test_arrays_whose_addresses_are_in_memory_stay_where_they_are(runs: list[str]) -> None:
    """A kernel that follows a pointer in memory writes the array itself, watched or not."""
    body = "table[0][threadIdx.x] += 1; x[threadIdx.x] *= 2;"
    program = Program.from_cuda(f'extern "C" __global__ void k(float **table, float *x) {{ {body} }}', "k")

    def written() -> list[float]:
        memory = Memory()
        x = memory.array(np.ones(4, np.float32))
        tw.simt.launch(program, 1, 4, (memory.array(np.array([x.address])), x))
        return [float(value) for value in x.to_host()]

    assert written() == [4.0] * 4
    with tw.simulated_gpu(check=True):
        assert written() == [4.0] * 4
    assert len(runs) == 2
