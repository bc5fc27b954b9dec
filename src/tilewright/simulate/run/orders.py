"""The order in which the clusters of a grid and the warps of a block run, by a seed.

The first seeds are the orders that differ most. Without a seed, and with 0, clusters and warps ascend; with 1 they
descend; with 2 they ascend, and a warp gives way to the others before each of its strong accesses, so that those of two
warps come in turn. Other seeds are random.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tilewright.simulate.observer import Part

#: Seeds of orders that are not random.
ASCENDING, DESCENDING, IN_TURN = 0, 1, 2
#: Of so many strong accesses, how many a warp gives way before; see `tw_gives_way`.
_ALL_WAYS = 256


class Order(NamedTuple):
    """The order of a launch's clusters and of a block's warps."""

    factor: int  #: The i-th cluster to run is (i * factor + shift) modulo their number.
    shift: int
    warps: Any  #: A permutation of a block's warps.
    ways: int = 0  #: How often, of 256 times, a warp gives way before a strong access,
    drawn: int = 0  #: and the seed of the random numbers that say when.


def order_of(clusters: int, warps: int, seed: int | None, part: Part | None) -> Order:
    """The order of a launch.

    A factor that is coprime to the number makes every cluster come once, whatever the grid's size; no product exceeds
    64 bits.

    >>> [[(i * one.factor + one.shift) % 5 for i in range(5)] for one in (order_of(5, 1, n, None) for n in (0, 1, 2))]
    [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [0, 1, 2, 3, 4]]
    """
    ascending = np.arange(warps, dtype=np.int32)
    if part is not None:  # it is at the end of the order
        return Order(part.step, (part.first - (clusters - part.count) * part.step) % clusters, ascending)
    if seed in (None, ASCENDING, IN_TURN):
        return Order(1, 0, ascending, _ALL_WAYS * (seed == IN_TURN))
    most = max(1, min(clusters, ((1 << 64) - clusters) // clusters))
    if seed == DESCENDING and clusters <= most:
        return Order(max(1, clusters - 1), clusters - 1, ascending[::-1].copy())
    random = np.random.default_rng(seed)
    shift = int(random.integers(clusters))
    factor = int(random.integers(1, most, endpoint=True))
    while math.gcd(factor, clusters) != 1:
        factor -= 1
    order = random.permutation(ascending).astype(np.int32)
    return Order(factor, shift, order, _ALL_WAYS >> int(random.integers(4)), int(random.integers(1 << 62)))
