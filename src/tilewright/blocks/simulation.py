"""A product on a cluster, told in advance: tiles as `blocks.cluster` would have them made, event by event.

A tile has few events, however many steps: its first panels are read, then the others while steps go on, then it is
written and flushed. Its steps end when their arithmetic is done and the last panels have been multiplied, which is what
two panels of each operand give at steady rates; `tests/unit/blocks/test_simulation.py` compares that with every step.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.blocks.dealing import Deal
from tilewright.blocks.foretold import Foretold, World
from tilewright.blocks.planning import BlockPlan
from tilewright.blocks.sharing import Shared
from tilewright.errors import DeviceError
from tilewright.machine.sizes import duration_text

#: Workers that may die with a tile before Dask gives it up.
#: Source: Dask documentation, Configuration reference ("distributed.scheduler.allowed-failures", 3).
_DEATHS = 3


def simulate(plan: BlockPlan, world: World, layers: int = 1) -> Foretold:
    """What a cluster needs for a product, by a plan whose tiles are made apart.

    Parameters
    ----------
    plan : BlockPlan
    world : World
        Workers, storage, network, scheduler and failures.
    layers : int
        Parts of k that different workers multiply for the same tile (2.5-D). Their sums go through storage: whoever
        is last reads those of the others, adds them and writes the tile.

    Raises
    ------
    DeviceError
        Workers die so often that a tile is given up.

    Examples
    --------
    >>> from tilewright.blocks.planning import Sizes, plan
    >>> found = plan(Sizes((4096, 4096, 4096), (4, 4), 4, 4, apart=True), 64 << 20, least_tiles=16)
    >>> simulate(found, World(4)).tiles_made
    16
    """
    return _Simulation(plan, world, layers).run()


@dataclass(slots=True)
class _Task:
    """A tile, or one layer of it."""

    number: int
    tile: int
    rows: int
    columns: int
    depth: int  #: Of all its panels together.
    deaths: int = 0


@dataclass(slots=True, eq=False)
class _Worker:
    """One of the cluster's; what was to happen in another life of its does not."""

    number: int
    flops_per_s: float
    failures: random.Random
    life: int = 0
    alive: bool = True
    held: list[_Task] = field(default_factory=list)  #: On their way to it, waiting there, and being made.
    here: deque[_Task] = field(default_factory=deque)  #: Waiting there.
    made: _Task | None = None
    began_s: float = 0.0
    transfer: int | None = None
    is_writing_sums: bool = False
    busy_s: float = 0.0
    moved_bytes: int = 0


@dataclass(slots=True)
class _Sums:
    """Layers of a tile whose sums are on storage or on their way, and who adds them."""

    begun: int = 0
    written: int = 0
    adder: _Worker | None = None


class _Simulation:
    def __init__(self, plan: BlockPlan, world: World, layers: int) -> None:
        self.plan, self.world, self.layers = plan, world, layers
        self.deal = Deal(tile * layers + layer for tile in plan.order() for layer in range(layers))
        self.workers = [_Worker(i, rate, random.Random(f"{world.seed} {i}")) for i, rate in enumerate(world.rates)]
        self.storage = Shared(world.storage_bytes_per_s, world.link_bytes_per_s)
        self.now_s = self.scheduler_free_s = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.sums: dict[int, _Sums] = {}
        self.homeless: deque[_Task] = deque()  # tasks of the dead while nobody lives
        self.read_bytes = self.written_bytes = self.event_count = 0
        self.deaths = self.begun_again = self.tiles_made = 0

    def run(self) -> Foretold:
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
        for worker in self.workers:  # those that make again what another has made meanwhile
            worker.busy_s += 0.0 if worker.made is None else self.now_s - worker.began_s
        return Foretold(
            self.plan, self.world, self.layers, self.now_s, self.read_bytes, self.written_bytes,
            tuple(worker.moved_bytes for worker in self.workers),
            sum(worker.busy_s for worker in self.workers) / max(self.now_s * self.world.workers, 1e-300),
            sum(worker.flops_per_s for worker in self.workers),
            self.tiles_made, self.begun_again, self.deaths, self.event_count,
        )  # fmt: skip

    def _at(self, seconds: float, worker: _Worker, then: Callable[[], None]) -> None:
        """Let something happen then, unless the worker dies before."""
        life = worker.life
        heapq.heappush(self.events, (seconds, next(self.numbers), lambda: then() if worker.life == life else None))

    def _move(self, worker: _Worker, count: int, then: Callable[[], None], *, writes: bool = False) -> None:
        """Let a worker read or write so many bytes."""

        def ended() -> None:
            worker.transfer = None
            worker.moved_bytes += count
            if writes:
                self.written_bytes += count
            else:
                self.read_bytes += count
            then()

        worker.transfer = self.storage.begin(self.now_s, count * (self.world.write_cost if writes else 1.0), ended)

    # The scheduler: one task after the other.

    def _live(self, worker: _Worker) -> None:
        """A worker begins, or begins anew."""
        worker.alive = True
        if self.world.failure_s < math.inf:
            after_s = worker.failures.expovariate(1 / self.world.failure_s)
            self._at(self.now_s + after_s, worker, lambda: self._die(worker))
        while self.homeless:
            self._send(self.homeless.popleft(), worker)
        self._fill(worker)

    def _fill(self, worker: _Worker) -> None:
        for number in self.deal.to((worker.number, worker.life)):
            self._send(self._task(number), worker)

    def _task(self, number: int) -> _Task:
        tile, layer = divmod(number, self.layers)
        _, row, column = self.plan.place(tile)
        rows, columns = self.plan.part(0, row), self.plan.part(1, column)
        k = self.plan.sizes.extents[2]
        each = -(-k // self.layers)
        depth = max(0, min(each, k - layer * each))
        return _Task(number, tile, rows.stop - rows.start, columns.stop - columns.start, depth)

    def _send(self, task: _Task, worker: _Worker) -> None:
        self.scheduler_free_s = max(self.scheduler_free_s, self.now_s) + self.world.task_s
        worker.held.append(task)
        self._at(self.scheduler_free_s, worker, lambda: self._arrive(task, worker))

    def _arrive(self, task: _Task, worker: _Worker) -> None:
        worker.here.append(task)
        if worker.made is None:
            self._begin(worker)

    # A worker: reads, steps, writes.

    def _begin(self, worker: _Worker) -> None:
        task = worker.made = worker.here.popleft()
        worker.began_s = self.now_s
        first = min(self.plan.depth, task.depth)
        self._move(worker, self._panel_bytes(task, first), lambda: self._step(worker, task))

    def _step(self, worker: _Worker, task: _Task) -> None:
        """The first panels are there: multiply, and read the others meanwhile."""
        began_s, depth = self.now_s, self.plan.depth
        rest = task.depth - min(depth, task.depth)
        steps_end_s = began_s + self._step_s(worker, task, task.depth)
        if not rest:
            self._at(steps_end_s, worker, lambda: self._summed(worker, task))
            return
        last = rest - (-(-rest // depth) - 1) * depth
        last_s = self._step_s(worker, task, last)

        def all_read() -> None:
            # The last panels but one came so much sooner; they may be far deeper than the last.
            before_s = self.now_s - (self.now_s - began_s) * last / rest
            waited_s = max(self.now_s, before_s + self._step_s(worker, task, depth))
            self._at(max(steps_end_s, waited_s + last_s), worker, lambda: self._summed(worker, task))

        self._move(worker, self._panel_bytes(task, rest), all_read)

    def _summed(self, worker: _Worker, task: _Task) -> None:
        """All steps are done: write the tile, or a layer's sums where other layers are missing."""
        if self.layers == 1:
            self._write(worker, task)
            return
        sums = self.sums.setdefault(task.tile, _Sums())
        if sums.begun == self.layers - 1:
            sums.adder = worker
            if sums.written == sums.begun:
                self._add(worker, task)
            return
        sums.begun += 1
        worker.is_writing_sums = True
        count = task.rows * task.columns * self.plan.sizes.sum_bytes

        def flushed() -> None:
            sums.written += 1
            worker.is_writing_sums = False
            self._ended(worker, task)
            if sums.adder is not None and sums.written == sums.begun == self.layers - 1:
                assert sums.adder.made is not None
                self._add(sums.adder, sums.adder.made)

        after = self.world.flush_s
        self._move(worker, count, lambda: self._at(self.now_s + after, worker, flushed), writes=True)

    def _add(self, worker: _Worker, task: _Task) -> None:
        """Read the sums of the other layers, and write the tile."""
        count = task.rows * task.columns * self.plan.sizes.sum_bytes * (self.layers - 1)
        self._move(worker, count, lambda: self._write(worker, task))

    def _write(self, worker: _Worker, task: _Task) -> None:
        def flushed() -> None:
            self.tiles_made += 1
            self.sums.pop(task.tile, None)
            self._ended(worker, task)

        count = task.rows * task.columns * self.plan.sizes.out_bytes
        after = self.world.flush_s
        self._move(worker, count, lambda: self._at(self.now_s + after, worker, flushed), writes=True)

    def _ended(self, worker: _Worker, task: _Task) -> None:
        worker.held.remove(task)
        worker.made = None
        worker.busy_s += self.now_s - worker.began_s
        self.deal.ended(task.number)
        self._fill(worker)
        if worker.here:
            self._begin(worker)

    def _panel_bytes(self, task: _Task, depth: int) -> int:
        """Of A and of B, so deep."""
        sides = zip((task.rows, task.columns), self.plan.sizes.operand_bytes, self.plan.sizes.resident, strict=True)
        return depth * sum(0 if lies else side * size for side, size, lies in sides)

    def _step_s(self, worker: _Worker, task: _Task, depth: int) -> float:
        steps = max(1, -(-depth // max(self.plan.depth, 1)))
        return 2 * task.rows * task.columns * depth / worker.flops_per_s + steps * self.world.step_s

    # Death.

    def _die(self, worker: _Worker) -> None:
        """What it had goes to others; it comes back as another."""
        self.deaths += 1
        worker.life += 1
        worker.alive = False
        if worker.transfer is not None:
            self.storage.drop(self.now_s, worker.transfer)
            worker.transfer = None
        if worker.made is not None:
            self._lose(worker, worker.made)
        lost, worker.held = worker.held, []
        worker.here.clear()
        for task in lost:
            task.deaths += 1
            self._elsewhere(task)
        self._at(self.now_s + self.world.return_s, worker, lambda: self._live(worker))

    def _lose(self, worker: _Worker, task: _Task) -> None:
        self.begun_again += 1
        worker.busy_s += self.now_s - worker.began_s
        worker.made = None
        sums = self.sums.get(task.tile)
        if sums is None:
            return
        if worker.is_writing_sums:
            sums.begun -= 1
            worker.is_writing_sums = False
            adder, sums.adder = sums.adder, None
            if adder is not None and adder.made is not None:  # it would wait for what may come to wait behind it
                self._summed(adder, adder.made)
        elif sums.adder is worker:
            sums.adder = None

    def _elsewhere(self, task: _Task) -> None:
        """Dask sends a task whose worker died to the one that has least to do."""
        if task.deaths > _DEATHS:
            raise DeviceError(
                f"the cluster's workers must live longer than tiles take (one was lost with {task.deaths}, after "
                f"which Dask gives it up; a worker lives {duration_text(self.world.failure_s)}); allow less memory, "
                "so that tiles are smaller"
            )
        living = [worker for worker in self.workers if worker.alive]
        if living:
            self._send(task, min(living, key=lambda worker: len(worker.held)))
        else:
            self.homeless.append(task)
