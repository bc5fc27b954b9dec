"""CuPy's raw kernels, which pass each argument as it is: their launches say what that was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy

from tilewright.frontends.passed import passing

_RawKernel: Any = cupy.RawKernel
_RawModule: Any = cupy.RawModule


class _Kind(type(_RawKernel)):  # type: ignore[misc]
    """Makes a class whose instances are all raw kernels, those that CuPy made before and `Function` too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _RawKernel)


class RawKernel(_RawKernel, metaclass=_Kind):  # type: ignore[misc]
    """Replaces `cupy.RawKernel`."""

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], **named: Any) -> None:
        """Launch the kernel."""
        with passing(args, self.code or ""):
            super().__call__(grid, block, args, **named)


class Function:
    """Replaces a kernel of a `cupy.RawModule`, which answers all but launches."""

    __class__ = _RawKernel

    def __init__(self, kernel: Any, source: str) -> None:
        vars(self).update(_kernel=kernel, _source=source)

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], **named: Any) -> None:
        """Launch the kernel."""
        with passing(args, vars(self)["_source"]):
            vars(self)["_kernel"](grid, block, args, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_kernel"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_kernel"], name, value)


class RawModule(_RawModule):  # type: ignore[misc]
    """Replaces `cupy.RawModule`."""

    def get_function(self, name: str) -> Any:
        """A kernel of the module."""
        return Function(super().get_function(name), self.code or "")
