"""Instruments: observers of a simulated run. Each subscribes to events, counts in LLVM, and returns frozen records.

An instrument never changes what a kernel computes, and a run without it holds no code for it. Only
:mod:`tilewright.simt.events` is known here; the machine knows no instrument.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.instruments.banks import Banks, BanksResult
    from tilewright.instruments.coalescing import Coalescing, CoalescingResult
    from tilewright.instruments.divergence import Divergence, DivergenceResult
    from tilewright.instruments.mix import Mix, MixResult

_HOME = {
    "Banks": "banks",
    "BanksResult": "banks",
    "Coalescing": "coalescing",
    "CoalescingResult": "coalescing",
    "Divergence": "divergence",
    "DivergenceResult": "divergence",
    "Mix": "mix",
    "MixResult": "mix",
}

__all__ = [
    "Banks",
    "BanksResult",
    "Coalescing",
    "CoalescingResult",
    "Divergence",
    "DivergenceResult",
    "Mix",
    "MixResult",
]


def __getattr__(name: str) -> Any:
    """Import an instrument when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
