"""Tilewright: matrix multiplication from three loops to tensor cores, on any device or on none.

The public names below are imported when they are first used, so `import tilewright` costs next to nothing.

Examples
--------
>>> import tilewright as tw
>>> tw.machine.gpu("h100").name
'NVIDIA H100 SXM5 80GB'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `_PUBLIC` says, for type checkers; a meta test holds the two together
    from tilewright import catalogue as catalogue
    from tilewright import errors as errors
    from tilewright import gpu as gpu
    from tilewright import instruments as instruments
    from tilewright import ladder as ladder
    from tilewright import machine as machine
    from tilewright import problem as problem
    from tilewright import simt as simt
    from tilewright.engine import matmul as matmul
    from tilewright.engine import plan as plan
    from tilewright.errors import KernelError as KernelError
    from tilewright.errors import TilewrightError as TilewrightError
    from tilewright.gpu import device as cuda
    from tilewright.settings import Settings as Settings

    __version__: str

#: Public name -> (module, attribute of it, or "" for the module itself).
_PUBLIC = {
    "catalogue": ("tilewright.catalogue", ""),
    "cuda": ("tilewright.gpu.device", ""),
    "errors": ("tilewright.errors", ""),
    "gpu": ("tilewright.gpu", ""),
    "instruments": ("tilewright.instruments", ""),
    "ladder": ("tilewright.ladder", ""),
    "machine": ("tilewright.machine", ""),
    "matmul": ("tilewright.engine", "matmul"),
    "plan": ("tilewright.engine", "plan"),
    "problem": ("tilewright.problem", ""),
    "simt": ("tilewright.simt", ""),
    "KernelError": ("tilewright.errors", "KernelError"),
    "Settings": ("tilewright.settings", "Settings"),
    "TilewrightError": ("tilewright.errors", "TilewrightError"),
}

__all__ = [
    "KernelError",
    "Settings",
    "TilewrightError",
    "__version__",
    "catalogue",
    "cuda",
    "errors",
    "gpu",
    "instruments",
    "ladder",
    "machine",
    "matmul",
    "plan",
    "problem",
    "simt",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("tilewright")
    elif name in _PUBLIC:
        module, attribute = _PUBLIC[name]
        value = importlib.import_module(module)
        if attribute:
            value = getattr(value, attribute)
    else:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}; public names: {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
