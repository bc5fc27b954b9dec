"""Every example in a docstring runs and prints what the docstring shows."""

from __future__ import annotations

import doctest
import importlib

import pytest
from source_tree import Module, modules


@pytest.mark.parametrize("module", [m for m in modules() if ">>>" in m.text], ids=lambda m: m.name or "tilewright")
def test_examples_run(module: Module, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    if module.name == "backends.opencl.product":  # its example multiplies on this machine's device
        request.getfixturevalue("opencl_device")
    if module.name in ("torch", "multiply.engine.libraries.torch_operator"):
        pytest.importorskip("torch", reason="not run: torch is not installed")
    loaded = importlib.import_module(f"tilewright.{module.name}".rstrip("."))
    outcome = doctest.testmod(loaded, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 0
    assert outcome.failed == 0, capsys.readouterr().out
