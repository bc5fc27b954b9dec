"""Names of packages are replaced when the program imports them, even if it looked for them before."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontends import imported


def test_a_request_for_a_spec_alone_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "waited_for_here.py").write_text("answer = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    table: Any = ModuleType("table_of_names")
    table.rows = lambda gpu: [("waited_for_here", "answer", 42)]
    monkeypatch.setitem(sys.modules, "table_of_names", table)
    monkeypatch.setattr(imported, "replacing", lambda: {"waited_for_here": "table_of_names"})
    packages = imported.Packages(None)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "meta_path", [packages, *sys.meta_path])
    assert importlib.util.find_spec("waited_for_here") is not None
    module: Any = importlib.import_module("waited_for_here")
    assert module.answer == 42
    packages.put_back()
    assert module.answer == 1
    del sys.modules["waited_for_here"]


@pytest.mark.parametrize("stand_in", [None, ModuleType("of the program")], ids=["blocked", "a stand-in"])
def test_packages_that_are_blocked_or_replaced_are_left_alone(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda: Any = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

    @cuda.jit  # type: ignore[untyped-decorator]
    def add_one(x: Any) -> None:
        x[cuda.grid(1)] += 1

    for name in ("torch", "triton", "cupy", "cutlass", "numba_cuda_mlir"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    with tw.simulated_gpu("a100"):
        x = cuda.to_device(np.zeros(32, "f4"))
        add_one[1, 32](x)
        assert (tw.matmul(x, x.reshape(32, 1)).copy_to_host() == 32).all()


NUMBAS_OWN = """
import subprocess
import sys
import tilewright as tw
sys.modules["numba_cuda"] = None  # as where Numba is installed alone
with tw.simulated_gpu():
    try:
        from numba import cuda
    except tw.errors.MissingExtraError as error:
        print(error)
"""


def test_numbas_own_target_is_refused_with_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", NUMBAS_OWN], capture_output=True, text=True, check=False)
    assert "Running kernels of numba.cuda needs numba-cuda, which is not installed" in done.stdout, done.stderr
    assert done.returncode == 0
