"""Programs of numba-cuda, checked on the simulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import cuda

from tilewright.checking import Checks, Finding
from tilewright.frontends.session import simulated_gpu


@cuda.jit
def added(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def checked(program: Callable[[], object], **options: Any) -> tuple[Finding, ...]:
    """What `Checks` finds in a program, with its options."""
    checks = Checks(**options)
    with simulated_gpu(observers=(checks,)):
        program()
    return checks.findings


@cuda.jit
def flipped(image, out):
    row, column = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        out[column, row] = image[row, column]
