"""Spares programs the import of `torch.distributed.tensor`, which takes as long as a third of torch's own.

Before torch's C++ calls `__torch_dispatch__`, it asks whether a tensor is a `DTensor`; the first time it imports that
class, and keeps it. Here it gets a class that stands in for `DTensor`. No tensor is one until the program has imported
the real class.

Source: PyTorch, `is_dtensor` of `torch/csrc/utils/python_arg_parser.cpp`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch

_NAME = "torch.distributed.tensor"
#: Releases whose C++ asks by `isinstance` and by attributes: others might compare classes.
_ASKED_SO = ("2.14",)


class _StandIn(type):
    """The class of a class that stands in for `DTensor`."""

    def __instancecheck__(cls, tensor: Any) -> bool:
        real = getattr(sys.modules.get(_NAME), "DTensor", None)
        return real not in (None, cls) and isinstance(tensor, real)

    def __getattr__(cls, name: str) -> Any:
        return getattr(sys.modules[_NAME].DTensor, name)


class _Probe(torch.Tensor):  # type: ignore[misc]
    """A tensor whose operation makes the C++ ask."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, *given: Any, **named: Any) -> torch.Tensor:
        return torch.zeros(0)


def spare_its_import() -> None:
    """Make torch's C++ keep the class that stands in, unless `DTensor` is loaded already."""
    release = ".".join(torch.__version__.split(".")[:2])
    if release not in _ASKED_SO or _NAME in sys.modules or not torch.distributed.is_available():
        return
    standing_in = ModuleType(_NAME)
    standing_in.DTensor = _StandIn("DTensor", (), {})  # type: ignore[attr-defined]
    probe = torch.Tensor._make_subclass(_Probe, torch.zeros(0))
    sys.modules[_NAME] = standing_in
    try:
        probe.detach()
    finally:
        del sys.modules[_NAME]
