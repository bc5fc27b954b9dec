"""Layouts as CUTLASS writes them: modes of a shape and a stride each, of which the first runs fastest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

Modes = Sequence[tuple[int, int]]


def offsets(modes: Modes) -> list[int]:
    """A layout's offsets for 0, 1, 2 and so on."""
    ways = [[i * stride for i in range(size)] for size, stride in reversed(modes)]
    return [sum(parts) for parts in itertools.product(*ways)]


def registers(matrix: np.ndarray, threads: Modes, values: Modes, bits: int) -> np.ndarray:
    """Bit patterns of a matrix (lines, k) as words (registers, threads): an offset counts lines first, then k."""
    each = 32 // bits
    found = np.zeros((len(offsets(values)) // each, len(offsets(threads))), np.uint64)
    for thread, start in enumerate(offsets(threads)):
        for i, offset in enumerate(offsets(values)):
            k, line = divmod(start + offset, len(matrix))
            found[i // each, thread] |= np.uint64(int(matrix[line, k]) << i % each * bits)
    return found.astype(np.uint32)
