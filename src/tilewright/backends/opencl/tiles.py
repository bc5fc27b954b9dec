"""Chooses the tile of a product on a device.

Processors are fastest with blocks that fit their caches and vectors as wide as their registers; GPUs with groups of 256
work-items of 4 x 4 results each, which read local memory 16 bytes at a time.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.backends.opencl.devices import OpenclDevice
from tilewright.backends.opencl.source import Form, Tile, takes_vectors
from tilewright.problem.dtypes import element
from tilewright.problem.kind import Kind

#: Rows and columns of C below which a block would be mostly empty.
_SMALL = 16
_WIDTH_MAX = 16
_GPU = Tile("register_tiled", bm=64, bn=64, bk=16, tm=4, tn=4, width=4)
#: 8 rows of 2 vectors fill half of 32 vector registers with sums, enough to hide an fma's 4 cycles twice over.
_CPU = Tile("register_tiled", bm=64, bn=128, bk=64, tm=8, tn=32, width=16)
_CPU_ELEMENTS = Tile("register_tiled", bm=64, bn=64, bk=64, tm=4, tn=8, width=1)


def of_form(form: Form, device: OpenclDevice, kind: Kind) -> Tile:
    """The tile of a form on a device."""
    return _registers(device, kind) if form == "register_tiled" else _fitted(Tile(form), device, kind)


def tile(device: OpenclDevice, kind: Kind, m: int, n: int) -> Tile:
    """The tile of a product of shape (m, n)."""
    return of_form("naive" if min(m, n) < _SMALL else "register_tiled", device, kind)


def _registers(device: OpenclDevice, kind: Kind) -> Tile:
    size = element(kind.accumulator).bytes
    if device.kind == "cpu":
        width = min(max(device.vector_bytes // size, 2), _WIDTH_MAX)
        found = replace(_CPU, width=width, tn=2 * width) if takes_vectors(kind) else _CPU_ELEMENTS
    else:
        found = replace(_GPU, width=4 if takes_vectors(kind) else 1)
    return _fitted(found, device, kind)


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
