"""Products of arrays in place: a layout's kernels chosen and cut into parts once, then run with three addresses.

Everything that does not depend on the addresses is worked out when a :class:`Product` is made; running it adds the
addresses to argument records and calls machine code. That is what a small product costs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.cpu.choice import Part, kernel_key, parts
from tilewright.cpu.contexts import REGISTER_BYTES, KernelKey, Tile, tile_of
from tilewright.cpu.kernels import Kernel, kernel
from tilewright.cpu.layout import Layout
from tilewright.cpu.loops import ARGUMENTS, SCRATCH
from tilewright.cpu.pool import crew
from tilewright.cpu.scratch import Scratch, address_reader, packer, store
from tilewright.cpu.small import ARGUMENTS as SMALL_ARGUMENTS
from tilewright.cpu.small import EXTENT_MAX, SmallKey, small_kernel
from tilewright.cpu.threads import limit
from tilewright.problem.dtypes import dtype

Array = npt.NDArray[Any]
#: Matrices of one small layout that pay for a kernel of its exact extents, which is compiled when they have been seen.
_HOT = 32
#: Multiply-adds of 4-byte elements that pay for one more thread: handing work over takes about as long as half of them.
THREAD_WORK = 400_000
#: Shares of a batch for each thread, so that a late thread holds nobody up for long.
_SHARES = 4
#: Multiply-adds that one call into machine code may take: Ctrl-C is heard between calls.
_CALL_WORK = 20_000_000_000
#: Records of a product that are kept for its next run; longer lists are made anew, to bound what products hold.
_KEPT_RECORDS = 4096


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
        self.size = REGISTER_BYTES[self.key.register]
        record = dtype(kind.out)
        same = record.bytes == self.size and record.is_float == (self.key.register in ("float", "double"))
        self.in_place = same and (layout.out[1] == self.size or layout.n == 1)
        self.threads = min(threads, 1 + layout.work * self.size // (4 * THREAD_WORK))
        inside = self.threads if layout.count < self.threads else 1
        self.pieces = [
            self._piece(p)
            for p in parts(layout.m, layout.n, self.tile, inside, in_place=self.in_place, sum_bytes=self.size)
        ]
        self._small_key = self._exact()
        self._seen = 0
        self._kernel: Kernel | None = None
        self._records: _Records | None = None

    def _piece(self, part: Part) -> Piece:
        a, b, out = self.layout.a, self.layout.b, self.layout.out
        offsets = part.row * a[0], part.column * b[1], part.row * out[0] + part.column * out[1]
        return Piece(part.rows, part.columns, *offsets)

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

    @functools.cached_property
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
        code, records = self._kernel, self._records
        if code is None or records is None:
            code, records = self._prepare()
        kept = store()
        scratch = kept.take()
        try:
            if records.count == 1:
                packer(records.words).pack_into(scratch.record, 0, *records.one(a, b, out))
                code.call(scratch.record_address, scratch.buffers(records.needs, 1))
            else:
                self._run_many(code, records, records.all(a, b, out), scratch)
        finally:
            kept.free.append(scratch)

    def _run_many(self, code: Kernel, records: _Records, made: Array, scratch: Scratch) -> None:
        threads = min(self.threads, records.count)
        table = scratch.buffers(records.needs, threads)
        size, address = 8 * records.words, int(made.ctypes.data)
        step = max(threads, int(records.count * _CALL_WORK // max(self.layout.work, 1)))
        for start in range(0, records.count, step):
            end = min(start + step, records.count)
            job = (code.address, address, size, table, 8 * len(records.needs), end, 0, 0, start, 0)
            packer(len(job)).pack_into(scratch.job, 0, *job)
            crew().run(scratch.job_address, threads)

    def _prepare(self) -> tuple[Kernel, _Records]:
        """The kernel and its records; small layouts get one of their own when they have been seen often."""
        if self._small_key is not None:
            self._seen += self.layout.count
            if self._seen >= _HOT:
                self._kernel, self._records = small_kernel(self._small_key), self._small_records()
                return self._kernel, self._records
        code, records = kernel(self.key), self._packed_records()
        if self._small_key is None and records.count <= _KEPT_RECORDS:
            self._kernel, self._records = code, records
        return code, records

    def _small_records(self) -> _Records:
        rows = [
            (share, x, steps[0], y, steps[1], z, steps[2])
            for share, steps, (x, y, z) in _shares(self.layout.batch, self.threads)
        ]
        return _Records(SMALL_ARGUMENTS, rows, (0,) * len(SCRATCH), in_place=True)

    def _packed_records(self) -> _Records:
        layout, need = self.layout, self.buffer_bytes
        rows = [
            (
                *(share, *steps, piece.rows, piece.columns, layout.k),
                *(x + piece.a, *layout.a, y + piece.b, *layout.b),
                *((z + piece.out, layout.out[0]) if self.in_place else (0, piece.columns * self.size)),
                *(z + piece.out, *layout.out),
            )
            for share, steps, (x, y, z) in _shares(layout.batch, self.threads)
            for piece in self.pieces
        ]
        needs = tuple(need[name.removesuffix("_pack")] for name in SCRATCH)
        return _Records(ARGUMENTS, rows, needs, in_place=self.in_place)


class _Records:
    """Argument records of a product, offsets in place of addresses.

    Attributes
    ----------
    count, words : int
    needs : tuple of int
        Bytes of each buffer of a thread.
    """

    def __init__(
        self, names: tuple[str, ...], rows: Sequence[tuple[int, ...]], needs: tuple[int, ...], *, in_place: bool
    ) -> None:
        self.count, self.words, self.needs = len(rows), len(names), needs
        self._first = rows[0]
        self._rows = np.array(rows, np.int64) if len(rows) > 1 else np.empty((0, 0), np.int64)
        self._columns = [(names.index("a"), 0), (names.index("b"), 1)]
        self._columns += [(names.index(name), 2) for name in ("c", "out") if name in names]
        if in_place and "sums" in names:
            self._columns.append((names.index("sums"), 2))

    def one(self, *addresses: int) -> list[int]:
        """The words of the only record."""
        words = list(self._first)
        for column, which in self._columns:
            words[column] += addresses[which]
        return words

    def all(self, *addresses: int) -> Array:
        """All records, one a row."""
        base = [0] * self.words
        for column, which in self._columns:
            base[column] = addresses[which]
        made: Array = self._rows + np.array(base, np.int64)
        return made


def _shares(
    batch: tuple[tuple[int, int, int, int], ...], threads: int
) -> Iterator[tuple[int, tuple[int, int, int], tuple[int, int, int]]]:
    """A batch in shares: matrices in a row, the steps between them in A, B and C, and the offsets of the first."""
    if not batch:
        yield 1, (0, 0, 0), (0, 0, 0)
        return
    extent, *steps = batch[-1]
    outer = math.prod(axis[0] for axis in batch[:-1])
    wanted = 1 if threads == 1 else -(-threads * _SHARES // outer)
    share = max(1, -(-extent // wanted))
    for x, y, z in _offsets(batch[:-1]):
        for i in range(0, extent, share):
            start = (x + i * steps[0], y + i * steps[1], z + i * steps[2])
            yield min(share, extent - i), (steps[0], steps[1], steps[2]), start


def _offsets(batch: tuple[tuple[int, int, int, int], ...]) -> Iterator[tuple[int, int, int]]:
    """Where every matrix of a batch starts in A, B and C, in bytes."""
    for index in itertools.product(*(range(extent) for extent, *_ in batch)):
        x = y = z = 0
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
