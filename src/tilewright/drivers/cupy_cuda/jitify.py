"""Our runtime for CuPy's module of Jitify, which CuPy imports for the first kernel that needs it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tilewright.drivers.cupy_cuda.names import runtime_in
from tilewright.drivers.gpu import SimulatedGpu


def installed(gpu: SimulatedGpu) -> AbstractContextManager[None]:
    """Install our runtime in the module."""
    return runtime_in(["cupy.cuda.jitify"])
