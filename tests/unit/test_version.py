"""The package's version, installed and in a checkout."""

from __future__ import annotations

import importlib
import re
from importlib import metadata

import pytest

from tilewright import version


def test_a_checkout_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    with monkeypatch.context() as patched:
        patched.setattr(metadata, "version", absent)
        assert importlib.reload(version).__version__ == "0+checkout"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", importlib.reload(version).__version__)
