"""A simulated worker: reads ahead of its steps, which overlap the write of the previous tile.

A tile has few events, however many steps. Panels are read one step ahead. One transfer models the first panels and one
all others: at steady rates the time of the last step does not depend on how reads and steps interleave. If the first
step waits for the memory of a tile that is still being written, only the second panels are read during the wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.blocks.planning import PANELS, BlockPlan
from tilewright.blocks.simulation.records import SimulatedCluster


@dataclass(slots=True, eq=False)
class Task:
    """A tile, or one layer of it."""

    number: int
    tile: int
    places: tuple[Hashable, Hashable]  #: Places of its panels of A and of B, without k.
    rows: int
    columns: int
    depth: int  #: Depth of all its panels together.
    step_depth: int  #: Depth of each panel but the last.
    deaths: int = 0
    arrived_s: float = 0.0
    first_bytes: int = 0  #: Bytes of its first panels, without those in memory.
    other_bytes: int = 0

    @property
    def steps(self) -> int:
        """Number of steps; at least one, which starts sums from zero."""
        return max(1, -(-self.depth // max(self.step_depth, 1)))

    @property
    def last_depth(self) -> int:
        """Depth of the last panels."""
        return self.depth - (self.steps - 1) * self.step_depth


class Surroundings(Protocol):
    """The simulation as a worker uses it."""

    plan: BlockPlan
    world: SimulatedCluster
    now_s: float

    def at(self, seconds: float, worker: Worker, then: Callable[[], None]) -> None:
        """Schedule an event, which is dropped if the worker dies before."""

    def read(self, worker: Worker, count: int, then: Callable[[], None]) -> None:
        """Start a read of `count` bytes by a worker."""

    def finish(self, worker: Worker, task: Task) -> None:
        """Write a tile whose steps are done, then call :meth:`Worker.written`."""


@dataclass(slots=True, eq=False)
class Worker:
    """A worker of the cluster; events from before its last failure are dropped."""

    number: int
    flops_per_s: float
    around: Surroundings
    life: int = 0
    held: list[Task] = field(default_factory=list)  #: Tasks sent to it, waiting, and in progress.
    here: deque[Task] = field(default_factory=deque)  #: Waiting tasks.
    ahead: Task | None = None  #: The task whose first panels are being read, or are in memory.
    has_first: bool = False  #: Whether they are in memory.
    made: Task | None = None  #: The task whose steps run, or wait for memory.
    waits: Callable[[], None] | None = None  #: Starts the steps that wait for memory.
    #: Panels in memory, the least recently used first.
    kept: tuple[list[Hashable], list[Hashable]] = field(default_factory=lambda: ([], []))
    writes: deque[Task] = field(default_factory=deque)  #: Tasks whose sums are in memory; the first is being written.
    turn_s: float = 0.0  #: End of the step before a tile's first.
    transfers: set[int] = field(default_factory=set)
    moved_bytes: int = 0
    busy_s: float = 0.0
    began_s: float = 0.0  #: Start of the current busy period.

    @property
    def in_progress(self) -> list[Task]:
        """Tiles in progress."""
        return [task for task in (self.ahead, self.made, *self.writes) if task is not None]

    def arrive(self, task: Task) -> None:
        """Receive a tile; start it at once if none is in progress."""
        task.arrived_s = self.around.now_s
        self.here.append(task)
        if not self.in_progress:
            self._begin()

    def rest(self) -> None:
        """End a busy period."""
        if self.in_progress:
            self.busy_s += self.around.now_s - self.began_s

    def forget(self) -> None:
        """Lose all tasks and panels."""
        self.rest()
        self.life += 1
        self.held, self.ahead, self.made, self.waits = [], None, None, None
        self.here.clear()
        self.writes.clear()
        self.transfers.clear()

    def _begin(self) -> None:
        """Read a tile's first panels."""
        if not self.here or self.ahead is not None:
            return
        if not self.in_progress:
            self.began_s, self.kept = self.around.now_s, ([], [])
        if self.made is None:
            self.turn_s = self.around.now_s
        task = self.ahead = self.here.popleft()
        self.has_first = False

        def there() -> None:
            self.has_first = True
            self._make()

        self._look(task)
        self.around.read(self, task.first_bytes, there)

    def _ask(self, at_s: float) -> None:
        """Read the next tile's first panels, if the tile had arrived by the end of the last step but one."""
        if self.here and self.here[0].arrived_s <= at_s:
            self._begin()

    def _make(self) -> None:
        """Start a tile's steps, if those of the previous one are done and its first panels are in memory."""
        if self.ahead is None or not self.has_first or self.made is not None:
            return
        task, self.made, self.ahead = self.ahead, self.ahead, None
        if task.steps == 1:
            self._ask(self.turn_s)
        if len(self.writes) < self.around.plan.tiles_held:
            self._step(task, self.around.now_s, task.other_bytes)
        else:
            self._wait(task)

    def _wait(self, task: Task) -> None:
        """Read the second panels; start the steps when there is memory for the sums."""
        others = task.depth - task.step_depth
        second = task.other_bytes * min(task.step_depth, others) // others if others > 0 else 0
        left = task.other_bytes - second
        began_s, is_there = 0.0, task.steps == 1

        def go_on() -> None:
            if is_there and self.waits is None:
                # The third panels reuse the memory of the first, so they wait for the first step.
                free_s = began_s + self._step_s(task, task.step_depth) if task.steps > 2 else 0.0
                self.around.at(max(self.around.now_s, free_s), self, lambda: self._step(task, began_s, left))

        def there() -> None:
            nonlocal is_there
            is_there = True
            go_on()

        def has_memory() -> None:
            nonlocal began_s
            self.waits, began_s = None, self.around.now_s
            go_on()

        self.waits = has_memory
        if task.steps > 1:
            self.around.read(self, second, there)

    def _step(self, task: Task, began_s: float, count: int) -> None:
        """Multiply from a time on, while `count` bytes of panels are read."""
        reads_from_s = self.around.now_s
        steps_end_s = began_s + self._step_s(task, task.depth)

        def all_read() -> None:
            # When the last panels but one arrived: they may be much deeper than the last.
            now_s, last = self.around.now_s, task.last_depth
            others = task.depth - task.step_depth
            part = task.other_bytes * last / others / count if count else 0.0
            before_s = now_s - (now_s - reads_from_s) * part if count else began_s
            last_s = self._step_s(task, last)
            done_s = steps_end_s - last_s  # all steps but the last
            if task.steps > 1:
                done_s = max(done_s, before_s + self._step_s(task, task.step_depth))
                self.around.at(max(now_s, done_s), self, lambda: self._ask(done_s))
            self.around.at(max(now_s, done_s) + last_s, self, lambda: self._summed(task))

        if count:
            self.around.read(self, count, all_read)
        else:
            all_read()

    def _summed(self, task: Task) -> None:
        """All steps are done: write the sums, and go on with the next tile."""
        self.made, self.turn_s = None, self.around.now_s
        self.writes.append(task)
        if len(self.writes) == 1:
            self.around.finish(self, task)
        self._begin()
        self._make()

    def written(self) -> Task:
        """The oldest tile with sums in memory is on disk."""
        task = self.writes.popleft()
        if not self.in_progress:
            self.busy_s += self.around.now_s - self.began_s
        if self.writes:
            self.around.finish(self, self.writes[0])
        if self.waits is not None:
            self.waits()
        if not self.in_progress:
            self._begin()
        return task

    def _look(self, task: Task) -> None:
        """Find panels that are in memory: those of a neighbouring tile, if all of a tile's panels fit."""
        sizes = self.around.plan.sizes
        first = min(task.step_depth, task.depth)
        parts = (first, task.depth - first)[: task.steps]
        task.first_bytes = task.other_bytes = 0
        for kept, place, side, size, lies in zip(
            self.kept, task.places, (task.rows, task.columns), sizes.operand_bytes, sizes.resident, strict=True
        ):
            line = 0 if lies else side * size
            if task.steps <= PANELS:
                missing = [depth * line * _is_new(kept, (place, panel)) for panel, depth in enumerate(parts)]
            else:
                missing = [depth * line for depth in parts]
            task.first_bytes += missing[0]
            task.other_bytes += sum(missing[1:])

    def _step_s(self, task: Task, depth: int) -> float:
        sizes, world = self.around.plan.sizes, self.around.world
        steps, part = max(1, -(-depth // max(task.step_depth, 1))), depth / max(task.depth, 1)
        (a, b), elements = sizes.operand_bytes, task.rows * task.columns
        moved = (task.rows * a + task.columns * b) * depth + elements * sizes.out_bytes * part
        return 2 * elements * depth / self.flops_per_s + steps * world.step_s + moved * world.byte_s


def _is_new(kept: list[Hashable], panel: Hashable) -> bool:
    """Whether a panel must be read; it replaces the least recently used one."""
    is_new = panel not in kept
    if not is_new:
        kept.remove(panel)
    kept.append(panel)
    del kept[:-PANELS]
    return is_new
