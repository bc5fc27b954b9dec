"""cuBLAS through CuPy: the vendor's product on a real GPU, timed for comparison."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy.typing as npt

from tilewright.simulate.programs.optional import require

#: Dtypes cuBLAS multiplies in their own precision.
DTYPES = ("float32", "float64")
_WARM_UPS, _REPEATS = 2, 5


def available() -> bool:
    """Whether CuPy is installed."""
    return importlib.util.find_spec("cupy") is not None


def multiply(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], float]:
    """Multiply on the current GPU.

    `a` and `b` have shapes (m, k) and (k, n), float32 or float64. Returns C, of shape (m, n), and the seconds of the
    fastest of a few runs on arrays already on the GPU, between two events. float32 products are not rounded to TF32
    unless the environment asks CuPy for it.
    """
    cupy = require("cupy", "Multiplying with cuBLAS")
    left, right = cupy.asarray(a), cupy.asarray(b)
    for _ in range(_WARM_UPS):
        c = left @ right
    times = []
    for _ in range(_REPEATS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        c = left @ right
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return cupy.asnumpy(c), min(times)
