"""What a simulated worker does with its tiles: reads ahead of its steps, which go on while the tile before is written.

A tile has few events, however many steps. Panels are read one step ahead. One transfer stands for the first panels and
one for all others: at steady rates the steps end when the reads do, however they take turns. Where the first step
waits for the memory of a tile that is still being written, the second panels are read meanwhile, and no more.
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
    places: tuple[Hashable, Hashable]  #: Where its panels of A, and of B, are beside k.
    rows: int
    columns: int
    depth: int  #: Of all its panels together.
    step_depth: int  #: Of each but the last.
    deaths: int = 0
    arrived_s: float = 0.0
    first_bytes: int = 0  #: Of its first panels, but for those that are in memory.
    other_bytes: int = 0

    @property
    def steps(self) -> int:
        """One at least, which starts sums from zero."""
        return max(1, -(-self.depth // max(self.step_depth, 1)))

    @property
    def last_depth(self) -> int:
        """Of the last panels."""
        return self.depth - (self.steps - 1) * self.step_depth


class Surroundings(Protocol):
    """What a worker shares with others."""

    plan: BlockPlan
    world: SimulatedCluster
    now_s: float

    def at(self, seconds: float, worker: Worker, then: Callable[[], None]) -> None:
        """Let something happen then, unless the worker dies before."""

    def read(self, worker: Worker, count: int, then: Callable[[], None]) -> None:
        """Let a worker read so many bytes."""

    def finish(self, worker: Worker, task: Task) -> None:
        """Let it write a tile whose steps are done, and call :meth:`Worker.written`."""


@dataclass(slots=True, eq=False)
class Worker:
    """One of the cluster's; what was to happen in another life of its does not."""

    number: int
    flops_per_s: float
    around: Surroundings
    life: int = 0
    held: list[Task] = field(default_factory=list)  #: On their way to it, waiting there, and being made.
    here: deque[Task] = field(default_factory=deque)  #: Waiting there.
    ahead: Task | None = None  #: Its first panels are read, or there.
    has_first: bool = False  #: Whether they are there.
    made: Task | None = None  #: Its steps go on, or wait for memory.
    waits: Callable[[], None] | None = None  #: The steps that wait for memory.
    kept: tuple[list[Hashable], list[Hashable]] = field(default_factory=lambda: ([], []))  #: Panels in memory, by use.
    writes: deque[Task] = field(default_factory=deque)  #: Their sums are in memory; the first is being written.
    turn_s: float = 0.0  #: When the step before a tile's first was done.
    transfers: set[int] = field(default_factory=set)
    moved_bytes: int = 0
    busy_s: float = 0.0
    began_s: float = 0.0  #: Of the time in which it has had tiles in progress.

    @property
    def in_progress(self) -> list[Task]:
        """Tiles that it has begun."""
        return [task for task in (self.ahead, self.made, *self.writes) if task is not None]

    def arrive(self, task: Task) -> None:
        """A tile is there: it is begun at once where nothing is in progress."""
        task.arrived_s = self.around.now_s
        self.here.append(task)
        if not self.in_progress:
            self._begin()

    def rest(self) -> None:
        """End a busy time."""
        if self.in_progress:
            self.busy_s += self.around.now_s - self.began_s

    def forget(self) -> None:
        """Lose all that it has."""
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
        """Read the next tile's first panels, if it was there when the step before the last was done."""
        if self.here and self.here[0].arrived_s <= at_s:
            self._begin()

    def _make(self) -> None:
        """Begin a tile's steps, if those of the one before are done and its first panels are there."""
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
        """Read the second panels; begin the steps when there is memory for their sums."""
        others = task.depth - task.step_depth
        second = task.other_bytes * min(task.step_depth, others) // others if others > 0 else 0
        left = task.other_bytes - second
        began_s, is_there = 0.0, task.steps == 1

        def go_on() -> None:
            if is_there and self.waits is None:
                # Third panels wait for the first step, whose own they take the place of.
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
        """Multiply, from a moment on, and read so many bytes of panels meanwhile."""
        reads_from_s = self.around.now_s
        steps_end_s = began_s + self._step_s(task, task.depth)

        def all_read() -> None:
            # The last panels but one came so much sooner; they may be far deeper than the last.
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
        """All steps are done: the sums are written, and the next tile goes on."""
        self.made, self.turn_s = None, self.around.now_s
        self.writes.append(task)
        if len(self.writes) == 1:
            self.around.finish(self, task)
        self._begin()
        self._make()

    def written(self) -> Task:
        """The first tile of those whose sums are in memory is on disk."""
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
        """See which panels are in memory: a neighbour's, where all of a tile's are kept."""
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
    """Whether a panel must be read; it takes the place of the one that was not used for longest."""
    is_new = panel not in kept
    if not is_new:
        kept.remove(panel)
    kept.append(panel)
    del kept[:-PANELS]
    return is_new
