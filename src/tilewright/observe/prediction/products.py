"""The time of a product by a catalogue kernel at any size, scaled from the counts of small products.

A warp of a catalogue kernel does the same work for each tile of k. So two small products, with k and twice k, give the
counts for any k. For kernels with persistent blocks, the first block runs at full size. What the second level fetches
follows from the shape and from the order in which blocks start (:mod:`tilewright.observe.prediction.footprint`), unless
A and B fit in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from tilewright.errors import ArgumentValueError, MissingExtraError
from tilewright.multiply.kernels.catalogue import LaunchShape, Record
from tilewright.multiply.kernels.record import MOST_SPLIT, Array
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression
from tilewright.observe.prediction.crew import watched
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.footprint import Footprint
from tilewright.observe.prediction.launches import of_work
from tilewright.observe.prediction.model import Model, machine_cc
from tilewright.observe.prediction.record import Prediction
from tilewright.observe.prediction.workload import Workload, of_profile
from tilewright.observe.profiling import instruments, of_run, profile
from tilewright.observe.profiling.counts import SECTOR_BYTES
from tilewright.observe.profiling.record import Profile
from tilewright.observe.profiling.units import written_back
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.machine import Gpu
from tilewright.simulate.observer import Part
from tilewright.simulate.programs.program import OLDEST_CC, Program
from tilewright.simulate.run.staged_launch import looked_at

#: k of the smaller counted product, and its tiles of C in each direction.
_COUNTED_K, _COUNTED_TILES = 256, 2


@dataclass(frozen=True, slots=True)
class Product:
    """C of shape (m, n) from A of shape (m, k) and B of shape (k, n)."""

    m: int
    n: int
    k: int
    dtype: str = "float32"
    #: What the kernel makes of its sums, an expression without operands; None if C has the kernel's own dtype.
    finish: Expression | None = None

    @property
    def made(self) -> str:
        """Dtype of C."""
        return element(self.dtype).product if self.finish is None else self.finish.dtype

    @property
    def operations(self) -> int:
        """Number of multiplications and additions."""
        return 2 * self.m * self.n * self.k


def predict_product(
    record: Record, product: Product, gpu: Gpu, clock_mhz: int | None = None, *, changes: bool = True
) -> Prediction:
    """The time of a product with a catalogue kernel.

    `record`: a kernel for GPUs. `gpu`: of compute capability 7.5 or newer, as the assembler needs. `clock_mhz`: the
    clock that the multiprocessors sustain; by default the vendor's boost clock. `changes`: whether to predict the
    effect of single changes, which takes twice as long again.

    Raises ArgumentValueError: the kernel does not take the product; MissingExtraError: the compilers are not installed.

    >>> from tilewright import catalogue, machine
    >>> found = predict_product(catalogue.find("naive"), Product(1024, 1024, 1024), machine.gpu("a6000"))
    >>> found.grid, round(found.waves, 2)
    ((64, 64, 1), 8.13)
    """
    refused = record.accepts(product.m, product.n, product.k, product.dtype)
    if refused or record.backend != "gpu":
        raise ArgumentValueError(
            f"kernel {record.name!r} {refused or 'runs on no GPU'}; `tilewright kernels` lists what each takes"
        )
    program = record.program(product.dtype, max(gpu.compute_capability, OLDEST_CC), finish=product.finish)
    machine_cc(program, gpu)
    if record.resident:
        return _of_first_block(record, program, product, gpu, clock_mhz, changes=changes)
    seen = [_counted(record, program, one, gpu) for one in _small(record, product)]
    shape = record.launch_rule(product.m, product.n, product.k)
    work = _scaled([_work(one) for one in seen], _counted_k(record, product), product, shape, record, gpu)
    model = Model.of(program, work, gpu, Deadline())
    return of_work(seen[0], model, work, shape.grid, clock_mhz, changes=changes)


def _of_first_block(
    record: Record, program: Program, product: Product, gpu: Gpu, clock_mhz: int | None, *, changes: bool
) -> Prediction:
    """For a kernel with persistent blocks: the first one, which has most tiles, runs at full size and represents all.

    The blocks of its cluster run with it.
    """
    shape = record.launch_rule(product.m, product.n, product.k)
    given = record.arguments(*_zeros(record, product))
    request = LaunchRequest(program, shape.grid, shape.block, given, shape.shared_bytes, gpu=gpu.key)
    roles, run, together = looked_at(
        request, lambda blocks: (watched(blocks), blocks.run(Part(0), instruments()), blocks.cluster_blocks)
    )
    seen = of_run(run, gpu, shared_bytes=shape.shared_bytes)
    work = _work(replace(seen, grid=(together, 1, 1)))  # counts are of one block or one cluster
    work = replace(work, blocks=math.prod(shape.grid))
    rows, columns = (-(-size // tile) for size, tile in zip((product.m, product.n), record.tile, strict=True))
    grid = record.group, columns, -(-rows // record.group)
    read = _read(product, grid, work.blocks * work.resident_blocks, record, gpu)
    asked = work.blocks * roles.copied_bytes if roles else 0
    loaded = work.l2_sectors(loads=True)
    work = work.served(min(1.0, read / SECTOR_BYTES / loaded) if loaded else 0.0, _written(work, product, gpu))
    work = replace(work, bulk_far=min(1.0, read / asked) if asked else 0.0)
    found = of_work(seen, Model.of(program, work, gpu, Deadline(), roles), work, shape.grid, clock_mhz, changes=changes)
    return replace(found, counted_blocks=together)


def _counted_k(record: Record, product: Product) -> int:
    """The steps of k of the smaller counted product.

    Where blocks share a tile, both have as many of them as the product itself, so that their parts of k scale.
    """
    return min(product.k, MOST_SPLIT * record.split or _COUNTED_K)


def _small(record: Record, product: Product) -> tuple[Product, Product]:
    """Two small products, the second with twice the k; a specimen also has twice the m, which one loops over."""
    rows, columns = (
        min(have, _COUNTED_TILES * tile) for have, tile in zip((product.m, product.n), record.tile, strict=True)
    )
    k = _counted_k(record, product)
    if not record.published:
        return replace(product, m=rows, n=columns, k=k), replace(product, m=rows, n=columns, k=2 * k)
    if product.m != product.k:
        raise ArgumentValueError(
            f"the specimen {record.name!r} is predicted where k equals m (got {product.k} and {product.m}); predict "
            "another kernel"
        )
    return replace(product, m=k, n=columns, k=k), replace(product, m=2 * k, n=columns, k=2 * k)


def _counted(record: Record, program: Program, product: Product, gpu: Gpu) -> Profile:
    shape = record.launch_rule(product.m, product.n, product.k)
    given = record.arguments(*_zeros(record, product))
    return profile(program, shape.grid, shape.block, given, shared_bytes=shape.shared_bytes, gpu=gpu.key)


def _zeros(record: Record, product: Product) -> tuple[Array, Array, Array]:
    """A, B and C."""
    a, b = (np.zeros(one, element(product.dtype).numpy) for one in ((product.m, product.k), (product.k, product.n)))
    return a, b, np.zeros((product.m, product.n), element(product.made).numpy)


def _work(seen: Profile) -> Workload:
    if seen.occupancy is None:
        raise MissingExtraError("; ".join(seen.notes))
    return of_profile(seen, max(1, seen.occupancy.occupancy.active_blocks))


def _scaled(
    counted: list[Workload], k: int, product: Product, shape: LaunchShape, record: Record, gpu: Gpu
) -> Workload:
    """The workload of a product from those of two small ones, with `k` and twice `k`."""
    less, more = counted
    sites = {}
    for line, site in less.sites.items():
        a_step = (more.sites[line].executed - site.executed) / k if line in more.sites else 0.0
        sites[line] = replace(site, executed=site.executed + a_step * (product.k - k))
    work = replace(less, blocks=math.prod(shape.grid), sites=MappingProxyType(sites))
    fetched, written = _fetched(work, product, shape, record, gpu), _written(work, product, gpu)
    return work.served(fetched, written)


def _written(work: Workload, product: Product, gpu: Gpu) -> float:
    """The fraction of the sectors stored to the second level that is written to memory."""
    m, n, k, given = product.m, product.n, product.k, element(product.dtype)
    stored, result = work.l2_sectors(loads=False), m * n * element(product.made).bytes
    written = written_back(gpu, (m * k + k * n) * given.bytes + result, result)
    return min(1.0, written / SECTOR_BYTES / stored) if stored else 0.0


def _fetched(work: Workload, product: Product, shape: LaunchShape, record: Record, gpu: Gpu) -> float:
    """The fraction of the sectors requested from the second level that is read from memory."""
    asked = work.l2_sectors(loads=True)
    filling = min(work.blocks, work.resident_blocks * gpu.multiprocessors)
    return min(1.0, _read(product, shape.grid, filling, record, gpu) / SECTOR_BYTES / asked) if asked else 0.0


def _read(product: Product, grid: tuple[int, int, int], filling: int, record: Record, gpu: Gpu) -> float:
    """Bytes of A and B read from memory if blocks take tiles in grid order, `filling` at a time."""
    size = element(product.dtype).numpy.itemsize
    whole = (product.m + product.n) * product.k * size
    if whole <= gpu.l2_bytes:
        return whole
    tile = (min(product.m, record.tile[0]), min(product.n, record.tile[1]))
    rows, columns = (edge * product.k * size for edge in tile)
    if record.group:
        return Footprint.of_groups(rows=rows, columns=columns).read(grid, filling, gpu.l2_bytes)
    shared, own = (columns, rows) if record.rows_by_x else (rows, columns)
    return Footprint.of_panels(shared=shared, own=own).read(grid, filling, gpu.l2_bytes)
