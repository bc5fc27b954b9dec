"""Runs a plan: panels are read while others are multiplied, and a tile is written while the next is summed."""

from __future__ import annotations

import contextlib
import itertools
import time
import zlib
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import StorageError, warn
from tilewright.ground.progress import announced
from tilewright.multiply.blocks.planning import PANELS, BlockPlan
from tilewright.multiply.blocks.stores import MemoryStore, Store, one_file
from tilewright.multiply.blocks.work import Work

Array = npt.NDArray[Any]
#: Seconds between checks for changed operands.
_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a tile: panels of A and B that are multiplied and added to the sums."""

    tile: int  #: The tile's number: by batch entry, then by rows.
    entry: int
    row: int
    column: int
    panel: int


class Notes(Protocol):
    """The record of finished tiles: a journal, or a worker that reports to the owner of the journal."""

    @property
    def done(self) -> MutableMapping[int, int]:
        """Tiles on disk -> the CRC-32 of their bytes."""

    def add(self, tile: int, crc32: int) -> None:
        """Note that a tile is on disk."""


class Run:
    """One product in progress."""

    def __init__(
        self,
        plan: BlockPlan,
        stores: tuple[Store, Store, Store],
        work: Work,
        *,
        reads_out: bool = False,
        journal: Notes | None = None,
    ) -> None:
        """`stores` are A's, B's and C's; with `reads_out`, finishing a tile reads the old tile of C."""
        self.plan, self.work, self.journal, self.reads_out = plan, work, journal, reads_out
        self.a, self.b, self.c = stores
        self.batch = self.c.shape[:-2]
        self.done = 0  #: Steps.
        # Operands in memory cannot change; for an operand in C's file, the file's times change when C is written.
        self._operands = [x for x in stores[:2] if not x.resident and not one_file(x, self.c)]
        self.identities = [x.identity() for x in self._operands]  #: Identities of operands outside memory.
        self._looked = time.monotonic()
        self._writes = [_nothing()] * plan.tiles_held

    def __call__(self) -> None:
        """Make the tiles of C that the journal lacks.

        Raises
        ------
        StorageError
            An operand changed or cannot be read, or C cannot be written.
        """
        kept = self._kept
        missing = [tile for tile in self.plan.order() if tile not in kept]
        (m, n, k), panels = self.plan.sizes.extents, self.plan.grid[2]
        flops = self.plan.sizes.flops * len(missing) // self.plan.tiles
        what = f"{m:,} x {k:,} by {k:,} x {n:,}"
        with announced("multiplying", what, len(missing) * panels, "steps", lambda: self.done, flops):
            order = iter(missing)
            self.make(lambda: next(order, None))

    def make(self, following: Callable[[], int | None]) -> None:
        """Make the tiles that `following` names, until it names none.

        `following` returns a tile, or None. It is called before a tile's last step, so that panels of the next tile are
        read during that step. If it returns None then, it is called once more after the step. Raises StorageError as
        :meth:`__call__`.
        """
        self._writes = [_nothing()] * self.plan.tiles_held
        with _pool("read", PANELS) as readers, _pool("write", 1) as writer:
            self._go(following, readers, writer)
            for write in self._writes:
                write.result()
            self._look()

    @property
    def _kept(self) -> MutableMapping[int, int]:
        return self.journal.done if self.journal is not None else {}

    def damaged(self) -> list[int]:
        """Tiles of the journal whose bytes do not match their checksums.

        Raises StorageError: the system cannot read one.
        """
        return [tile for tile, crc32 in self._kept.items() if self._crc32(tile) != crc32]

    def drop_damaged(self) -> None:
        """Remove damaged tiles from the journal, so that they are made again, and warn of them."""
        damaged = self.damaged()
        if not damaged:
            return
        for tile in damaged:
            del self._kept[tile]
        rows, columns, _ = self._where(Step(damaged[0], *self.plan.place(damaged[0]), 0))
        more = f", and {len(damaged) - 1:,} tiles more" if len(damaged) > 1 else ""
        warn(
            f"{self.c.name}: rows {rows.start} to {rows.stop - 1}, columns {columns.start} to {columns.stop - 1}{more} "
            f"do not match their checksums; they are computed again, the other {len(self._kept):,} finished "
            "tiles are kept (check the disk, and whether another program wrote to the file)"
        )

    def _go(self, following: Callable[[], int | None], readers: ThreadPoolExecutor, writer: ThreadPoolExecutor) -> None:
        plan = self.plan
        memory = np.empty((plan.tiles_held, plan.rows * plan.columns), self.work.sums)
        left = Panels(self.a, plan.rows, plan.depth, readers)
        right = Panels(self.b, plan.depth, plan.columns, readers)
        held = itertools.cycle(range(plan.tiles_held))
        place, step, ahead = 0, self._first(following()), None
        while step is not None:
            panels = ahead or self._asked(left, right, step)
            soon = self._after(step) or self._first(following())
            ahead = None if soon is None else self._asked(left, right, soon)
            if step.panel == 0:
                place = next(held)
                self._writes[place].result()  # until the last tile in this buffer is written
            rows, columns, depth = self._where(step)
            sums = _shaped(memory[place], rows, columns)
            a, b = (panel.result() for panel in panels)
            if depth.stop > depth.start or step.panel == 0:
                self.work.add(a, b, sums, first=step.panel == 0)
            self.done += 1
            if step.panel == plan.grid[2] - 1:
                self._writes[place] = writer.submit(self._written, step, sums)
            step = soon or self._first(following())

    def _first(self, tile: int | None) -> Step | None:
        """The first step of a tile."""
        return None if tile is None else Step(tile, *self.plan.place(tile), 0)

    def _after(self, step: Step) -> Step | None:
        """The next step of the same tile."""
        return replace(step, panel=step.panel + 1) if step.panel < self.plan.grid[2] - 1 else None

    def _where(self, step: Step) -> tuple[slice, slice, slice]:
        """The step's rows, columns, and range of k."""
        return self.plan.part(0, step.row), self.plan.part(1, step.column), self.plan.part(2, step.panel)

    def _asked(self, left: Panels, right: Panels, step: Step) -> tuple[Future[Array], Future[Array]]:
        """The panels of a step, as futures."""
        rows, columns, depth = self._where(step)
        at = self._at(step.entry)
        return left.get(at, rows, depth), right.get(at, depth, columns)

    def _at(self, entry: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(entry, self.batch)) if self.batch else ()

    def _written(self, step: Step, sums: Array) -> None:
        """Finish a tile, write it, and add its line to the journal when it is on disk."""
        at, (rows, columns, _), crc32 = self._at(step.entry), self._where(step), 0
        for strip in self._strips(rows):
            old = None
            if self.reads_out:
                old = np.empty((strip.stop - strip.start, columns.stop - columns.start), self.c.dtype)
                self.c.read(at, strip, columns, old)
            part = sums[strip.start - rows.start : strip.stop - rows.start]
            values = np.ascontiguousarray(self.work.finish(part, at, strip, columns, old), self.c.dtype)
            crc32 = zlib.crc32(values.view(np.uint8).data, crc32)
            self.c.write(at, strip, columns, values)
        if self.journal is not None:
            self.c.flush()
            if time.monotonic() - self._looked > _LOOK_SECONDS:
                self._look()
            self.journal.add(step.tile, crc32)

    def _strips(self, rows: slice) -> Iterator[slice]:
        """Split a tile's rows into strips, which are finished and written one by one."""
        height = self.plan.strip_rows
        for start in range(rows.start, rows.stop, height):
            yield slice(start, min(start + height, rows.stop))

    def _look(self) -> None:
        """Raise if an operand has changed."""
        self._looked = time.monotonic()
        for store, before in zip(self._operands, self.identities, strict=True):
            if store.identity() != before:
                raise StorageError(
                    f"{store.name}: must not change during the product (it did); multiply again from the start"
                )

    def _crc32(self, tile: int) -> int | None:
        """The checksum of a tile's bytes on storage; None if their format cannot be read."""
        step = Step(tile, *self.plan.place(tile), 0)
        (rows, columns, _), found = self._where(step), 0
        for strip in self._strips(rows):
            values = np.empty((strip.stop - strip.start, columns.stop - columns.start), self.c.dtype)
            try:
                self.c.read(self._at(step.entry), strip, columns, values)
            except StorageError as error:
                if error.errno is not None:  # a system error, which may pass: keep the tiles that are done
                    raise
                return None
            found = zlib.crc32(values.view(np.uint8).data, found)
        return found


class Panels:
    """The panels of one operand: the last few are kept, and requested ones are read in the background."""

    def __init__(self, store: Store, rows: int, columns: int, readers: ThreadPoolExecutor) -> None:
        self.store, self.readers = store, readers
        #: The operand itself, if it is in memory.
        self._whole = store.array if isinstance(store, MemoryStore) and store.resident else None
        self._free = list(np.empty((PANELS * (self._whole is None), rows * columns), store.dtype))
        #: Place of a panel -> its buffer and the future that fills it, the least recently used first.
        self._kept: dict[tuple[Any, ...], tuple[Array, Future[Array]]] = {}

    def get(self, at: tuple[int, ...], rows: slice, columns: slice) -> Future[Array]:
        """A panel, as a future: a view of an array in memory, or a buffer that is being read.

        `at` is the result's batch entry. When a panel is requested, at most one earlier panel may still be in use.
        """
        shape = self.store.shape[:-2]
        at = tuple(0 if extent == 1 else i for extent, i in zip(shape, at[len(at) - len(shape) :], strict=True))
        if self._whole is not None:
            place: tuple[Any, ...] = (*at, rows, columns)
            return _nothing(self._whole[place])
        key = (at, rows.start, columns.start)
        found = self._kept.pop(key, None)
        if found is None:
            buffer = self._free.pop() if self._free else self._kept.pop(next(iter(self._kept)))[0]
            found = buffer, self.readers.submit(self._read, at, rows, columns, _shaped(buffer, rows, columns))
        self._kept[key] = found
        return found[1]

    def _read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> Array:
        self.store.read(at, rows, columns, into)
        return into


def _shaped(buffer: Array, rows: slice, columns: slice) -> Array:
    """The start of a buffer as contiguous rows, also for a tile at the edge."""
    shape = rows.stop - rows.start, columns.stop - columns.start
    return buffer[: shape[0] * shape[1]].reshape(shape)


def _nothing(value: Any = None) -> Future[Any]:
    """A completed future."""
    found: Future[Any] = Future()
    found.set_result(value)
    return found


@contextlib.contextmanager
def _pool(name: str, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that end with the context; tasks that have not started by then are dropped."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix=f"tilewright-{name}")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
