"""Cases of torch's own tables on the simulated GPU; `torch_sample.py` says which, and prints those that do not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.volume
def test_the_sample_of_torch_s_own_cases_passes_or_is_refused_by_name() -> None:
    for package in ("torch", "expecttest"):
        pytest.importorskip(package, reason=f"not run: {package} is not installed")
    script = Path(__file__).with_name("torch_sample.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
