"""Leftovers of launches, of two parallel programs and of a killed one: the benchmark's measurement, in small."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
if shutil.which("g++") is None:
    pytest.skip("not run: the host has no C++ compiler", allow_module_level=True)

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "cuda_launches.py"


@pytest.mark.volume  # with fewer launches a leak is no larger than the allocator's variation
def test_launches_and_programs_leave_nothing() -> None:
    command = [sys.executable, SCRIPT, "--launches", "4000", "--warm", "300", "--slack", "1048576"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "left by a program that is killed: nothing" in ran.stdout
