"""Optional parts that are installed in another form than needed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import MissingExtraError
from tilewright.simulate.programs import optional


def test_numba_s_own_cuda_is_not_mistaken_for_numba_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba-cuda replaces Numba's own by a .pth file, which Python does not read in folders of PYTHONPATH."""
    found = importlib.util.find_spec

    def finding(name: str, *more: Any) -> ModuleSpec | None:
        own = ModuleSpec(name, None, origin="/packages/numba/cuda/__init__.py")
        return own if name == "numba.cuda" else found(name, *more)

    pytest.importorskip("numba_cuda", reason="not run: numba-cuda is not installed")
    optional.require("numba.cuda", "This")
    monkeypatch.setattr(importlib.util, "find_spec", finding)
    with pytest.raises(MissingExtraError, match=r"needs numba-cuda, but numba\.cuda is Numba's own .*environment"):
        optional.require("numba.cuda", "This")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="files of a process are listed as Linux lists them")
def test_nvrtc_has_its_other_library_whatever_the_program_imports() -> None:
    """Some releases do not look for it in their own folder, and torch, which loads it, need not be imported."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="not run: the compilers extra is not installed")
    text = f"from {optional.__name__} import with_vendor_library as load; load('cuda.bindings.nvrtc', 'This'); "
    text += "print(open('/proc/self/maps').read().count('libnvrtc-builtins.so') > 0)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
