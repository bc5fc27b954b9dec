"""What `tilewright run`, `check` and `profile` share: programs that never end, raise, or are interrupted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

Run = Callable[..., Any]

#: Two kernels: one with a race, and one that waits for a value that nobody writes.
KERNELS = """\
import sys
import numpy as np
from numba import cuda

@cuda.jit
def race(x):
    tile = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    x[i] = tile[63 - i]

@cuda.jit
def endless(x):
    while x[0] == 0:
        x[1] = 1

x, y = (cuda.to_device(np.zeros(64, np.float32)) for _ in range(2))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a program of these kernels into an empty folder and go there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    numbers = iter(range(99))

    def write(rest: str, kernels: str = KERNELS) -> str:
        name = f"program{next(numbers)}.py"  # lines of files are kept by their names
        (tmp_path / name).write_text(kernels + rest)
        return name

    return write


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Exceptions that ended programs; the tests' command line refuses tracebacks."""
    errors: list[BaseException] = []
    monkeypatch.setattr(sys, "__excepthook__", lambda _kind, error, _frames: errors.append(error))
    return errors


@pytest.mark.parametrize("command", ["run", "check", "profile"])
def test_a_launch_that_never_ends_is_given_up(
    tilewright: Run, program: Any, told: list[BaseException], command: str
) -> None:
    name = program("race[1, 64](x)\nendless[1, 32](y)\nprint('never')\n")
    done = tilewright(command, "--limit", "0.5", name)
    assert done.status == 1
    assert [type(error).__name__ for error in told] == ["SimulatedLaunchError"]
    assert "[702] CUDA_ERROR_LAUNCH_TIMEOUT: endless: passed its limit of 0.5 seconds" in str(told[0])
    assert "never" not in done.out.splitlines()
    if command == "check":  # what came before is told all the same
        assert "TW301 error" in done.out
    if command == "profile":
        assert "race  grid 1x1x1" in done.out
        assert "endless: its launch has no profile" in done.err


def test_a_launch_within_the_limit_is_as_without(tilewright: Run, program: Any) -> None:
    done = tilewright("run", "--limit", "60", program("race[1, 64](x)\nprint('done')\nsys.exit(3)\n"))
    assert (done.status, done.out) == (3, "done\n")
