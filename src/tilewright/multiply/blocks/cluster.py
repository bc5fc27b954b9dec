"""Products on the workers of a Dask cluster, tile by tile, from paths that all workers see.

Each task is one tile: a worker reads its panels, writes it, and returns the CRC-32 of its bytes; no data go through the
scheduler. The caller keeps the journal. Two workers may make a tile at once, if Dask takes a slow worker for dead: both
write the same bytes to the same places.
"""

from __future__ import annotations

import contextlib
import math
import queue
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError, DeviceError
from tilewright.ground import installation
from tilewright.ground.progress import announced
from tilewright.multiply.blocks.dealing import TILES_EACH, Deal
from tilewright.multiply.blocks.planning import BlockPlan
from tilewright.multiply.blocks.running import Notes
from tilewright.multiply.blocks.stores import Store
from tilewright.multiply.blocks.tile_maker import TileMaker
from tilewright.simulate.machine import host_memory
from tilewright.simulate.machine.sizes import size_bytes, size_text
from tilewright.version import __version__

#: Share of a worker's memory limit: above it Dask spills to disk, then pauses, then ends the worker.
#: Source: Dask documentation, Worker Memory Management ("target", 0.6).
_SHARE_OF_LIMIT = 0.6
#: Share of the free memory of a host whose workers have no limit.
_SHARE_OF_HOST = 0.5
#: Seconds between checks of the list of workers, for a connection, and that a cluster may be without workers.
_LOOK_SECONDS, _CONNECT_SECONDS, _PATIENCE_SECONDS = 1.0, 10, 120.0
#: Retries of a tile after an error: a shared disk may fail for a moment.
_RETRIES = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker's report of its host."""

    version: str
    threads: int
    held_bytes: int
    limit_bytes: int | None
    available_bytes: int | None


class Cluster:
    """The workers of a Dask client; `warm` loads and compiles on each the code that a product needs.

    Raises ArgumentTypeError: the value is not a synchronous client; DeviceError: there is no worker, or a worker has
    another version of Tilewright.
    """

    def __init__(self, client: Any, warm: Callable[[], None] | None = None) -> None:
        distributed = _distributed()
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise ArgumentTypeError(
                f"`client` must be a distributed.Client that is not asynchronous (got {type(client).__name__}); make "
                "one with distributed.Client(ADDRESS)"
            )
        self.client, self._failed = client, distributed.KilledWorker
        try:
            self.workers: dict[str, Seen] = client.run(_seen, warm)
        except (ImportError, AttributeError) as error:
            raise DeviceError(
                f"the cluster's workers must have Tilewright {__version__} (got: {error}); install it there"
            ) from None
        others = {seen.version for seen in self.workers.values()} - {__version__}
        if others or not self.workers:
            got = ", ".join(sorted(others)) or "no workers"
            raise DeviceError(
                f"the cluster must have workers with Tilewright {__version__} (got {got}); start some, of this version"
            )

    @property
    def threads(self) -> int:
        """The most threads of a worker."""
        return max(seen.threads for seen in self.workers.values())

    @property
    def least_tiles(self) -> int:
        """Least number of tiles that keeps all workers busy to the end."""
        return TILES_EACH * len(self.workers)

    def room(self, memory: int | str | None) -> int:
        """Bytes for tiles and panels on each worker, on top of the memory that the process has."""
        if memory is not None:
            given, limit = size_bytes("`memory`", memory), min(x.limit_bytes or math.inf for x in self.workers.values())
            if given > limit:
                raise ArgumentValueError(
                    f"`memory` must be at most what Dask lets each worker take, {size_text(int(limit))} (got "
                    f"{size_text(given)}); start workers with more, or allow less"
                )
            return given - max(seen.held_bytes for seen in self.workers.values())
        hosts = Counter(_host(address) for address in self.workers)
        return min(_room(seen, hosts[_host(address)]) for address, seen in self.workers.items())

    def make(self, share: TileMaker, journal: Notes) -> None:
        """Make all tiles that the journal lacks, and note each in it.

        Raises DeviceError: workers died repeatedly, or none is left; TilewrightError: the error that a worker raised.
        """
        missing = (tile for tile in share.plan.order() if tile not in journal.done)
        deal = Deal(missing, len(self.workers))
        total, (m, n, k) = deal.waiting, share.plan.sizes.extents
        made: list[int] = []
        flops = share.plan.sizes.flops * total // share.plan.tiles
        with (
            announced("multiplying", f"{m:,} x {k:,} by {k:,} x {n:,}", total, "tiles", lambda: len(made), flops),
            contextlib.closing(self._made(share, deal)) as tiles,
        ):
            for tile, crc32 in tiles:
                journal.add(tile, crc32)
                made.append(tile)

    def _made(self, share: TileMaker, deal: Deal) -> Generator[tuple[int, int]]:
        """Yields tiles with their checksums as they are made."""
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Dask makes a task's result again if the worker that held it dies.
        sent = self.client.submit(_itself, share, pure=False)
        held: dict[Any, int] = {}  # a future -> its tile
        seen_s, workers = time.monotonic(), list(self.workers)
        try:
            while deal.goes_on:
                self._fill(workers, deal, held, sent, ended)
                try:
                    future = ended.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    future = None
                if future is not None and future.status == "lost":  # its worker died since; Dask makes it again
                    future.add_done_callback(ended.put)
                elif future is not None:
                    tile = held.pop(future)
                    deal.ended(tile)
                    try:
                        crc32 = self._result(future)
                    finally:
                        future.release()
                    yield tile, crc32
                    seen_s = time.monotonic()
                    if not ended.empty():
                        continue
                workers = list(self.client.nthreads())
                if workers:
                    seen_s = time.monotonic()
                elif time.monotonic() - seen_s > _PATIENCE_SECONDS:
                    raise DeviceError(
                        f"the cluster must have workers (it has had none for {_PATIENCE_SECONDS:.0f} s); start some "
                        "and run again: finished tiles are kept"
                    )
        finally:
            with contextlib.suppress(Exception):  # the cluster itself may be gone
                self.client.cancel([*held, sent])
            held.clear()

    def _fill(self, workers: list[str], deal: Deal, held: dict[Any, int], sent: Any, ended: Any) -> None:
        """Give each worker its next tiles; Dask gives the tiles of dead workers to others."""
        for address in workers:
            for tile in deal.to(address):
                future = self.client.submit(
                    _tile, sent, tile, pure=False, retries=_RETRIES, workers=[address], allow_other_workers=True
                )
                held[future] = tile
                future.add_done_callback(ended.put)

    def _result(self, future: Any) -> int:
        try:
            crc32: int = future.result()  # waits if the result was just lost
        except self._failed as error:
            raise DeviceError(
                f"the cluster's workers must live while they make a tile (it was lost with several: {error}); see "
                "their logs, allow less memory, and run again: finished tiles are kept"
            ) from None
        except CancelledError:
            raise DeviceError(
                f"the cluster must keep its scheduler and tasks (a tile was {future.status}); connect again and run "
                "again: finished tiles are kept"
            ) from None
        return crc32


def check_writers(plan: BlockPlan, c: Store) -> None:
    """Raise if two tiles of the result share a chunk, which two workers could write at once.

    Raises ArgumentValueError: one does.
    """
    for step, extent, chunk in zip((plan.rows, plan.columns), plan.sizes.extents, c.write_chunks[-2:], strict=False):
        if step < extent and step % chunk:
            raise ArgumentValueError(
                f"{c.name}: must have chunks that divide tiles of {plan.rows} x {plan.columns} (got {c.write_chunks}); "
                "name a .npy file, or multiply without a cluster"
            )


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address, for as long as the block.

    Raises MissingExtraError: Dask's package is not installed; DeviceError: there is no scheduler.
    """
    distributed = _distributed()
    # a client without a scheduler must be closed, else it reports an error at exit
    client = object.__new__(distributed.Client)
    try:
        distributed.Client.__init__(client, address, timeout=_CONNECT_SECONDS, set_as_default=False)
    # MemoryError: another kind of server's bytes, read as lengths
    except (OSError, ValueError, TypeError, MemoryError) as error:
        client.close()
        raise DeviceError(
            f"`dask` must be the address of a Dask scheduler, such as tcp://host:8786 (got {address}: {error}); start "
            "one with `dask scheduler`"
        ) from None
    try:
        yield client
    finally:
        client.close()


def _distributed() -> Any:
    return installation.require("distributed", "clusters need the package", "cluster")


def _tile(share: TileMaker, tile: int) -> int:
    """A task. It secedes at once, so that the worker starts the next task and reads its panels during this one."""
    distributed = _distributed()
    promised = share.asked(tile, distributed.get_worker().state.nthreads)
    distributed.secede()
    return promised.result()


def _itself(share: TileMaker) -> TileMaker:
    return share


def _seen(warm: Callable[[], None] | None, dask_worker: Any) -> Seen:
    """Runs on each worker: loads all code first, then reads the memory in use."""
    if warm is not None:
        warm()
    limit = dask_worker.memory_manager.memory_limit
    held, available = host_memory.resident_bytes(), host_memory.available_bytes()
    return Seen(__version__, dask_worker.state.nthreads, held, limit, available)


def _room(seen: Seen, neighbours: int) -> int:
    """Bytes that a worker has for tiles and panels, if `neighbours` workers share its host, itself included."""
    free = int(_SHARE_OF_HOST * (seen.available_bytes or 1 << 31)) // neighbours
    if not seen.limit_bytes:
        return free
    return min(int(_SHARE_OF_LIMIT * seen.limit_bytes) - seen.held_bytes, free)


def _host(address: str) -> str:
    return address.rpartition(":")[0]
