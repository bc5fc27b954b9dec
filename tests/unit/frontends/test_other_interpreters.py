"""Children of a program on the simulated GPU that another interpreter runs, without Tilewright among its packages."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from tilewright.frontends.children import in_children


def test_an_interpreter_without_tilewright_imports_numba_and_reports_the_lack(tmp_path: Path) -> None:
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    package = tmp_path / "packages" / "numba" / "cuda"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("loaded = 'numba itself'\n")
    with in_children("h100"):
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path / "packages")])
        done = subprocess.run(
            [tmp_path / "other" / "bin" / "python", "-c", "import numba.cuda; print(numba.cuda.loaded)"],
            env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "numba itself\n"), done.stderr
    assert "numba.cuda has no simulated GPU in" in done.stderr
    assert "Tilewright is not installed there" in done.stderr
    assert sys.executable not in done.stderr
