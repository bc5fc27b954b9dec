"""What all launches of one kernel and shape have in common: their order of blocks, and most of a context record."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tilewright.simulate import state
from tilewright.simulate.code import LANES
from tilewright.simulate.machine.occupancy import most_resident
from tilewright.simulate.observer import Launch, Part
from tilewright.simulate.run.kernels import ReadyKernel
from tilewright.simulate.translate.analysis.layout import RESERVED

#: Seeds of orders that are not random.
ASCENDING, DESCENDING, IN_TURN = 0, 1, 2
#: Of so many strong accesses, how many a warp gives way before; see `tw_gives_way`.
_ALL_WAYS = 256


class Order(NamedTuple):
    """The order of a launch's clusters and of a block's warps, by a seed.

    The first seeds are the orders that differ most. Without a seed, and with 0, clusters and warps ascend; with 1 they
    descend; with 2 they ascend, and a warp gives way to the others before each of its strong accesses, so that those of
    two warps come in turn. Other seeds are random.
    """

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


#: The bytes of fresh shared memory: a NaN as float32, -1 as int32.
SHARED_FILL = 0xFF
#: Words of a context record, and the number of each.
WORDS = state.CONTEXT_BYTES // 8
AT = {name: offset // 8 for name, offset in state.CONTEXT.items()}
#: Blocks of a host thread that may wait at the same time, each with its own memory, if blocks wait for blocks; more if
#: a GPU would hold more of them.
RESIDENT_MAX = 1024
#: The same where blocks do not wait for blocks, and only give way to them before strong accesses.
_GIVING_WAY = 32
#: How many host threads' memory of a plan waits to be used again.
_LEFT = 2


class Plan:
    """What all launches of one kernel and shape have in common, and memory that they left to later ones."""

    def __init__(self, launch: Launch, ready: ReadyKernel, shared_bytes: int, *, gives_way: bool) -> None:
        translation = ready.translation
        self.threads = math.prod(launch.block)
        self.warps = -(-self.threads // LANES)
        self.blocks, self.cluster_blocks = math.prod(launch.grid), math.prod(launch.cluster or ())
        self.clusters = self.blocks // self.cluster_blocks
        self.order = order_of(self.clusters, self.warps, launch.seed, launch.part)
        self.ways = self.order.ways if gives_way else 0
        #: Place of the first cluster in the order.
        self.first = self.clusters - launch.part.count if launch.part else 0
        resident = RESIDENT_MAX if translation.spins else _GIVING_WAY
        if translation.spins and self.blocks > RESIDENT_MAX:
            resident = max(RESIDENT_MAX, most_resident(self.threads))
        #: Clusters of a host thread that may wait at the same time.
        self.resident = -(-resident // self.cluster_blocks)
        layout, records = translation.layout, self.warps * translation.warp_bytes
        self.block_bytes = layout.local_bytes * self.threads + shared_bytes + records  #: Memory of a block.
        self._rules = state.tensor_rules(launch.gpu.compute_capability)
        values = {
            "tensor_rules": self._rules.ctypes.data,
            "clusters": self.clusters,
            "order_factor": self.order.factor,
            "order_shift": self.order.shift,
            **dict(zip(("grid_x", "grid_y", "grid_z"), launch.grid, strict=True)),
            **dict(zip(("cluster_x", "cluster_y", "cluster_z"), launch.cluster or (1, 1, 1), strict=True)),
            "cluster_blocks": self.cluster_blocks,
            "warps": self.warps,
            "threads": self.threads,
            "warp_bytes": translation.warp_bytes,
            "warp_order": self.order.warps.ctypes.data,
            "points": translation.points,
            "shared_bytes": shared_bytes,
            "shared_fill": SHARED_FILL,
            "reserved_offset": layout.places.get(RESERVED, ("shared", 0))[1],
            "reserved_bytes": layout.sizes.get(RESERVED, 0),
            "may_stall": int((translation.spins or bool(self.ways)) and self.clusters > 1),
            "ways": self.ways,
            "ways_drawn": self.order.drawn,
            "call_depth": launch.limits.call_depth,
            "dynamic_shared_bytes": launch.shared_bytes,
        }
        self.words = [0] * WORDS
        for name, value in values.items():
            self.words[AT[name]] = value
        self._left: list[Any] = []

    def leave(self, seat: Any) -> None:
        """Keep a host thread's `Seat` for a later launch, if its memory is small."""
        if seat.memory.is_small and len(self._left) < _LEFT:
            self._left.append(seat)

    def taken(self) -> Any:
        """A `Seat` that an earlier launch left; None if there is none."""
        try:
            return self._left.pop()
        except IndexError:
            return None
