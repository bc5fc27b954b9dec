"""`make docs` builds the pages without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples import ROOT


@pytest.mark.volume
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    for needed in ("sphinx", "furo", "myst_parser", "numpydoc"):
        pytest.importorskip(needed, reason="not run: `make docs` installs what it needs")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lessons" / "tiles.html").exists()
