"""What a worker of a cluster has of a product: its plan, how its arrays are opened, and one thread that makes tiles."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.blocks.planning import BlockPlan
from tilewright.blocks.running import Run
from tilewright.blocks.stores import Store
from tilewright.blocks.work import Work
from tilewright.errors import StorageError

Stores = tuple[Store, Store, Store]


@dataclass(eq=False)
class Share:
    """What a worker needs to make tiles of one product; it is sent once to each.

    A worker keeps the object, and with it the arrays that it opened, as long as the product goes on.
    """

    plan: BlockPlan
    stores: Callable[[], Stores]  #: Opens A, B and C.
    work: Callable[[int], Work]  #: Arithmetic with so many threads.
    identities: list[dict[str, Any]]  #: Of A and B, as whoever calls sees them.
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _run: Run | None = field(default=None, init=False)
    _waiting: deque[int] = field(default_factory=deque, init=False)
    _promised: dict[int, Future[int]] = field(default_factory=dict, init=False)
    _served: bool = field(default=False, init=False)  #: Whether a thread makes tiles.

    def __reduce__(self) -> Any:
        """Other processes open the arrays themselves; what memory a step takes has been planned for."""
        plan = replace(self.plan, sizes=replace(self.plan.sizes, extra_bytes=_nothing))
        return Share, (plan, self.stores, self.work, self.identities)

    def asked(self, tile: int, threads: int) -> Future[int]:
        """Have a tile made and written to disk: the CRC-32 of its bytes.

        One thread makes all that are asked for, one at a time, as memory is planned for one: it reads the next's first
        panels meanwhile, and writes the one before.
        """
        with self._lock:
            if tile in self._promised:
                return self._promised[tile]
            promised = self._promised[tile] = Future()
            self._waiting.append(tile)
            if not self._served:
                self._served = True
                threading.Thread(target=self._serve, args=(threads,), name="tilewright-tiles", daemon=True).start()
        return promised

    def _serve(self, threads: int) -> None:
        """Make tiles until none is asked for."""
        while self._served:
            try:
                if self._run is None:
                    self._run = self._opened(threads)
                    self._run.journal = self
                self._run.make(self._next)
            except BaseException as error:  # whoever waits gets it, and nobody else could
                with self._lock:
                    failed, self._promised = self._promised, {}
                    self._waiting.clear()
                    self._served = False
                for promised in failed.values():
                    promised.set_exception(error)
                return
            with self._lock:
                self._served = bool(self._waiting)

    def _next(self) -> int | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    @property
    def done(self) -> dict[int, int]:
        """None that a worker would know of: whoever calls has the journal."""
        return {}

    def add(self, tile: int, crc32: int) -> None:
        """A tile is on disk."""
        with self._lock:
            promised = self._promised.pop(tile)
        promised.set_result(crc32)

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
