"""Products of arrays in place: a layout's kernels chosen and cut into parts once, then run with three addresses.

Everything that does not depend on the addresses is worked out when a :class:`Product` is made; running it writes one
argument record and calls machine code. That is what a small product costs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.cpu.choice import kernel_key, parts
from tilewright.cpu.contexts import KernelKey, Tile, tile_of
from tilewright.cpu.kernels import kernel
from tilewright.cpu.layout import Layout
from tilewright.cpu.scratch import Scratch, address_reader, packer, store
from tilewright.cpu.small import EXTENT_MAX, SmallKey, small_kernel
from tilewright.cpu.threads import crew, limit
from tilewright.problem.dtypes import dtype

Array = npt.NDArray[Any]
_BYTES = {"float": 4, "double": 8, "i32": 4, "i64": 8}
#: Matrices of one small layout that pay for a kernel of its exact extents, which is compiled when they have been seen.
_HOT = 32
#: Multiply-adds of 4-byte elements that pay for one more thread: waking it takes about as long as half of them.
THREAD_WORK = 3_000_000
#: Shares of a batch for each thread, so that a late thread holds nobody up for long.
_SHARES = 4
_GENERAL = packer(17)
_SMALL = packer(7)


class Piece(NamedTuple):
    """A part of C: extents, and byte offsets of its first row of A, column of B and element of C."""

    rows: int
    columns: int
    a: int
    b: int
    out: int


class Kind(NamedTuple):
    """What a product's kernels are made for: dtypes of A, B and C, and the accumulator's."""

    a: str
    b: str
    out: str
    accumulator: str


class Product:
    """The products of one layout, ready to run.

    Attributes
    ----------
    layout : Layout
    key : KernelKey
    tile : Tile
    threads : int
        At most so many are used.
    pieces : list of Piece
        Parts of one matrix.
    in_place : bool
        Sums are kept in C itself.
    """

    def __init__(self, layout: Layout, kind: Kind, threads: int) -> None:
        names = (kind.b, kind.a, kind.out) if layout.swapped else (kind.a, kind.b, kind.out)
        self.layout = layout
        self.key: KernelKey = kernel_key(*names, kind.accumulator)
        self.tile: Tile = tile_of(self.key)
        self.size = _BYTES[self.key.register]
        record = dtype(kind.out)
        same = record.bytes == self.size and record.is_float == (self.key.register in ("float", "double"))
        self.in_place = same and (layout.out[1] == self.size or layout.n == 1)
        self.threads = min(threads, 1 + layout.work * self.size // (4 * THREAD_WORK))
        inside = self.threads if layout.count < self.threads else 1
        self.pieces = [
            Piece(p.rows, p.columns, *self._offsets(p.row, p.column))
            for p in parts(layout.m, layout.n, self.tile, inside, in_place=self.in_place, sum_bytes=self.size)
        ]
        self._small_key = self._exact()
        self._seen = 0
        self._small: Callable[[int], None] | None = None
        self._general: Callable[[int], None] | None = None

    def _offsets(self, row: int, column: int) -> tuple[int, int, int]:
        layout = self.layout
        return row * layout.a[0], column * layout.b[1], row * layout.out[0] + column * layout.out[1]

    def _exact(self) -> SmallKey | None:
        """The key of an unpacked kernel for these extents, where there is one."""
        layout, size = self.layout, self.size
        plain = all(dtype(name).bytes == size for name in (self.key.a, self.key.b, self.key.c))
        kinds = {dtype(name).is_float for name in (self.key.a, self.key.b, self.key.c)}
        fits = 0 < max(layout.m, layout.n, layout.k) <= EXTENT_MAX and layout.k > 0
        rows = (layout.n == 1 or layout.b[1] == size) and self.in_place
        if not (plain and fits and rows and len(kinds) == 1 and (self.key.register in ("float", "double")) in kinds):
            return None
        return SmallKey(self.key, layout.m, layout.n, layout.k, layout.a[0], layout.a[1], layout.b[0], layout.out[0])

    @property
    def packs_a(self) -> bool:
        """Whether rows of A are packed rather than read in place."""
        plain = self.key.family != "dot" and self.key.a == self.key.c and self.in_place
        return not (plain and self.layout.a[1] == self.size)

    @property
    def buffer_bytes(self) -> dict[str, int]:
        """Bytes of each buffer that one thread needs for the packed kernel."""
        rows = max((p.rows for p in self.pieces), default=0)
        columns = max((p.columns for p in self.pieces), default=0)
        tile, size = self.tile, self.size
        steps = min(max(self.layout.k, 1), tile.kc) + 1  # one more: what some kernels keep beside a panel
        return {
            "a": rows * tile.kc * size if self.packs_a else 0,
            "b": steps * (min(tile.nc, columns) + tile.nr) * size,
            "sums": 0 if self.in_place else max((p.rows * p.columns for p in self.pieces), default=0) * size,
        }

    def run(self, a: int, b: int, out: int) -> None:
        """Multiply what lies at three host addresses; `out` must share no bytes with the operands."""
        if self.layout.swapped:
            a, b = b, a
        if self._small is None and self._small_key is not None:
            self._seen += self.layout.count
            if self._seen >= _HOT:
                self._small = small_kernel(self._small_key).call
        if self._small is not None:
            self._run_small(self._small, a, b, out)
        elif self.threads == 1 and len(self.pieces) == 1 and not self.layout.batch:
            self._run_items([(a, b, out, self.pieces[0])])
        else:
            self._run_packed(a, b, out)

    def _run_small(self, code: Callable[[int], None], a: int, b: int, out: int) -> None:
        batch = self.layout.batch
        if not batch:
            self._call_small(code, (1, a, 0, b, 0, out, 0))
            return
        extent, *steps = batch[-1]
        share = max(1, -(-extent // (self.threads * _SHARES if self.threads > 1 else 1)))
        items = [
            (min(share, extent - i), x + i * steps[0], steps[0], y + i * steps[1], steps[1], z + i * steps[2], steps[2])
            for x, y, z in _starts(a, b, out, batch[:-1])
            for i in range(0, extent, share)
        ]
        self._spread(functools.partial(self._call_small, code), items)

    def _call_small(self, code: Callable[[int], None], words: tuple[int, ...]) -> None:
        kept = store()
        scratch = kept.take()
        try:
            _SMALL.pack_into(scratch.record, 0, *words)
            code(scratch.record_address)
        finally:
            kept.free.append(scratch)

    def _run_packed(self, a: int, b: int, out: int) -> None:
        items = [(x, y, z, piece) for x, y, z in _starts(a, b, out, self.layout.batch) for piece in self.pieces]
        if self.threads == 1:
            self._run_items(items)
            return
        share = max(1, len(items) // (self.threads * _SHARES))
        self._spread(self._run_items, [items[i : i + share] for i in range(0, len(items), share)])

    def _spread(self, work: Callable[[Any], None], items: list[Any]) -> None:
        if self.threads == 1 or len(items) == 1:
            for item in items:
                work(item)
        else:
            crew().run(work, items, min(self.threads, len(items)))

    def _run_items(self, items: list[tuple[int, int, int, Piece]]) -> None:
        """Run the packed kernel for parts of matrices: (address of A, of B, of C, piece)."""
        code = self._general
        if code is None:
            code = self._general = kernel(self.key).call
        kept = store()
        scratch = kept.take()
        try:
            for item in items:
                self._write(scratch, *item)
                code(scratch.record_address)
        finally:
            kept.free.append(scratch)

    def _write(self, scratch: Scratch, a: int, b: int, out: int, piece: Piece) -> None:
        """The record of the packed kernel, in the order of `loops.ARGUMENTS`."""
        layout, need = self.layout, self._need
        start = out + piece.out
        sums, pitch = (
            (start, layout.out[0])
            if self.in_place
            else (scratch.address("sums", need["sums"]), piece.columns * self.size)
        )
        _GENERAL.pack_into(
            scratch.record, 0,
            piece.rows, piece.columns, layout.k,
            a + piece.a, layout.a[0], layout.a[1],
            b + piece.b, layout.b[0], layout.b[1],
            sums, pitch, start, layout.out[0], layout.out[1],
            scratch.address("a", need["a"]), scratch.address("b", need["b"]), 1,
        )  # fmt: skip

    @functools.cached_property
    def _need(self) -> dict[str, int]:
        return self.buffer_bytes


def _starts(a: int, b: int, out: int, batch: tuple[tuple[int, int, int, int], ...]) -> Iterator[tuple[int, int, int]]:
    """The addresses of every matrix of a batch."""
    for index in itertools.product(*(range(extent) for extent, *_ in batch)):
        x, y, z = a, b, out
        for i, (_, step_a, step_b, step_out) in zip(index, batch, strict=True):
            x, y, z = x + i * step_a, y + i * step_b, z + i * step_out
        yield x, y, z


Extents = tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def product(
    a_shape: Extents,
    a_strides: Extents,
    b_shape: Extents,
    b_strides: Extents,
    out_shape: Extents,
    out_strides: Extents,
    kind: Kind,
    threads: int,
) -> Product:
    """The product of arrays of these shapes and strides, made once; none may have an extent of 0 but along k."""
    layout = Layout.strided(a_shape, a_strides, b_shape, b_strides, out_shape, out_strides)
    return _product(layout, kind, threads)


@functools.lru_cache(maxsize=4096)
def _product(layout: Layout, kind: Kind, threads: int) -> Product:
    """Layouts that differ only in how they are written share one product."""
    return Product(layout, kind, threads)


def multiply_into(a: Array, b: Array, out: Array, kind: Kind, threads: int | None = None) -> None:
    """Out = a b, in canonical order.

    Parameters
    ----------
    a, b, out : ndarray, shapes (..., m, k), (..., k, n) and (..., m, n)
        Any strides; the axes before the last two broadcast to `out`'s. `out` shares no bytes with the operands.
    kind : Kind
        What the arrays' elements are taken for, and the accumulator.
    threads : int, optional
        At most so many; the process's limit by default.
    """
    if out.size == 0:
        return
    read = address_reader()
    count = limit().count if threads is None else threads
    found = product(a.shape, a.strides, b.shape, b.strides, out.shape, out.strides, kind, count)
    found.run(read(a), read(b), read(out))


def multiply(a: Array, b: Array) -> Array:
    """The canonical product of two matrices of one real dtype, as the catalogue runs it.

    Examples
    --------
    >>> multiply(np.eye(2, dtype=np.int8), np.full((2, 3), 5, np.int8))
    array([[5, 5, 5],
           [5, 5, 5]], dtype=int8)
    """
    out: Array = np.empty((a.shape[0], b.shape[1]), a.dtype)
    record = dtype(a.dtype)
    multiply_into(a, b, out, Kind(record.name, record.name, record.name, record.accumulator))
    return out
