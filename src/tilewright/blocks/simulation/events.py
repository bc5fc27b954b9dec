"""The discrete-event simulation of a product on a cluster, with tiles assigned as in `blocks.cluster`.

Storage, network, scheduler, failures and the sums of layers are here; `worker` models a worker. A tile has few events,
however many steps it has: `tests/unit/blocks/test_simulation.py` compares that with a simulation of every step.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.blocks.dealing import Deal
from tilewright.blocks.planning import BlockPlan
from tilewright.blocks.simulation.bandwidth import SharedBandwidth
from tilewright.blocks.simulation.records import SimulatedCluster, SimulatedProduct
from tilewright.blocks.simulation.worker import Task, Worker
from tilewright.errors import DeviceError
from tilewright.machine.sizes import duration_text

#: Workers that may die with a task before Dask gives it up.
#: Source: Dask documentation, Configuration reference ("distributed.scheduler.allowed-failures", 3).
_DEATHS = 3


def simulate(plan: BlockPlan, world: SimulatedCluster, layers: int = 1) -> SimulatedProduct:
    """Simulate a product on a cluster, by a plan for workers.

    Parameters
    ----------
    plan : BlockPlan
    world : SimulatedCluster
        Workers, storage, network, scheduler and failures.
    layers : int
        Parts of k that different workers multiply for the same tile (2.5-D). Their sums go through storage: the last
        worker reads the others' sums, adds them and writes the tile.

    Raises
    ------
    DeviceError
        Workers fail so often that a tile is given up.

    Examples
    --------
    >>> from tilewright.blocks.planning import Sizes, plan
    >>> found = plan(Sizes((4096, 4096, 4096), (4, 4), 4, 4, workers=4), 64 << 20, least_tiles=16)
    >>> simulate(found, SimulatedCluster(4)).tiles_made
    16
    """
    return _Simulation(plan, world, layers).run()


@dataclass(slots=True)
class _Sums:
    """A tile's layers: sums that are written or in transfer, and the worker that adds them."""

    started: int = 0
    written: int = 0
    adder: Worker | None = None


class _Simulation:
    def __init__(self, plan: BlockPlan, world: SimulatedCluster, layers: int) -> None:
        self.plan, self.world, self.layers = plan, world, layers
        self.deal = Deal((tile * layers + layer for layer in range(layers) for tile in plan.order()), world.workers)
        self.workers = [Worker(number, rate, self) for number, rate in enumerate(world.rates)]
        self.lives = [random.Random(f"{world.seed} {number}") for number in range(world.workers)]
        self.living = set(range(world.workers))
        self.storage = SharedBandwidth(world.storage_bytes_per_s, world.link_bytes_per_s)
        self.now_s = self.scheduler_free_s = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.sums: dict[int, _Sums] = {}
        self.homeless: deque[Task] = deque()  # tasks of dead workers while no worker lives
        self.read_bytes = self.written_bytes = self.event_count = 0
        self.deaths = self.tiles_remade = self.tiles_made = 0

    def run(self) -> SimulatedProduct:
        for worker in self.workers:
            self._live(worker)
        while self.deal.goes_on:
            self.event_count += 1
            transfer_s = self.storage.next_s
            if not self.events or transfer_s <= self.events[0][0]:
                self.now_s = transfer_s
                self.storage.pop()()
            else:
                self.now_s, _, then = heapq.heappop(self.events)
                then()
        return SimulatedProduct(
            self.plan, self.world, self.layers, self.now_s, self.read_bytes, self.written_bytes,
            tuple(worker.moved_bytes for worker in self.workers),
            sum(worker.busy_s for worker in self.workers) / max(self.now_s * self.world.workers, 1e-300),
            sum(worker.flops_per_s for worker in self.workers),
            self.tiles_made, self.tiles_remade, self.deaths, self.event_count,
        )  # fmt: skip

    # Time and transfers.

    def at(self, seconds: float, worker: Worker, then: Callable[[], None]) -> None:
        life = worker.life
        heapq.heappush(self.events, (seconds, next(self.numbers), lambda: then() if worker.life == life else None))

    def read(self, worker: Worker, count: int, then: Callable[[], None]) -> None:
        def ended() -> None:
            self.read_bytes += count
            then()

        self._move(worker, count, float(count), ended)

    def _write(self, worker: Worker, count: int, then: Callable[[], None]) -> None:
        """Write bytes from a worker, and flush them."""

        def ended() -> None:
            self.written_bytes += count
            self.at(self.now_s + self.world.flush_s, worker, then)

        self._move(worker, count, count * self.world.write_cost, ended)

    def _move(self, worker: Worker, count: int, cost: float, then: Callable[[], None]) -> None:
        def ended() -> None:
            worker.transfers.remove(number)
            worker.moved_bytes += count
            then()

        number = self.storage.begin(self.now_s, cost, ended)
        worker.transfers.add(number)

    # The scheduler: one task after the other.

    def _live(self, worker: Worker) -> None:
        """Start a worker, or its replacement."""
        self.living.add(worker.number)
        if self.world.failure_s < math.inf:
            after_s = self.lives[worker.number].expovariate(1 / self.world.failure_s)
            self.at(self.now_s + after_s, worker, lambda: self._die(worker))
        while self.homeless:
            self._send(self.homeless.popleft(), worker)
        self._fill(worker)

    def _fill(self, worker: Worker) -> None:
        for number in self.deal.to((worker.number, worker.life)):
            self._send(self._task(number), worker)

    def _task(self, number: int) -> Task:
        tile, layer = divmod(number, self.layers)
        entry, row, column = self.plan.place(tile)
        rows, columns = self.plan.part(0, row), self.plan.part(1, column)
        k = self.plan.sizes.extents[2]
        each = -(-k // self.layers)
        depth = max(0, min(each, k - layer * each))
        places = (entry, row, layer), (entry, column, layer)
        return Task(number, tile, places, rows.stop - rows.start, columns.stop - columns.start, depth, self.plan.depth)

    def _send(self, task: Task, worker: Worker) -> None:
        self.scheduler_free_s = max(self.scheduler_free_s, self.now_s) + self.world.task_s
        worker.held.append(task)
        self.at(self.scheduler_free_s, worker, lambda: worker.arrive(task))

    def _ended(self, worker: Worker) -> None:
        """A worker's tile is on disk, and the caller knows."""
        task = worker.written()
        worker.held.remove(task)
        self.deal.ended(task.number)
        self._fill(worker)

    # Writes, and the sums of layers.

    def finish(self, worker: Worker, task: Task) -> None:
        """Write a tile, or a layer's sums if other layers are missing."""
        if self.layers == 1:
            self._write_tile(worker, task)
            return
        sums = self.sums.setdefault(task.tile, _Sums())
        if sums.started == self.layers - 1:
            sums.adder = worker
            if sums.written == sums.started:
                self._add(worker, task)
            return
        sums.started += 1

        def flushed() -> None:
            sums.written += 1
            if sums.adder is not None and sums.written == self.layers - 1:
                self._add(sums.adder, task)
            self._ended(worker)

        self._write(worker, task.rows * task.columns * self.plan.sizes.sum_bytes, flushed)

    def _add(self, worker: Worker, task: Task) -> None:
        """Read the sums of the other layers, and write the tile."""
        count = task.rows * task.columns * self.plan.sizes.sum_bytes * (self.layers - 1)
        self.read(worker, count, lambda: self._write_tile(worker, task))

    def _write_tile(self, worker: Worker, task: Task) -> None:
        def flushed() -> None:
            self.tiles_made += 1
            self.sums.pop(task.tile, None)
            self._ended(worker)

        self._write(worker, task.rows * task.columns * self.plan.sizes.out_bytes, flushed)

    # Death.

    def _die(self, worker: Worker) -> None:
        """A worker fails: its tasks go to others, and a replacement starts later."""
        self.deaths += 1
        self.living.remove(worker.number)
        self.tiles_remade += len(worker.in_progress)
        for number in worker.transfers:
            self.storage.drop(self.now_s, number)
        written, lost = next(iter(worker.writes), None), worker.held
        worker.forget()
        if written is not None:
            self._lose(worker, written)
        for task in lost:
            task.deaths += 1
            self._elsewhere(task)
        self.at(self.now_s + self.world.return_s, worker, lambda: self._live(worker))

    def _lose(self, worker: Worker, task: Task) -> None:
        """Lose a layer's sums in transfer, or the addition of all."""
        sums = self.sums.get(task.tile)
        if sums is None:
            return
        adder, sums.adder = sums.adder, None
        if adder is not worker:
            sums.started -= 1
            if adder is not None:  # it could deadlock: it would wait for sums of tasks queued after it
                self.finish(adder, adder.writes[0])

    def _elsewhere(self, task: Task) -> None:
        """Send a dead worker's task to the least busy worker, as Dask does."""
        if task.deaths > _DEATHS:
            raise DeviceError(
                f"the cluster's workers must live longer than tiles take (one was lost with {task.deaths}, after "
                f"which Dask gives it up; a worker lives {duration_text(self.world.failure_s)}); allow less memory, "
                "so that tiles are smaller"
            )
        if self.living:
            number = min(self.living, key=lambda number: (len(self.workers[number].held), number))
            self._send(task, self.workers[number])
        else:
            self.homeless.append(task)
