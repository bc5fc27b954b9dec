"""What a simulated worker does with its tiles: reads ahead of its steps, which go on while the tile before is written.

A tile has few events, however many steps. Panels are read one step ahead: a transfer brings the first, and one more all
others, as steps that wait for reads and reads that wait for steps end together at steady rates. Where the first step
waits for the memory of a tile that is still being written, the second panels are read meanwhile, and no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.blocks.foretold import World
from tilewright.blocks.planning import BlockPlan


@dataclass(slots=True, eq=False)
class Task:
    """A tile, or one layer of it."""

    number: int
    tile: int
    rows: int
    columns: int
    depth: int  #: Of all its panels together.
    step_depth: int  #: Of each but the last.
    deaths: int = 0
    arrived_s: float = 0.0

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
    world: World
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
            self.began_s = self.around.now_s
        if self.made is None:
            self.turn_s = self.around.now_s
        task = self.ahead = self.here.popleft()
        self.has_first = False

        def there() -> None:
            self.has_first = True
            self._make()

        self.around.read(self, self._panel_bytes(task, min(task.step_depth, task.depth)), there)

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
            self._step(task, self.around.now_s, task.depth - task.step_depth)
        else:
            self._wait(task)

    def _wait(self, task: Task) -> None:
        """Read the second panels; begin the steps when there is memory for their sums."""
        second = min(task.step_depth, task.depth - task.step_depth)
        left = task.depth - task.step_depth - second
        began_s, is_there = 0.0, second <= 0

        def go_on() -> None:
            if is_there and self.waits is None:
                # Third panels wait for the first step, whose own they take the place of.
                free_s = began_s + self._step_s(task, task.step_depth) if left > 0 else 0.0
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
        if second > 0:
            self.around.read(self, self._panel_bytes(task, second), there)

    def _step(self, task: Task, began_s: float, left: int) -> None:
        """Multiply, from a moment on, and read what is left of the panels meanwhile."""
        reads_from_s = self.around.now_s
        steps_end_s = began_s + self._step_s(task, task.depth)

        def all_read() -> None:
            # The last panels but one came so much sooner; they may be far deeper than the last.
            now_s, last = self.around.now_s, task.last_depth
            before_s = now_s - (now_s - reads_from_s) * last / left if left > 0 else began_s
            last_s = self._step_s(task, last)
            done_s = steps_end_s - last_s  # all steps but the last
            if task.steps > 1:
                done_s = max(done_s, before_s + self._step_s(task, task.step_depth))
                self.around.at(max(now_s, done_s), self, lambda: self._ask(done_s))
            self.around.at(max(now_s, done_s) + last_s, self, lambda: self._summed(task))

        if left > 0:
            self.around.read(self, self._panel_bytes(task, left), all_read)
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

    def _panel_bytes(self, task: Task, depth: int) -> int:
        """Of A and of B, so deep."""
        sizes = self.around.plan.sizes
        sides = zip((task.rows, task.columns), sizes.operand_bytes, sizes.resident, strict=True)
        return depth * sum(0 if lies else side * size for side, size, lies in sides)

    def _step_s(self, task: Task, depth: int) -> float:
        steps = max(1, -(-depth // max(task.step_depth, 1)))
        return 2 * task.rows * task.columns * depth / self.flops_per_s + steps * self.around.world.step_s
