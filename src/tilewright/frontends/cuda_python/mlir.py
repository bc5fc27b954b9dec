"""A table of the names of numba-cuda-mlir that are replaced for a simulated GPU: kernels get source lines."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from numba_cuda_mlir import cuda

from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device.gpu import SimulatedGpu


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    original = cuda.jit

    @functools.wraps(original)
    def jit(*given: Any, **named: Any) -> Any:
        if not named.get("debug"):
            named.setdefault("lineinfo", True)
        return original(*given, **named)

    yield "numba_cuda_mlir.cuda", "jit", jit
