"""Profiles of a program's launches on the simulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_kernels import DOUBLE_IT

from tilewright import simt
from tilewright.errors import ArgumentValueError, MemoryAccessError
from tilewright.profiling import Profiles, profile
from tilewright.programs import Program
from tilewright.simulate.observer import Launch

PROGRAM = Program.from_ptx(DOUBLE_IT)


def run_program(seen: Profiles, sizes: list[int], names: list[str]) -> None:
    """Launch as a simulated GPU does, once for each size."""
    for index, (size, name) in enumerate(zip(sizes, names, strict=True)):
        launch = Launch(name, PROGRAM, (1, 1, 1), (32, 1, 1), 0, source_line=f"p.py:{10 + index}", index=index)
        run: Any = None
        error: Exception | None = None
        try:
            found = seen.instruments(launch)
            run = simt.launch(PROGRAM, 1, 32, (np.zeros(size, np.uint32),), instruments=found)
        except MemoryAccessError as wrong:
            error = wrong
        seen.finished(launch, run, error)


def test_every_launch_has_a_profile() -> None:
    seen = Profiles()
    run_program(seen, [32, 64], ["a", "b"])
    assert [(p.launch, p.launched_at) for p in seen.profiles] == [(0, "p.py:10"), (1, "p.py:11")]
    alone = profile(PROGRAM, 1, 32, (np.zeros(32, np.uint32),))
    assert [p.totals for p in seen.profiles] == [alone.totals, alone.totals]
    assert (seen.kernels, seen.launches, seen.failed) == (("a", "b"), 2, [])


@pytest.mark.parametrize(
    ("asked", "launches"), [({"kernel": "b"}, [1, 2]), ({"launch": 2}, [2]), ({"kernel": "a", "launch": 1}, [])]
)
def test_only_requested_kernels_are_profiled(asked: dict[str, Any], launches: list[int]) -> None:
    seen = Profiles(**asked)
    run_program(seen, [32, 32, 32], ["a", "b", "b"])
    assert [p.launch for p in seen.profiles] == launches
    assert seen.kernels == ("a", "b")


def test_a_launch_that_fails_is_reported() -> None:
    seen = Profiles(gpu="t4")
    run_program(seen, [0, 32], ["a", "b"])
    assert [p.launch for p in seen.profiles] == [1]
    ((name, error),) = seen.failed
    assert name == "a" and "out of bounds" in error


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(ArgumentValueError, match="a GPU must be one of"):
        Profiles(gpu="h1000")


def test_no_more_launches_are_kept_than_a_page_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.observe.profiling.programs.MOST_KEPT", 2)
    seen = Profiles(keep=True)
    run_program(seen, [64] * 4, ["a"] * 4)
    assert [one.profile.launch for one in seen.kept] == [2, 3]
    assert len(seen.profiles) == 4
