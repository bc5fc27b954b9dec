"""A product on a worker of a cluster: its plan, how its arrays are opened, and one thread that makes tiles."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.errors import StorageError
from tilewright.multiply.blocks.planning import BlockPlan
from tilewright.multiply.blocks.running import Run
from tilewright.multiply.blocks.stores import Store
from tilewright.multiply.blocks.work import Work

Stores = tuple[Store, Store, Store]


class _Promises:
    """Tiles that a worker's tasks ask for, and who waits for them; the journal of the run that makes them."""

    def __init__(self) -> None:
        self.done: dict[int, int] = {}  #: Empty: the caller has the journal.
        self._lock = threading.Lock()
        self._waiting: deque[int] = deque()
        self._promised: dict[int, Future[int]] = {}
        self._served = False  # whether a thread makes tiles

    def given(self, tile: int) -> tuple[Future[int], bool]:
        """The promise of a tile, and whether a thread must begin to make tiles."""
        with self._lock:
            if tile in self._promised:
                return self._promised[tile], False
            promised = self._promised[tile] = Future()
            self._waiting.append(tile)
            begins, self._served = not self._served, True
            return promised, begins

    def next(self) -> int | None:
        """The tile to be made next."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def add(self, tile: int, crc32: int) -> None:
        """A tile is on disk."""
        with self._lock:
            promised = self._promised.pop(tile)
        promised.set_result(crc32)

    def ends(self) -> bool:
        """Whether the thread that makes tiles ends, as none is asked for: the next that is begins another."""
        with self._lock:
            self._served = bool(self._waiting)
            return not self._served

    def fail(self, error: BaseException) -> None:
        """Tell all who wait; the thread ends."""
        with self._lock:
            failed, self._promised = self._promised, {}
            self._waiting.clear()
            self._served = False
        for promised in failed.values():
            promised.set_exception(error)


@dataclass(eq=False)
class TileMaker:
    """The data of one product that a worker needs to make tiles; it is sent once to each.

    A worker keeps the object, and with it the arrays that it opened, as long as the product goes on.
    """

    plan: BlockPlan
    stores: Callable[[], Stores]  #: Opens A, B and C.
    work: Callable[[int], Work]  #: Arithmetic with so many threads.
    identities: list[dict[str, Any]]  #: Of A and B, as whoever calls sees them.
    _promises: _Promises = field(default_factory=_Promises, init=False)
    _run: Run | None = field(default=None, init=False)

    def __reduce__(self) -> Any:
        """Other processes open the arrays themselves; what memory a step takes has been planned for."""
        plan = replace(self.plan, sizes=replace(self.plan.sizes, extra_bytes=_nothing))
        return TileMaker, (plan, self.stores, self.work, self.identities)

    def asked(self, tile: int, threads: int) -> Future[int]:
        """Have a tile made and written to disk: the CRC-32 of its bytes.

        One thread makes all that are asked for, one at a time, as memory is planned for one: it reads the next's first
        panels meanwhile, and writes the one before.
        """
        promised, begins = self._promises.given(tile)
        if begins:
            threading.Thread(target=self._serve, args=(threads,), name="tilewright-tiles", daemon=True).start()
        return promised

    def _serve(self, threads: int) -> None:
        """Make tiles until none is asked for."""
        while True:
            try:
                if self._run is None:
                    self._run = self._opened(threads)
                    self._run.journal = self._promises
                self._run.make(self._promises.next)
            except BaseException as error:  # whoever waits gets it, and nobody else could
                self._promises.fail(error)
                return
            if self._promises.ends():
                return

    def _opened(self, threads: int) -> Run:
        found = self.stores()
        weakref.finalize(self, _close, found)
        run = Run(self.plan, found, self.work(threads))
        if run.identities != self.identities:
            raise StorageError(
                f"{found[0].name}, {found[1].name}: must be the same files for every worker (they differ in size or "
                "time of change); put them where all workers see them by the same path"
            )
        return run


def _close(stores: Stores) -> None:
    for store in stores:
        store.close()


def _nothing(rows: int, columns: int, depth: int) -> int:
    return 0
