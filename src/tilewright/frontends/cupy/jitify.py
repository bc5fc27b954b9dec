"""Our runtime for CuPy's module of Jitify, which CuPy imports for the first kernel that needs it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tilewright.frontends.cupy.names import runtime_in
from tilewright.simulate.device.gpu import SimulatedGpu


def installed(gpu: SimulatedGpu) -> AbstractContextManager[None]:
    """Install our runtime in the module."""
    return runtime_in(["cupy.cuda.jitify"])
