"""Names of packages are replaced when the program imports them, even if it looked for them before."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.drivers import imported


def test_a_request_for_a_spec_alone_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "waited_for_here.py").write_text("answer = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    table: Any = ModuleType("table_of_names")
    table.rows = lambda gpu: [("waited_for_here", "answer", 42)]
    monkeypatch.setitem(sys.modules, "table_of_names", table)
    monkeypatch.setattr(imported, "PACKAGES", {"waited_for_here": "table_of_names"})
    packages = imported.Packages(None)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "meta_path", [packages, *sys.meta_path])
    assert importlib.util.find_spec("waited_for_here") is not None
    module: Any = importlib.import_module("waited_for_here")
    assert module.answer == 42
    packages.put_back()
    assert module.answer == 1
    del sys.modules["waited_for_here"]
