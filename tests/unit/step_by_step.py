"""A second simulation of a cluster's tiles: slow, step by step, with another mechanism.

Every reader, multiplier and scheduler is a generator that yields what it waits for: seconds, a transfer, a condition.
Time advances to the next end; the rest of every transfer is computed again each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial

from tilewright.blocks.dealing import Deal
from tilewright.blocks.planning import BlockPlan
from tilewright.blocks.simulation.records import SimulatedCluster

Waits = Generator["float | Transfer | Callable[[], bool]"]


@dataclass(eq=False)
class Transfer:
    left: float


@dataclass(eq=False)
class Tile:
    task: int
    number: int
    places: tuple[object, object]  #: Keys that distinguish its panels of A, and of B, from those of other tiles.
    is_last: Callable[[], bool]  #: Whether writes of all other layers have started.
    rows: int
    columns: int
    panels: list[int]  #: Depths.


@dataclass(eq=False)
class Step:
    tile: Tile
    panel: int
    is_read: bool = False
    missing: int = 0  #: Bytes read for it.

    def after(self) -> Step | None:
        return Step(self.tile, self.panel + 1) if self.panel + 1 < len(self.tile.panels) else None


@dataclass(eq=False)
class Hands:
    """A worker's state."""

    flops_per_s: float
    tiles: list[Tile] = field(default_factory=list)  #: Assigned, and not started.
    kept: list[list[object]] = field(default_factory=list)  #: The last two requested panels of A and of B.
    reads: list[Step] = field(default_factory=list)
    writes: list[Tile] = field(default_factory=list)

    def next(self) -> Step | None:
        return Step(self.tiles.pop(0), 0) if self.tiles else None


class StepByStep:
    """A product without failures, by workers with different rates."""

    def __init__(self, plan: BlockPlan, world: SimulatedCluster, layers: int = 1) -> None:
        self.plan, self.world, self.layers, self.now_s, self.moved = plan, world, layers, 0.0, 0.0
        self.hands, self.left = [Hands(rate) for rate in world.rates], layers * plan.tiles
        self.dealer = Deal((tile * layers + layer for layer in range(layers) for tile in plan.order()), world.workers)
        self.written: dict[int, int] = {}
        self.begun: dict[int, int] = {}
        self.post: list[tuple[Tile, Hands]] = []
        for hands in self.hands:
            self.deal(hands)
        self.going: list[tuple[Waits, float | Transfer | Callable[[], bool]]] = []
        self.go_on(self.scheduler())
        for hands in self.hands:
            for one in (self.reader(hands), self.writer(hands), self.multiplier(hands)):
                self.go_on(one)

    def seconds(self) -> float:
        while self.left:
            self.next()
        return self.now_s

    def tile(self, task: int) -> Tile:
        number, layer = divmod(task, self.layers)
        _, row, column = self.plan.place(number)
        rows, columns = self.plan.part(0, row), self.plan.part(1, column)
        k = self.plan.sizes.extents[2]
        each = math.ceil(k / self.layers)
        ks = range(k)[layer * each : (layer + 1) * each]
        depths = [len(ks[i : i + self.plan.depth]) for i in range(0, len(ks), self.plan.depth)]

        def is_last() -> bool:
            return self.begun.get(number, 0) == self.layers - 1

        places = ("a", row, layer), ("b", column, layer)
        return Tile(task, number, places, is_last, rows.stop - rows.start, columns.stop - columns.start, depths or [0])

    def deal(self, hands: Hands) -> None:
        for task in self.dealer.to(id(hands)):
            self.post.append((self.tile(task), hands))

    def scheduler(self) -> Waits:
        while True:
            yield lambda: bool(self.post)
            tile, hands = self.post.pop(0)
            yield self.world.task_s
            hands.tiles.append(tile)

    def multiplier(self, hands: Hands) -> Waits:
        """As `Run._go` has it: each step's panels are requested before the previous step begins."""
        while True:
            yield lambda: bool(hands.tiles)
            hands.kept = [[], []]
            step, asked = hands.next(), False
            while step is not None:
                if not asked:
                    self.ask(hands, step)
                soon = step.after() or hands.next()
                asked = soon is not None
                if soon is not None:
                    self.ask(hands, soon)
                if step.panel == 0:
                    yield lambda: len(hands.writes) < self.plan.tiles_held
                yield partial(getattr, step, "is_read")
                depth = step.tile.panels[step.panel]
                elements = step.tile.rows * step.tile.columns
                a, b = self.plan.sizes.operand_bytes
                moved = depth * (step.tile.rows * a + step.tile.columns * b)
                moved += elements * self.plan.sizes.out_bytes * depth / max(sum(step.tile.panels), 1)
                yield 2 * elements * depth / hands.flops_per_s + self.world.step_s + moved * self.world.byte_s
                if step.after() is None:
                    hands.writes.append(step.tile)
                step = soon or hands.next()
            yield lambda: not hands.writes

    def ask(self, hands: Hands, step: Step) -> None:
        sides = step.tile.rows, step.tile.columns
        for kept, place, side, size in zip(
            hands.kept, step.tile.places, sides, self.plan.sizes.operand_bytes, strict=True
        ):
            if (place, step.panel) in kept:
                kept.remove((place, step.panel))
            else:
                step.missing += step.tile.panels[step.panel] * side * size
            kept.append((place, step.panel))
            del kept[:-2]
        hands.reads.append(step)

    def reader(self, hands: Hands) -> Waits:
        while True:
            yield lambda: bool(hands.reads)
            step = hands.reads.pop(0)
            yield Transfer(step.missing)
            step.is_read = True

    def writer(self, hands: Hands) -> Waits:
        while True:
            yield lambda: bool(hands.writes)
            yield from self.written_out(hands.writes[0])
            self.dealer.ended(hands.writes.pop(0).task)
            self.left -= 1
            self.deal(hands)

    def written_out(self, tile: Tile) -> Waits:
        """Another layer's sums are written; those of the last are added to all of them."""
        size = self.plan.sizes.out_bytes if tile.is_last() else self.plan.sizes.sum_bytes
        if tile.is_last() and self.layers > 1:
            yield lambda: self.written.get(tile.number, 0) == self.layers - 1
            yield Transfer(tile.rows * tile.columns * self.plan.sizes.sum_bytes * (self.layers - 1))
        else:
            self.begun[tile.number] = self.begun.get(tile.number, 0) + 1
        yield Transfer(tile.rows * tile.columns * size * self.world.write_cost)
        yield self.world.flush_s
        self.written[tile.number] = self.written.get(tile.number, 0) + 1

    def go_on(self, one: Waits) -> None:
        """Run one until its next wait."""
        awaited = next(one, None)
        if awaited is not None:
            if isinstance(awaited, Transfer):
                self.moved += awaited.left
            self.going.append((one, self.now_s + awaited if isinstance(awaited, int | float) else awaited))

    def next(self) -> None:
        ready = [entry for entry in self.going if callable(entry[1]) and entry[1]()]
        if not ready:
            moving = [what for _, what in self.going if isinstance(what, Transfer)]
            rate = min(self.world.link_bytes_per_s, self.world.storage_bytes_per_s / max(len(moving), 1))
            pauses = [
                (what.left / rate if isinstance(what, Transfer) else what - self.now_s, i)
                for i, (_, what) in enumerate(self.going)
                if not callable(what)
            ]
            pause, first = min(pauses)
            ready = [self.going[first]]
            self.now_s += pause
            for transfer in moving:
                transfer.left -= rate * pause
        self.going.remove(ready[0])
        self.go_on(ready[0][0])
