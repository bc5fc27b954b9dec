"""What the corpus's products of a warpgroup take and give: ones as bits of float16, and a sum of each thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from case import Arguments, Case, Reference, cuda_cpp

from tilewright.gpu.tensor_maps import TensorMap

#: The option by which NVRTC compiles for Blackwell's tensor memory.
SM_100 = "-arch=sm_100a"


def ones(rng: np.random.Generator) -> tuple[Any, ...]:
    """The arguments of a kernel that reads a matrix of ones."""
    return np.ones(64 * 16, np.float16).view(np.uint16), *sums(rng)


def sums(rng: np.random.Generator) -> tuple[Any, ...]:
    """The argument of a kernel that makes its ones itself."""
    return (np.zeros(128, np.float32),)


def box(swizzle: int, *, columns: int = 64) -> Arguments:
    """The arguments of a kernel that copies a box of ones, 64 rows of so many columns, by a map of this swizzle."""

    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        matrix = np.ones((64, 64), np.float16).view(np.uint16)
        return TensorMap(matrix, (64, columns), swizzle=swizzle), *sums(rng)

    return arguments


def on_b200(file: str, text: str, wrong: str, right: str, value: float = 16) -> tuple[Case, ...]:
    """A kernel of tensor memory that is wrong, called as its file, and its twin, whose threads all have such a sum."""
    name = Path(file).stem
    return (
        Case(name, cuda_cpp(file, text, wrong, SM_100), 1, 128, sums, gpu="b200", defective=True),
        Case(f"{name}_mended", cuda_cpp(file, text, right, SM_100), 1, 128, sums, every(value), gpu="b200"),
    )


def every(value: float) -> Reference:
    """The reference of a kernel whose threads all have this sum."""
    return lambda *arguments: {len(arguments) - 1: np.full(128, value, np.float32)}
