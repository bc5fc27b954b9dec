"""Optional parts that are installed in another form than needed."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
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
