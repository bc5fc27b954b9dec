"""Tiles of a product on a device: the choices ranked by estimate, and those that a tuner timed.

All tiles give the same bits. Processors are fastest with blocks that fit their caches and vectors as wide as their
registers; GPUs with groups of 256 work-items, which read local memory 16 bytes at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.ground.native.store import digest
from tilewright.multiply.backends import tuning_db
from tilewright.multiply.backends.opencl.devices import OpenclDevice
from tilewright.multiply.backends.opencl.source import Form, Tile, takes_vectors
from tilewright.multiply.backends.ranked import Ranked
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind

_WIDTH_MAX = 16
#: bm, bn, bk, tm, and vectors along n of a work-item. 8 rows of 2 vectors fill half of 32 vector registers with sums,
#: enough to hide an fma's 4 cycles twice over.
_CPU = (
    (64, 128, 64, 8, 2), (64, 64, 64, 8, 2), (32, 128, 64, 8, 2), (128, 128, 64, 8, 2), (16, 64, 64, 8, 2),
    (32, 256, 64, 8, 2), (32, 64, 64, 4, 2), (16, 32, 64, 4, 1),
)  # fmt: skip
#: The same without vectors: the last number is of elements.
_CPU_ELEMENTS = ((64, 64, 64, 4, 8), (32, 64, 64, 4, 8), (64, 64, 64, 4, 4), (32, 32, 64, 4, 4), (16, 32, 64, 2, 4))
_GPU = (
    (64, 64, 16, 4, 4), (128, 64, 16, 8, 4), (128, 128, 8, 8, 8), (64, 128, 16, 4, 8), (64, 64, 32, 4, 4),
    (32, 64, 16, 4, 4), (32, 32, 32, 4, 4), (16, 64, 32, 2, 4),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Rates:
    """Rates of a compute unit, roughly; only their ratios decide."""

    lanes: int  #: Work-items that advance together.
    simd: bool  #: Whether a work-item's vector is one operation.
    step: float  #: Clocks of a work-item's multiply-add.
    loads: float  #: Clocks of a read of local memory.
    copied: float  #: Clocks in which a work-item copies an element or a vector to local memory.
    naive: float  #: Clocks of a step of k that reads both operands from global memory.
    waits: float  #: Clocks of a group for each tile of k that nothing hides: barriers and the latency of memory.


#: Fitted to PoCL's times on Zen 4; of GPUs nothing was measured.
_OF_CPU = _Rates(lanes=1, simd=True, step=2, loads=2, copied=8, naive=7, waits=200)
_OF_GPU = _Rates(lanes=64, simd=False, step=0.5, loads=1, copied=4, naive=16, waits=100)
#: The clock that is assumed if the driver states none.
_CLOCK_MHZ = 1000
Found = tuple[tuple[Tile, Ranked], ...]


def of_form(form: Form, device: OpenclDevice, kind: Kind) -> Tile:
    """The tile of a form on a device."""
    return next(tile for tile in _tiles(device, kind) if tile.form == form)


def chosen(device: OpenclDevice, kind: Kind, m: int, n: int, k: int) -> Found:
    """The tiles for a product of shape (m, n) over k: those that a tuner timed first, then by estimate."""
    m, n, k = (max(extent, 1) for extent in (m, n, k))

    def scale(one: Tile, extents: tuning_db.Extents) -> float:
        return _seconds(one, device, kind, m, n, k)[0] / _seconds(one, device, kind, *extents)[0]

    return tuning_db.first(ranked(device, kind, m, n, k), key_of(device, kind, m, n, k), scale)


@functools.lru_cache(maxsize=1024)
def key_of(device: OpenclDevice, kind: Kind, m: int, n: int, k: int) -> tuning_db.Key:
    """The key of a product's times: every order of sums is computed canonically."""
    name = f"opencl {device.platform}: {device.name} {digest(repr(device))[:16]}"
    return tuning_db.key(name, kind._replace(order="canonical"), m, n, k, "multiply/backends/opencl")


@functools.lru_cache(maxsize=1024)
def ranked(device: OpenclDevice, kind: Kind, m: int, n: int, k: int) -> Found:
    """All tiles, the fastest estimate first."""
    found = []
    for tile in dict.fromkeys(_tiles(device, kind)):
        (seconds, limiter), groups = _seconds(tile, device, kind, m, n, k), -(-m // tile.bm) * -(-n // tile.bn)
        found.append((tile, Ranked(str(tile), seconds, limiter, groups / device.units, "estimated")))
    return tuple(sorted(found, key=lambda one: one[1].seconds))


def _seconds(tile: Tile, device: OpenclDevice, kind: Kind, m: int, n: int, k: int) -> tuple[float, str]:
    """The time of one matrix and its limiter: rounds of groups, each of steps of k and of copies to local memory."""
    rates = _OF_CPU if device.kind == "cpu" else _OF_GPU
    across, down = tile.items
    items, groups = across * down, -(-m // tile.bm) * -(-n // tile.bn)
    # A last round that is not full costs half of its idle units: they serve others, or another group of the same unit.
    rounds, waits = (-(-groups // device.units) + groups / device.units) / 2, 0.0
    if tile.form == "naive":
        items = min(m, tile.bm) * min(n, tile.bn)  # others end at once
        parts = {"memory": k * rates.naive}
    else:
        turns = -(-k // tile.bk)
        whole = (n // tile.bn) / -(-n // tile.bn) * (k // tile.bk) / turns  # the share of B's tiles read as vectors
        copies = tile.bk * (tile.bm + tile.bn * (whole / tile.width + 1 - whole)) / items
        adds = tile.tm * tile.tn / (tile.width if rates.simd else 1)
        step = max(adds * rates.step, (tile.tm + tile.tn / tile.width) * rates.loads)
        parts = {"multiply-adds": k * step, "copies to local memory": turns * copies * rates.copied}
        waits = turns * rates.waits
    clocks = rounds * (waits + items * sum(parts.values()) / min(rates.lanes, items))
    seconds = clocks / ((device.clock_mhz or _CLOCK_MHZ) * 1e6)
    return seconds, max(parts, key=lambda name: parts[name])


def _tiles(device: OpenclDevice, kind: Kind) -> Iterator[Tile]:
    """All tiles, reduced to fit the device; some may be equal."""
    size, vectors = element(kind.accumulator).bytes, takes_vectors(kind)
    if device.kind == "cpu":
        width = min(max(device.vector_bytes // size, 2), _WIDTH_MAX) if vectors else 1
        blocks = [(*block[:4], block[4] * width) for block in (_CPU if vectors else _CPU_ELEMENTS)]
    else:
        width, blocks = 4 if vectors else 1, list(_GPU)
    for bm, bn, bk, tm, tn in blocks:
        yield _fitted(Tile("register_tiled", bm, bn, bk, tm, tn, width), device, kind)
    for form in ("tiled", "naive"):
        yield _fitted(Tile(form), device, kind)


def _fitted(found: Tile, device: OpenclDevice, kind: Kind) -> Tile:
    """A tile reduced to fit a device's local memory and work-groups."""
    while found.bk > 1 and found.local_bytes(kind.accumulator) > device.local_bytes:
        found = replace(found, bk=found.bk // 2)
    most = device.axis_items
    while found.items[1] > most[1] or (found.bm > found.tm and found.items[0] * found.items[1] > device.group_items):
        found = replace(found, bm=found.bm // 2)
    while found.items[0] > most[0] or found.items[0] * found.items[1] > device.group_items:
        found = replace(found, bn=found.bn // 2)
    return found
