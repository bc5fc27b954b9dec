"""The order in which the clusters of a grid and the warps of a block run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.simulate.observer import Part


def orders(clusters: int, warps: int, seed: int | None, part: Part | None) -> tuple[tuple[int, int], Any]:
    """The order of clusters, as factor and shift modulo their number, and the permutation of a block's warps.

    A factor that is coprime to the number makes every cluster come once, whatever the grid's size; no product exceeds
    64 bits.
    """
    ascending = np.arange(warps, dtype=np.int32)
    if part is not None:  # it is at the end of the order
        return (part.step, (part.first - (clusters - part.count) * part.step) % clusters), ascending
    if seed is None:
        return (1, 0), ascending
    random = np.random.default_rng(seed)
    shift = int(random.integers(clusters))
    most = max(1, min(clusters, ((1 << 64) - clusters) // clusters))
    factor = int(random.integers(1, most, endpoint=True))
    while math.gcd(factor, clusters) != 1:
        factor -= 1
    return (factor, shift), random.permutation(ascending).astype(np.int32)
