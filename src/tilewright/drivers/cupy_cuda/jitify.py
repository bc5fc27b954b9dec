"""Our runtime for CuPy's module of Jitify, which CuPy imports for the first kernel that needs it."""

from __future__ import annotations

from tilewright.drivers.cupy_cuda.names import Placed
from tilewright.drivers.gpu import SimulatedGpu
from tilewright.programs.numba_names import Row


def rows(gpu: SimulatedGpu) -> tuple[Row, ...]:
    """No names are replaced."""
    return ()


def registered() -> Placed:
    """Install our runtime in the module."""
    return Placed(["cupy.cuda.jitify"])
