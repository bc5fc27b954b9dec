"""The SIMT machine: it runs the PTX that compilers emit, on the host's processor.

>>> from tilewright.simt import launch, Limits, Memory, Variables
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.simt.run.launch import Run, launch
    from tilewright.simt.run.limits import Limits
    from tilewright.simt.run.memory import DeviceArray, Memory
    from tilewright.simt.run.variables import Variables

_HOME = {
    "DeviceArray": "memory",
    "Limits": "limits",
    "Memory": "memory",
    "Run": "launch",
    "launch": "launch",
    "Variables": "variables",
}

__all__ = ["DeviceArray", "Limits", "Memory", "Run", "Variables", "launch"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"tilewright.simt.run.{_HOME[name]}"), name)
