"""Plans and simulates a product on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from tilewright.blocks.dealing import TILES_EACH
from tilewright.blocks.planning import BlockPlan, Rates, Sizes, plan
from tilewright.blocks.simulation.events import simulate
from tilewright.blocks.simulation.records import SimulatedCluster, SimulatedProduct
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.machine.sizes import size_bytes
from tilewright.problem.dtypes import dtype as record, element
from tilewright.public import public


@public
def simulated_cluster(
    extents: Sequence[int],
    workers: int = 1,
    memory: int | str = "16GB",
    *,
    dtype: npt.DTypeLike = "float32",
    layers: int = 1,
    **world: Any,
) -> SimulatedProduct:
    """Simulate a product larger than memory on a Dask cluster.

    Workers get the tiles that `matmul(..., client=client)` would give them. A discrete-event simulation computes when
    each reads, multiplies, writes, waits and fails.

    Parameters
    ----------
    extents : sequence of int
        m, n and k.
    workers : int, optional
    memory : int or str, optional
        Memory of each worker for tiles and panels, in bytes or as text, such as "16GB".
    dtype : dtype, optional
        Dtype of both operands and of the result.
    layers : int, optional
        Parts of k that different workers multiply for one tile (2.5-D). `matmul` uses 1, since adding rounded partial
        sums changes the bits.
    **world
        Fields of :class:`~tilewright.blocks.simulation.records.SimulatedCluster`: rates, times, failures, `seed`.

    Returns
    -------
    SimulatedProduct
        Time, bytes, efficiency and bottleneck; `print` shows it.

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        An argument is out of its range, or the smallest tile does not fit.
    DeviceError
        Workers fail too often for tiles of this size.

    Examples
    --------
    >>> found = simulated_cluster((100_000, 100_000, 100_000), workers=16, memory="4GB", link_bytes_per_s=1e9)
    >>> found.limit, found.tiles_made, round(found.efficiency, 2)
    ('arithmetic', 64, 0.99)
    """
    found = SimulatedCluster(workers, size_bytes("`memory`", memory), **world)
    rule = f"`extents` must be m, n and k, each at least 1 (got {extents!r}); try (1000, 1000, 1000)"
    if not isinstance(extents, tuple | list):
        raise ArgumentTypeError(rule)
    if len(extents) != 3 or not all(isinstance(x, int) and x >= 1 for x in extents):
        raise ArgumentValueError(rule)
    m, n, k = extents
    if isinstance(layers, bool) or not isinstance(layers, int):
        raise ArgumentTypeError(f"`layers` must be a whole number (got {layers!r}); try 1")
    if not 1 <= layers <= k:
        raise ArgumentValueError(f"`layers` must be from 1 to k, {k:,} (got {layers!r}); try 1")
    kind = record(dtype)
    sizes = Sizes((m, n, k), (kind.bytes, kind.bytes), element(kind.accumulator).bytes, kind.bytes)
    return simulate(planned(sizes, found, layers), found, layers)


def simulated_time(plan: BlockPlan, workers: int) -> SimulatedProduct:
    """Simulate a plan on `workers`, each at the plan's rates.

    All workers together get the rate of storage that was measured for one.

    >>> found = planned(Sizes((4096, 4096, 4096), (4, 4), 4, 4), SimulatedCluster(4, 64 << 20))
    >>> simulated_time(found, 4).limit
    'storage'
    """
    rates = plan.rates
    world = SimulatedCluster(
        workers, plan.held_bytes, flops_per_s=rates.flops, storage_bytes_per_s=rates.read_bytes,
        link_bytes_per_s=rates.read_bytes, write_cost=rates.read_bytes / rates.write_bytes,
    )  # fmt: skip
    return simulate(plan, world)


def planned(sizes: Sizes, world: SimulatedCluster, layers: int = 1, tiles_each: int = TILES_EACH) -> BlockPlan:
    """The cluster's plan: enough tiles, or layers of tiles, for all workers.

    >>> sizes = Sizes((4096, 4096, 4096), (4, 4), 4, 4)
    >>> cluster = SimulatedCluster(4, 64 << 20)
    >>> planned(sizes, cluster).tiles, planned(sizes, cluster, layers=4).tiles
    (16, 4)
    """
    rate = min(world.link_bytes_per_s, world.storage_bytes_per_s)
    rates = Rates(world.flops_per_s, rate, rate / world.write_cost)
    m, n, k = sizes.extents
    depth = -(-k // layers)
    layer = replace(sizes, extents=(m, n, depth), workers=-(-world.workers // layers))
    found = plan(layer, world.memory_bytes, rates, least_tiles=-(-tiles_each * world.workers // layers))
    whole = replace(sizes, workers=world.workers)
    return replace(found, sizes=whole, read_bytes=found.read_bytes // depth * k)
