"""Products of arrays outside memory, by NumPy's rules and within a memory limit.

A result at a path is written to an unfinished file beside it, which is renamed when the product is complete.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError, MissingExtraError, TilewrightError, warn
from tilewright.multiply.blocks import probing, stores
from tilewright.multiply.blocks.cluster import Cluster, check_writers
from tilewright.multiply.blocks.journal import Journal
from tilewright.multiply.blocks.planning import BlockPlan, Sizes, plan
from tilewright.multiply.blocks.running import Run
from tilewright.multiply.blocks.stores import Place, Store, disk, place_of
from tilewright.multiply.blocks.stores.replacing import move, remove
from tilewright.multiply.blocks.tile_maker import TileMaker
from tilewright.multiply.engine.partial import Partial
from tilewright.multiply.engine.request import Request
from tilewright.multiply.engine.shapes import result_shape
from tilewright.simulate.machine import host_memory
from tilewright.simulate.machine.sizes import size_bytes
from tilewright.version import __version__

Array = npt.NDArray[Any]
#: Suffix of the journal's file, after the unfinished result's name.
_JOURNAL = ".journal"
#: The share of the available memory that a product gets if the caller names no limit.
_SHARE = 0.5


def is_outside(a: Any, b: Any, out: Any) -> bool:
    """Whether an array is outside memory, or the arrays that are mapped files are together too large for memory."""
    given = (a, b) if out is None else (a, b, out)
    if any(stores.is_outside(x) for x in given):
        return True
    mapped = [x for x in given if isinstance(x, np.memmap)]
    room = host_memory.available_bytes() if mapped else None
    return room is not None and sum(x.nbytes for x in mapped) > _SHARE * room


def matmul(
    a: Any, b: Any, out: Any, asked: Request, memory: int | str | None, client: Any = None, *, overwrite: bool = False
) -> Any:
    """The product, as :func:`tilewright.matmul` returns it; if `out` is a path, the result is made there."""
    with planned(a, b, out, asked, memory, force=overwrite, client=client) as product:
        return product.run()


@contextmanager
def planned(
    a: Any, b: Any, out: Any, asked: Request, memory: int | str | None, *, force: bool = False, client: Any = None
) -> Iterator[Product]:
    """A product that is ready to run; its operands are open until the block ends.

    `memory` is the most that the process may use in all, in bytes or as text ("2GB"); by default the product gets half
    of the available memory. With a Dask `client` the cluster's workers make the product, `memory` is the limit of each,
    and all three arrays are paths. With `force` an array at the path `out` is replaced when the product is complete,
    and the unfinished tiles of another product there are dropped.

    Raises the errors of :func:`tilewright.matmul`, and StorageError and MissingExtraError as :func:`stores.opened`.
    """
    asked.check()
    cluster, here = None if client is None else Cluster(client, _warm), asked
    if cluster is not None:
        a, b, out = (_shared(x, name) for x, name in ((a, "a"), (b, "b"), (out, "out")))
        here = replace(asked, threads=asked.threads or cluster.threads)
    with ExitStack() as held:
        operands = []
        for value, name in ((a, "a"), (b, "b")):
            operands.append(stores.opened(value, name))
            held.callback(operands[-1].close)
        product = _planned(operands[0], operands[1], out, here, force=force)
        _check_apart((a, b), operands, product)
        product.asked, product.cluster, product.paths = asked, cluster, (a, b)
        product.check_number()
        product.lay_out(memory)
        yield product


def _shared(value: Any, name: str) -> Any:
    """An array that other processes can open: a path, or rows or columns of a mapped file."""
    if name != "out" and isinstance(value, np.memmap):
        found = stores.opened(value, name)
        found.close()
        if isinstance(found, stores.LinesStore):
            return found
    if not isinstance(value, str | os.PathLike):
        or_map = "" if name == "out" else ", or a map of rows or columns of such a file"
        raise ArgumentTypeError(
            f"`{name}` must be a path that every worker of the cluster sees{or_map} (got {type(value).__name__}); save "
            "the array there, or multiply without `client`: the product of Dask arrays is one that client.compute makes"
        )
    place = place_of(value, name)
    if name == "out" and place.format.one_writer:
        raise ArgumentValueError(
            f"`out` must have a format that several processes can write (got {place.text}, {place.format.title}); name "
            "a .npy or .zarr file"
        )
    return replace(place, file=place.file.absolute()).text


def _planned(a: Store, b: Store, out: Any, asked: Request, *, force: bool) -> Product:
    shape = result_shape(a.shape, b.shape)
    _check_free(out, (a, b))
    place, target = _target(out, shape, force=force)
    partial = Partial.of(a.dtype, b.dtype, shape, asked, None if target is None else target.dtype)
    left, right = _as_matrices(a, b)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    matrices = (*batch, left.shape[-2], right.shape[-1])
    return Product(left, right, matrices, shape, partial, out, target, place, asked, force)


def _target(out: Any, shape: tuple[int, ...], *, force: bool) -> tuple[Place | None, Store | None]:
    """The place of a result at a path, and the store of a result in an existing array; both None for a new array."""
    if out is None:
        return None, None
    if isinstance(out, str | os.PathLike):
        place = place_of(out, "out")
        stores.load(place)
        if os.path.lexists(place.file):
            # A complete result may be here with a journal that a killed process left; `Product` checks.
            _check_replaceable(place, force=force or _is_moved(place))
        if not place.file.parent.is_dir():
            raise ArgumentValueError(
                f"{place.file}: the output must be in a folder that exists (got {place.file.parent}); make it first"
            )
        if not os.access(place.file.parent, os.W_OK | os.X_OK):
            raise ArgumentValueError(
                f"{place.file}: the output must be in a folder that may be written (got {place.file.parent}, which is "
                "read-only here); name another"
            )
        return place, None
    target = stores.existing(out)
    if target.shape != shape:
        raise ArgumentValueError(f"`out.shape` must be {shape} (got {target.shape}); make it of that shape")
    return None, target


def _journal_of(place: Place) -> Path:
    part = place.unfinished().file
    return part.with_name(part.name + _JOURNAL)


def _is_moved(place: Place) -> bool:
    """Whether a journal exists without its unfinished file, and a file is at the result's own path."""
    return all(os.path.lexists(x) for x in (place.file, _journal_of(place))) and not os.path.lexists(
        place.unfinished().file
    )


def _check_free(out: Any, operands: Iterable[Store]) -> None:
    """Raise if the file of the result, or its unfinished file, has an invalid name or is the file of an operand."""
    if not isinstance(out, str | os.PathLike):
        return
    place = place_of(out, "out")
    with disk.reading(place.text):  # the name may be too long with the journal's suffix
        _journal_of(place).exists()
    for operand, file in itertools.product(operands, (place.file, place.unfinished().file)):
        extent = operand.extent()
        if extent is not None and extent.is_in(file):
            raise ArgumentValueError(
                f"{file}: the output must not be the file of an operand (got the file of {operand.name}, which would "
                "be replaced); name a new file"
            )


def _check_replaceable(place: Place, *, force: bool) -> None:
    """Raise if the file holds more than one array, or if the caller did not ask to replace it."""
    others = stores.beside(place)
    if others:
        some = ", ".join(others[:8]) + (", ..." if len(others) > 8 else "")
        raise ArgumentValueError(
            f"{place.file}: the output must be a new file (got one that also holds {some}, which would be lost); name "
            "another file"
        )
    if not force:
        raise ArgumentValueError(
            f"{place.file}: the output must be a new file (got one that exists); name another, or replace it with "
            "`overwrite=True`"
        )


def _check_apart(given: tuple[Any, Any], operands: Iterable[Store], product: Product) -> None:
    """Raise if `out` overlaps an operand: tiles are written before all panels are read."""
    if product.target is None:
        return
    for name, value, operand in zip("ab", given, operands, strict=True):
        if stores.overlap(value, operand, product.out, product.target):
            raise ArgumentValueError(
                f"`out` must not overlap `{name}`, as it is made tile by tile (got {product.target.name} for `out`, "
                f"{operand.name} for `{name}`); pass another array, or the path of a new file"
            )


@dataclass(slots=True)
class Product:
    """A product of arrays outside memory."""

    a: Store
    b: Store
    matrices: tuple[int, ...]  #: The result's shape with vectors as matrices of one row or column.
    shape: tuple[int, ...]
    partial: Partial
    out: Any  #: As the caller gave it.
    target: Store | None  #: The store of `out`, if it is not a path.
    place: Place | None
    asked: Request
    force: bool
    plan: BlockPlan | None = None  #: None if the result has no elements.
    kept: int = 0  #: Tiles that an earlier run made.
    finished: Collection[int] = ()  #: Tiles of a result at a path that are on disk.
    cluster: Cluster | None = None  #: The cluster whose workers make the tiles.
    paths: tuple[Any, Any] = (None, None)  #: The operands' paths, for a cluster's workers.

    def check_number(self) -> None:
        """Raise if the result is a scalar and the file's format cannot hold one."""
        if self.place is None or self.shape or (self.place.format.suffixes == (".npy",) and self.cluster is None):
            return
        raise ArgumentValueError(
            "`out` must be a .npy file, without a cluster, if two vectors give a single number "
            f"(got {self.place.text}); name a .npy file, or give `a` as a matrix of one row"
        )

    def lay_out(self, memory: int | str | None) -> None:
        """Plan the product for the memory limit."""
        m, k, n = *self.a.shape[-2:], self.b.shape[-1]
        if 0 in self.matrices:
            return
        batch = int(np.prod(self.matrices[:-2]))
        out_chunks = (1,) if self.target is None else self.target.write_chunks
        if self.place is not None:
            out_chunks = (self.place.format.chunk_rows, 1)
        sizes = Sizes(
            (m, n, k),
            (self.a.dtype.itemsize, self.b.dtype.itemsize),
            self.partial.sums.itemsize,
            self.partial.out.itemsize,
            (_last_two(self.a.chunks), _last_two(self.b.chunks), _last_two(out_chunks)),
            (self.a.resident, self.b.resident),
            self.partial.splits_k,
            batch,
            self.partial.extra_bytes,
            0 if self.cluster is None else len(self.cluster.workers),
        )
        folder = self.place.file.parent if self.place is not None else None
        rates = probing.rates(self.partial, self.a, self.b, folder)
        tile = Journal.tile_of(self._journal) if self.place is not None else None
        if tile is not None and (tile[0] > m or tile[1] > n):
            tile = None  # the journal is of another product
        room, least = (
            (_room(memory), 1) if self.cluster is None else (self.cluster.room(memory), self.cluster.least_tiles)
        )
        room -= sum(store.buffer_bytes for store in (self.a, self.b, self.target) if store is not None)
        process = 0 if memory is None else size_bytes("`memory`", memory) - room
        self.plan = plan(sizes, room, rates, tile, least_tiles=least, process_bytes=process)

    @property
    def _journal(self) -> Path:
        assert self.place is not None
        return _journal_of(self.place)

    def run(self) -> Any:
        """Make the product, or the tiles that are missing."""
        if self.place is not None:
            return self._made_at(self.place) if self.shape else self._number_at(self.place)
        if self.target is not None:
            self._into(self.target, None)
            return self.out
        return self._in_memory()

    def _in_memory(self) -> Any:
        c = host_memory.empty(self.matrices, self.partial.out, len(self.a.shape), len(self.b.shape))
        self._into(stores.opened(c, "out"), None)
        return c.reshape(self.shape)[()]

    def _made_at(self, place: Place) -> Path:
        """Make C in an unfinished file, and move it to its place when it is complete."""
        part = self._free_part(place)
        tiles = 0 if self.plan is None else self.plan.tiles
        with Journal.opened(self._journal, self._identity(), tiles, force=self.force) as journal:
            self.finished = journal.done.keys()
            if len(journal.done) == tiles and _is_moved(place) and self._is_whole(place, journal):
                self.kept = tiles
                journal.remove()
                return Path(place.text)
            self._check_forced(place)
            c = self._unfinished(part, journal)
            try:
                self._into(c, journal)
                c.flush()
            finally:
                c.close()
            move(part.file, place.file)
            journal.remove()
        return Path(place.text)

    def _free_part(self, place: Place) -> Place:
        """The place of the unfinished result; raises if a file of the user's is there."""
        part = place.unfinished()
        if os.path.lexists(part.file) and not self._journal.exists():
            raise ArgumentValueError(
                f"{part.file}: must be free for the unfinished result (got a file without a journal beside it); move "
                "it away, or name another output"
            )
        return part

    def _is_whole(self, place: Place, journal: Journal) -> bool:
        """Whether a file holds all tiles, with the checksums of the journal."""
        try:
            c = stores.opened(place.text, "out", dtype=self.partial.out)
        except TilewrightError:
            return False
        with closing(c):
            if (c.shape, c.dtype) != (self.shape, self.partial.out):
                return False
            three = self.a, self.b, _as_matrix(c, self.matrices)
            return self.plan is None or not Run(self.plan, three, self.partial, journal=journal).damaged()

    def _check_forced(self, place: Place) -> None:
        if os.path.lexists(place.file):
            _check_replaceable(place, force=self.force)

    def _number_at(self, place: Place) -> Path:
        """Compute a scalar result in memory, and write it to its file."""
        part = self._free_part(place)
        with Journal.opened(self._journal, self._identity(), force=self.force) as journal:
            self._check_forced(place)
            try:
                value = np.asarray(self._in_memory())
                with disk.writing(place.text, value.nbytes, place.file.absolute().parent), part.file.open("wb") as file:
                    np.save(file, value, allow_pickle=False)
                    file.flush()
                    os.fsync(file.fileno())
                move(part.file, place.file)
            finally:
                remove(part.file)
                journal.remove()
        return Path(place.text)

    def _unfinished(self, part: Place, journal: Journal) -> Store:
        """Open the unfinished result: an existing one with tiles that are done, else a new one."""
        if journal.done:
            try:
                c = stores.existing(part.text, dtype=self.partial.out)
                if (c.shape, c.dtype) == (self.shape, self.partial.out):
                    return c
                c.close()
                wrong = f"it has shape {c.shape} and dtype {c.dtype}"
            except TilewrightError as error:
                if isinstance(error, MissingExtraError) or getattr(error, "errno", None) not in (None, errno.ENOENT):
                    raise  # the cause may pass, so keep the tiles that are done
                wrong = str(error)
            warn(
                f"{part.text}: the unfinished result is damaged or gone; the product starts again from nothing "
                f"({wrong})"
            )
        journal.forget()
        remove(part.file)  # a kill may have left a part of it
        hint = (1, 1) if self.plan is None else (self.plan.rows, self.plan.columns)
        if len(self.shape) < len(self.matrices):
            hint = (1, max(hint))  # a vector is stored as one row
        try:
            stores.created(part.text, self.shape, self.partial.out, chunks_hint=hint).close()
            return stores.existing(part.text, dtype=self.partial.out)
        except TilewrightError:  # nothing exists yet that the journal should protect
            remove(part.file)
            journal.remove()
            raise

    def _into(self, c: Store, journal: Journal | None) -> None:
        if self.plan is not None:
            three = self.a, self.b, _as_matrix(c, self.matrices)
            run = Run(self.plan, three, self.partial, reads_out=self.asked.beta != 0, journal=journal)
            if journal is not None:
                run.drop_damaged()
                self.kept = len(journal.done)
            if self.cluster is None or journal is None:
                run()
                return
            check_writers(self.plan, three[2])
            assert self.place is not None
            result = self.place.unfinished().text, self.partial.out
            opening = functools.partial(_three, *self.paths, *result, self.matrices)
            given = self.a.dtype, self.b.dtype, self.shape
            work = functools.partial(_arithmetic, *given, self.asked)
            self.cluster.make(TileMaker(self.plan, opening, work, run.identities), journal)

    def _identity(self) -> dict[str, Any]:
        """The facts by which a later run recognises the same product, to resume it."""
        tile = () if self.plan is None else (self.plan.rows, self.plan.columns)
        arithmetic = self.partial.identity()
        return {
            "a": self.a.identity(),
            "b": self.b.identity(),
            "shape": self.shape,
            "arithmetic": arithmetic,
            "tile": tile,
            "version": __version__,
        }


def _three(a: Any, b: Any, c: str, dtype: np.dtype[Any], matrices: tuple[int, ...]) -> tuple[Store, Store, Store]:
    """A product's arrays, as a worker opens them."""
    left, right = _as_matrices(stores.opened(a, "a"), stores.opened(b, "b"))
    return left, right, _as_matrix(stores.existing(c, dtype=dtype), matrices)


def _arithmetic(a: np.dtype[Any], b: np.dtype[Any], shape: tuple[int, ...], asked: Request, threads: int) -> Partial:
    """The arithmetic of a worker, with `threads` threads unless the caller named a number."""
    return Partial.of(a, b, shape, replace(asked, threads=asked.threads or threads))


def _warm() -> None:
    """Load the engine and its compiler first, so that their memory is not counted as free for tiles."""
    a = np.ones((8, 8), np.float32)
    matmul_sums = Partial.of(a.dtype, a.dtype, (8, 8), Request())
    matmul_sums.add(a, a, np.empty((8, 8), matmul_sums.sums), first=True)


def _as_matrices(a: Store, b: Store) -> tuple[Store, Store]:
    """Operands for the plan: a vector becomes a matrix of one row or column."""
    return (stores.as_row(a) if len(a.shape) == 1 else a), (stores.as_column(b) if len(b.shape) == 1 else b)


def _as_matrix(c: Store, matrices: tuple[int, ...]) -> Store:
    """C for the plan: a vector becomes a matrix of one row or column."""
    if len(c.shape) == len(matrices):
        return c
    return stores.as_row(c) if (*c.shape[:-1], 1, c.shape[-1]) == matrices else stores.as_column(c)


def _last_two(chunks: tuple[int, ...]) -> tuple[int, int]:
    """The chunks of the last two axes; a vector counts as one row."""
    rows, columns = (1, *chunks)[-2:]
    return rows, columns


def _room(memory: int | str | None) -> int:
    """Bytes for tiles and panels, on top of the memory that the process has."""
    if memory is None:
        return int(_SHARE * (host_memory.available_bytes() or 1 << 31))
    return size_bytes("`memory`", memory) - host_memory.resident_bytes()
