"""Products of NumPy arrays: for each layout, kernels and parts are chosen once, then run with three addresses.

A :class:`Product` holds everything that does not depend on the addresses. To run it, machine code adds the addresses to
the argument records, so a small product costs little more than its arithmetic.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.ground.progress import announced
from tilewright.multiply.backends.cpu import amx_loops
from tilewright.multiply.backends.cpu.addresses import address_reader
from tilewright.multiply.backends.cpu.blocks import tuned
from tilewright.multiply.backends.cpu.choice import Part, grid_parts, kernel_key, parts, shorter, strips
from tilewright.multiply.backends.cpu.contexts import REGISTER_BYTES, SHORT_STEP, Blocks, KernelKey, Tile, tile_of
from tilewright.multiply.backends.cpu.finish import OPERAND_WORDS, Finish, pattern
from tilewright.multiply.backends.cpu.kernels import Kernel, is_kept, kernel
from tilewright.multiply.backends.cpu.lanes import fits_lanes
from tilewright.multiply.backends.cpu.layout import Layout
from tilewright.multiply.backends.cpu.loops import ARGUMENTS, SCRATCH
from tilewright.multiply.backends.cpu.microkernel.dot import dot_of
from tilewright.multiply.backends.cpu.packing import STEPS
from tilewright.multiply.backends.cpu.pool import JOB, NEXT, caller, crew
from tilewright.multiply.backends.cpu.records import Records, Shares, table
from tilewright.multiply.backends.cpu.scratch import Scratch, store
from tilewright.multiply.backends.cpu.skinny import ROWS_MAX, SkinnyKey, skinny_kernel
from tilewright.multiply.backends.cpu.small import ARGUMENTS as SMALL_ARGUMENTS, EXTENT_MAX, SmallKey, small_kernel
from tilewright.multiply.backends.cpu.threads import limit
from tilewright.multiply.problem.dtypes import dtype, element
from tilewright.multiply.problem.expression import Expression
from tilewright.multiply.problem.kind import Kind

Array = npt.NDArray[Any]
#: How operands are read: see :class:`tilewright.multiply.backends.protocol.Planned`.
Path = Literal["packed", "tile registers", "lanes", "skinny", "small"]
#: Matrices of one small layout from which a kernel for its exact extents pays: it takes 20 to 100 ms to compile and
#: saves 0.1 to 3 us for each matrix. One on disk takes less than a millisecond to load.
_HOT, _HOT_KEPT = 10_000, 32
#: Least work for one more thread, about 15 us of one core: handing work over takes 1 or 2 us, but a worker that another
#: process has displaced delays the product much longer.
THREAD_WORK = 1_500_000
_FLOATS = ("float", "double")
#: The paths of some families; the others' is "packed".
_PATHS: dict[str, Path] = {"amx": "tile registers", "lanes": "lanes"}
#: Multiply-adds that take as long as reading an element of 4 bytes.
_SKINNY_EFFORT = 4
#: Bytes of B from which a skinny product has its own kernel.
_SKINNY_BYTES = 64 << 10
#: Multiply-adds of bytes in tiles, packing included, that take as long as one of float32 (at 256 cubed).
_AMX_SPEED = 12
#: Most work of one call into machine code, and of one thread in it, in float32 multiply-adds (one core does 5e10 a
#: second): Ctrl-C takes effect between calls.
_CALL_EFFORT, _PART_EFFORT = 40_000_000_000, 20_000_000_000
#: Most calls that one matrix is cut into for that; a product that takes days has longer calls.
_MOST_PARTS = 1 << 16
#: Multiply-adds from which a product is announced to watchers: a tenth of a second and more.
_LONG_EFFORT = 5_000_000_000
#: Float32 multiply-adds that take as long as one of another register type; a semiring's step counts its operations.
_STEP_EFFORT = {"float": 1, "double": 2, "i32": 3, "i64": 12}
#: Records of a product that are kept for its next run, 150 bytes each. Further ones are made again for each run, which
#: takes a fraction of their matrices' time; so thousands of products hold little memory. Records of so many shares are
#: made at a time.
_KEPT_RECORDS, _SHARES_AT_ONCE = 64, 4096


class Piece(NamedTuple):
    """A part of C: extents, and byte offsets of its first row of A, column of B and element of C and of `more`."""

    rows: int
    columns: int
    a: int
    b: int
    out: int
    more: tuple[int, ...] = ()


def skinny_key(layout: Layout, key: KernelKey) -> SkinnyKey | None:
    """The key of the kernel for few rows of C and a large B, if there is one."""
    size = element(key.b).bytes
    if key.order != "canonical":  # skinny kernels have no other
        return None
    if key.algebra is not None and (key.algebra.cost > SHORT_STEP or REGISTER_BYTES[key.register] < 4):
        return None
    skinny = element(key.b).pairs == 1 and 0 < layout.m <= ROWS_MAX and layout.n * layout.k * size >= _SKINNY_BYTES
    if not skinny or size not in layout.b:
        return None
    plain = replace(key, family="integer") if dot_of(key) is not None else key
    return SkinnyKey(plain, layout.m, "rows" if layout.b[1] == size else "columns")


def _is_small(layout: Layout, size: int) -> bool:
    """Whether a kernel of exact extents can read elements of `size` bytes: rows of B and C must be contiguous."""
    fits = 0 < max(layout.m, layout.n, layout.k) <= EXTENT_MAX and layout.k > 0
    return fits and (layout.n == 1 or layout.b[1] == layout.out[1] == size)


def _turned(layout: Layout, kind: Kind) -> Layout:
    """The layout, transposed if that allows a kernel for few rows or exact extents and sums need not stay in rows."""
    c = element(kind.out)
    if c.pairs == 2 or kind.continues:
        return layout
    if layout.n <= ROWS_MAX < layout.m:
        layout = layout.transposed()  # few columns are few rows of the transposed product
    turned = layout.transposed()
    return turned if _is_small(turned, c.bytes) and not _is_small(layout, c.bytes) else layout


class Product:
    """The products of one layout, ready to run."""

    def __init__(self, layout: Layout, kind: Kind, threads: int, blocks: Blocks | None = None) -> None:
        c = element(kind.out)
        layout = _turned(layout, kind)
        sums = kind.out if kind.finish is None else kind.accumulator
        names = (kind.b, kind.a, sums) if layout.swapped else (kind.a, kind.b, sums)
        self.layout = layout
        algebra = kind.algebra.flipped() if kind.algebra is not None and layout.swapped else kind.algebra
        self.key: KernelKey = kernel_key(
            *names, kind.accumulator, algebra, order=kind.order, extents=(layout.m, layout.n, layout.k)
        )
        if kind.order == "fast" and self.key.family == "fma" and fits_lanes(layout.m, layout.n, layout.k):
            self.key = replace(self.key, family="lanes")
        if kind.finish is not None:
            self.key = replace(self.key, finish=self._finish(kind.finish))
        self.skinny = skinny_key(layout, self.key)
        if self.skinny is not None:
            self.key = self.skinny.key
        self.size = REGISTER_BYTES[self.key.register]
        if self.skinny is None and self.key.family not in ("amx", "lanes"):
            self.key = replace(self.key, blocks=blocks or tuned(layout, self.key, kind, self.size, threads))
        self.tile: Tile = tile_of(self.key)
        self.pairs = c.pairs  #: 2 for complex products, whose parts and kernels count real numbers; else 1.
        alike = kind.finish is not None or (c.kind in ("float", "complex")) == (self.key.register in _FLOATS)
        same = alike and c.bytes == self.pairs * self.size and not kind.reads_out
        self.in_place = same and (layout.out[1] == c.bytes or layout.n == 1)  #: Whether sums are kept in C itself.
        assert self.in_place or not kind.continues, "continued sums must be rows of the accumulator's register type"
        self.continues = kind.continues
        #: Whether sums are kept in a buffer.
        self.keeps_sums = not self.in_place and not (self.key.family == "amx" and layout.k <= self.tile.kc)
        self.threads = min(threads, 1 + self._effort() // THREAD_WORK)  #: Most threads to use.
        self.pieces = [self._piece(p) for p in self._cut()]  #: Parts of one matrix.
        self._small_key = self._exact()
        self._seen, self._hot, self._counts = 0, _HOT_KEPT, self._small_key is not None
        self._shares = Shares(layout.batch, self.threads, 3 + len(layout.more))
        self._read = address_reader()
        self._ready: _Ready | None = None

    def _cut(self) -> list[Part]:
        """Cut C into parts, each a record."""
        cut: Callable[..., list[Part]] = strips
        if self.key.family == "amx":
            cut = grid_parts
        elif self.skinny is None:
            cut = functools.partial(parts, by_rows=self.packs_a)
        layout = self.layout
        threads = self.threads if layout.count < self.threads else 1
        extents = layout.m, self.pairs * layout.n
        found = cut(*extents, self.tile, threads, in_place=not self.keeps_sums, sum_bytes=self.size)
        most = _PART_EFFORT // max(1, self._step_effort * self.pairs * layout.k)
        return shorter(found, self.tile, max(most, extents[0] * extents[1] // _MOST_PARTS))

    @property
    def _step_effort(self) -> int:
        """The time of one multiply-add, in those of float32, roughly."""
        return self.key.algebra.cost if self.key.algebra is not None else _STEP_EFFORT[self.key.register]

    def _finish(self, expression: Expression) -> Finish:
        strides = zip(expression.parameters[1:], self.layout.more, strict=True)
        return Finish(expression, tuple(pattern(name, cs, self.layout.n) for (_, name), (_, cs) in strides))

    def _effort(self) -> int:
        """The time of one matrix, in multiply-adds of float32."""
        layout = self.layout
        columns = -(-layout.n // self.tile.width) * self.tile.width  # narrow matrices leave lanes unused
        found = self.pairs**2 * layout.m * columns * layout.k * layout.count * self.size // 4
        dot = dot_of(self.key)
        if dot is not None:
            found //= dot.group
        if self.key.family == "amx":
            found = found * element(self.key.a).bytes // _AMX_SPEED
        if self.skinny is not None:  # memory is the bottleneck
            found = max(found, _SKINNY_EFFORT * layout.n * layout.k * layout.count * self.size // 4)
        return found

    def _piece(self, part: Part) -> Piece:
        a, b, out = self.layout.a, self.layout.b, self.layout.out
        column = part.column // self.pairs
        offsets = part.row * a[0], column * b[1], part.row * out[0] + column * out[1]
        more = tuple(part.row * rs + part.column * cs for rs, cs in self.layout.more)
        return Piece(part.rows, part.columns, *offsets, more)

    def _exact(self) -> SmallKey | None:
        """The key of an unpacked kernel for these extents, if there is one."""
        layout, size = self.layout, self.size
        long = self.key.algebra is not None and self.key.algebra.cost > SHORT_STEP
        if self.pairs == 2 or self.key.finish is not None or long or self.continues:
            return None
        elements = [element(name) for name in (self.key.a, self.key.b, self.key.c)]
        plain = all(x.bytes == size for x in elements)
        kinds = {x.kind == "float" for x in elements}
        small = _is_small(layout, size) and self.in_place
        if not (plain and small and len(kinds) == 1 and (self.key.register in ("float", "double")) in kinds):
            return None
        return SmallKey(self.key, layout.m, layout.n, layout.k, layout.a[0], layout.a[1], layout.b[0], layout.out[0])

    @property
    def path(self) -> Path:
        """How operands are read."""
        if self._small_key is not None:
            return "small"
        if self.skinny is not None:
            return "skinny"
        return _PATHS.get(self.key.family, "packed")

    @property
    def packs_a(self) -> bool:
        """Whether rows of A are packed rather than read in place."""
        plain = dot_of(self.key) is None and self.key.a == self.key.c and self.in_place
        return not (plain and self.layout.a[1] == self.pairs * self.size)

    @functools.cached_property
    def buffer_bytes(self) -> dict[str, int]:
        """Bytes of each buffer that one thread needs for the packed kernel."""
        rows = max((p.rows for p in self.pieces), default=0)
        columns = max((p.columns for p in self.pieces), default=0)
        sums = max((p.rows * p.columns for p in self.pieces), default=0) * self.size if self.keeps_sums else 0
        if self.key.family == "amx":
            return amx_loops.buffer_bytes(self.tile, dtype(self.key.a).bytes, columns, self.layout.k) | {"sums": sums}
        tile, size = self.tile, self.size
        if self.key.family == "lanes":
            return {"a": rows * STEPS * size, "b": columns * STEPS * size, "sums": sums}
        kc = tile.kc if self.skinny is None else STEPS
        # one more row: some kernels store corrections after a panel
        steps = min(max(self.pairs * self.layout.k, 1), kc) + 1
        return {
            "a": rows * kc * size if self.packs_a else 0,
            "b": steps * (min(tile.nc, columns) + tile.nr) * size if self.skinny is None else 0,
            "sums": sums,
        }

    def run_arrays(self, a: Array, b: Array, out: Array, more: Sequence[Array] = ()) -> None:
        """Multiply arrays of the layout's strides; `out` must share no bytes with the operands.

        It may share them with one of `more`, where every element is at the same place in both.
        """
        ready = self._ready  # one reference for the whole run: other threads may replace the attribute
        if ready is not None and ready.call is not None:
            ready.call(ready.pair, id(a), id(b), id(out))
            return
        read = self._read
        if more:
            addresses = np.array([read(x) for x in more], np.int64)
            self.run(read(a), read(b), read(out), read(addresses))
        else:
            self.run(read(a), read(b), read(out))

    def run(self, a: int, b: int, out: int, more: int = 0) -> None:
        """Multiply arrays at three host addresses; `more` is the address of a table of the finish's operands."""
        if self.layout.swapped:
            a, b = b, a
        ready = self._ready
        if ready is None or self._counts:
            ready = self._prepare()
        self._run(ready.code, ready.records, (a, b, out, more))
        for first in range(_SHARES_AT_ONCE, self._shares.count, _SHARES_AT_ONCE):
            self._run(ready.code, ready.made(first, first + _SHARES_AT_ONCE), (a, b, out, more))

    def _run(self, code: Kernel, records: Records, addresses: tuple[int, int, int, int]) -> None:
        if records.count == 1 and not records.buffers:
            code.call(records.address, 0, *addresses)
            return
        kept = store()
        scratch = kept.take()
        try:
            if records.count == 1:
                code.call(records.address, scratch.buffers(records.buffers, 1), *addresses)
            else:
                self._run_many(code, records, addresses, scratch)
        finally:
            kept.free.append(scratch)

    def _run_many(self, code: Kernel, records: Records, addresses: tuple[int, ...], scratch: Scratch) -> None:
        threads = min(self.threads, records.count)
        buffers = scratch.buffers(records.buffers, threads)
        head = (code.address, records.address, 8 * records.words, buffers, 8 * len(records.buffers), *addresses)
        effort = self.pairs**2 * self.layout.work * self._step_effort // (self._shares.count * len(self.pieces)) + 1
        step = max(threads, _CALL_EFFORT // effort)
        with self._announced(scratch, records.count, threads, effort * records.count):
            for start in range(0, records.count, step):
                end = min(start + step, records.count)
                JOB.pack_into(scratch.job, 0, *head, end, start, 0, 0)
                crew().run(scratch.job_address, threads)

    def _announced(self, scratch: Scratch, count: int, threads: int, effort: int) -> AbstractContextManager[object]:
        """Announce a long product to watchers, with its count of finished records."""
        if effort < _LONG_EFFORT:
            return nullcontext()
        layout = self.layout
        m, n = (layout.n, layout.m) if layout.swapped else (layout.m, layout.n)
        batch = f"{layout.count:,} of " if layout.count > 1 else ""
        what = f"{batch}{m:,} x {layout.k:,} by {layout.k:,} x {n:,}"
        job = scratch.job.cast("q")
        return announced("multiplying", what, count, done=lambda: max(0, min(job[NEXT], count) - threads))

    def _prepare(self) -> _Ready:
        """The kernel and its first records; a small layout gets its own kernel after many matrices."""
        small = self._small_key if self._counts else None
        if small is not None:
            self._seen += self.layout.count
            if self._seen >= self._hot:
                if self._seen >= _HOT or is_kept(repr(small)):
                    return self._keep(small_kernel(small), self._small_records, counts=False)
                self._hot = _HOT
            if self._ready is not None:
                return self._ready
        code = kernel(self.key) if self.skinny is None else skinny_kernel(self.skinny)
        return self._keep(code, self._packed_records, counts=self._counts)

    def _keep(self, code: Kernel, made: Callable[[int, int], Records], *, counts: bool) -> _Ready:
        # Calls that are counted must not take the shortest way.
        ready = _Ready.of(code, made, self._shares.count, direct=not (self.layout.swapped or counts))
        if ready.records.count <= _KEPT_RECORDS:
            self._ready, self._counts = ready, counts
        return ready

    def _small_records(self, first: int, last: int) -> Records:
        batch, offsets = self._shares.rows(first, last)
        words = dict(zip(("a", "b", "out"), offsets.T, strict=True)) | {"batch": batch}
        steps = dict(zip(("a_step", "b_step", "out_step"), self._shares.steps, strict=True))
        return Records(table(SMALL_ARGUMENTS, words | steps, len(batch)))

    def _packed_records(self, first: int, last: int) -> Records:
        """The records of some shares, one for each piece."""
        layout, need, steps = self.layout, self.buffer_bytes, self._shares.steps
        batch, offsets = self._shares.rows(first, last)
        count = len(batch) * len(self.pieces)
        inside = np.array([(p.a, p.b, p.out, *p.more) for p in self.pieces], np.int64).reshape(-1, len(steps))
        starts = (offsets[:, None] + inside).reshape(count, -1).T
        parts = np.tile([(p.rows, p.columns) for p in self.pieces], (len(batch), 1)).reshape(count, 2).T
        pairs = (layout.a, layout.b, layout.out)
        words: dict[str, Any] = {"batch": np.repeat(batch, len(self.pieces)), "m": parts[0], "n": parts[1]}
        words |= {"k": self.pairs * layout.k, "in_place": int(self.in_place), "continues": int(self.continues)}
        words["sums_rs"] = layout.out[0] if self.in_place else parts[1] * self.size
        names = list(ARGUMENTS)
        for i, (x, (rs, cs)) in enumerate(zip(("a", "b", "out"), pairs, strict=True)):
            words |= {x: starts[i], f"{x}_step": steps[i], f"{x}_rs": rs, f"{x}_cs": cs}
        for i, (rs, cs) in enumerate(layout.more, start=3):
            values = {"step": steps[i], "first": starts[i], "rs": rs, "cs": cs}
            names += [f"{i}_{word}" for word in OPERAND_WORDS]
            words |= {f"{i}_{word}": values[word] for word in OPERAND_WORDS}
        return Records(table(names, words, count), tuple(need[name.removesuffix("_pack")] for name in SCRATCH))


@dataclass(frozen=True, slots=True)
class _Ready:
    """The code and records of a product; a run holds a reference to all of them."""

    code: Kernel
    made: Callable[[int, int], Records]  #: Makes records of shares, from a first to a last number.
    records: Records  #: Records of the first shares.
    words: Array  #: The kernel's and the records' addresses, at the address `pair`.
    pair: int
    #: If one call is enough: the function of `pair` and of three array objects.
    call: Callable[[int, int, int, int], None] | None

    @classmethod
    def of(cls, code: Kernel, made: Callable[[int, int], Records], shares: int, *, direct: bool) -> _Ready:
        records = made(0, _SHARES_AT_ONCE)
        words = np.array([code.address, records.address], np.int64)
        direct = direct and records.count == 1 and shares == 1 and not records.buffers
        return cls(code, made, records, words, int(words.ctypes.data), caller() if direct else None)


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
    more: tuple[Extents, ...] = (),
) -> Product:
    """The product of arrays of these shapes and strides, made once; only k may be 0."""
    commutes = element(kind.out).pairs == 1  # each step of a complex sum has an order of its own
    # Lanes sum few rows and columns in another order: the batch must not change how many a matrix has.
    folds = kind.order != "fast" or not fits_lanes(out_shape[-2], out_shape[-1], a_shape[-1])
    arrays = a_shape, a_strides, b_shape, b_strides, out_shape, out_strides, more
    layout = Layout.strided(*arrays, commutes=commutes, folds=folds)
    return _product(layout, kind, threads)


@functools.lru_cache(maxsize=4096)
def _product(layout: Layout, kind: Kind, threads: int) -> Product:
    """Equal layouts share one product."""
    return Product(layout, kind, threads)


def multiply_into(
    a: Array, b: Array, out: Array, kind: Kind, threads: int | None = None, more: Sequence[Array] = ()
) -> None:
    """Compute out = a b; see :meth:`~tilewright.multiply.backends.protocol.Backend.multiply_into`."""
    if out.size == 0:
        return
    count = limit().count if threads is None else threads
    strides = tuple(x.strides for x in more)
    found = product(a.shape, a.strides, b.shape, b.strides, out.shape, out.strides, kind, count, strides)
    found.run_arrays(a, b, out, more)


def multiply(a: Array, b: Array) -> Array:
    """The canonical product of two matrices of one real dtype, as the catalogue runs it.

    >>> multiply(np.eye(2, dtype=np.int8), np.full((2, 3), 5, np.int8))
    array([[5, 5, 5],
           [5, 5, 5]], dtype=int8)
    """
    out: Array = np.empty((a.shape[0], b.shape[1]), a.dtype)
    record = dtype(a.dtype)
    multiply_into(a, b, out, Kind(record.name, record.name, record.name, record.accumulator))
    return out


def forget() -> None:
    """Forget all products, so that later ones use the block sizes that are kept now."""
    product.cache_clear()
    _product.cache_clear()
