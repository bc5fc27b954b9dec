"""Small kernels whose counts can be calculated by hand; the mark in a line's comment names the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba import cuda, float32


def rows_and_columns(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    row = a[3, i]  # row
    column = a[i, 3]  # column
    out[i] = row + column  # store


def conflicts(out: Any) -> None:
    tile = cuda.shared.array((32, 32), float32)
    i = cuda.threadIdx.x
    tile[i, 5] = out[i]  # store
    cuda.syncthreads()  # barrier
    out[i] = tile[5, i]  # load


def parting(out: Any) -> None:
    i = cuda.grid(1)
    if i % 32 < 8:  # branch
        value = out[i]
        for _ in range(10):
            value = value * value + out[i + 1]  # few
        out[i] = value
    else:
        out[i] = out[i + 64]  # many


def line_of(function: Callable[..., Any], mark: str) -> int:
    """The number of the line that ends in `# mark`."""
    text, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(text) if line.rstrip().endswith(f"# {mark}"))
