"""A cluster's tiles step by step: slow, and by another mechanism than the simulation.

Every reader, multiplier and scheduler is a generator that yields what it waits for: seconds, a transfer, a condition.
Time goes to whatever ends next; what is left of every transfer is reckoned anew each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial

from tilewright.blocks.foretold import World
from tilewright.blocks.planning import BlockPlan

Waits = Generator["float | Transfer | Callable[[], bool]"]


@dataclass(eq=False)
class Transfer:
    left: float


@dataclass(eq=False)
class Tile:
    """What a worker makes."""

    at: tuple[int, int, int]  #: Tile, layer, number of layers.
    rows: int
    columns: int
    panels: list[int]  #: Depths.
    read: int = 0
    added: int = 0

    def has_read(self, count: int) -> bool:
        return self.read >= count

    def has_added(self, count: int) -> bool:
        return self.added >= count


@dataclass(eq=False)
class Hands:
    flops_per_s: float
    tiles: list[Tile] = field(default_factory=list)  #: There.
    dealt: int = 0  #: On their way too.


class StepByStep:
    """A product without failures, by workers of their own rates."""

    def __init__(self, plan: BlockPlan, world: World, layers: int = 1) -> None:
        self.plan, self.world, self.now_s, self.moved = plan, world, 0.0, 0.0
        todo = [self.tile(tile, layer, layers) for tile in plan.order() for layer in range(layers)]
        self.hands, self.left, self.letters = [Hands(rate) for rate in world.rates], len(todo), todo
        self.written: dict[int, int] = {}
        self.begun: dict[int, int] = {}
        self.post: list[tuple[Tile, Hands]] = []
        for hands in self.hands:
            self.deal(hands)
        self.going: list[tuple[Waits, float | Transfer | Callable[[], bool]]] = []
        for one in (self.scheduler(), *map(self.worker, self.hands)):
            self.go_on(one)

    def seconds(self) -> float:
        while self.left:
            self.next()
        return self.now_s

    def tile(self, number: int, layer: int, layers: int) -> Tile:
        _, row, column = self.plan.place(number)
        rows, columns = self.plan.part(0, row), self.plan.part(1, column)
        k = self.plan.sizes.extents[2]
        each = math.ceil(k / layers)
        ks = range(k)[layer * each : (layer + 1) * each]
        depths = [len(ks[i : i + self.plan.depth]) for i in range(0, len(ks), self.plan.depth)]
        return Tile((number, layer, layers), rows.stop - rows.start, columns.stop - columns.start, depths)

    def deal(self, hands: Hands) -> None:
        while self.letters and hands.dealt < 2:
            hands.dealt += 1
            self.post.append((self.letters.pop(0), hands))

    def scheduler(self) -> Waits:
        while True:
            yield lambda: bool(self.post)
            tile, hands = self.post.pop(0)
            yield self.world.task_s
            hands.tiles.append(tile)

    def worker(self, hands: Hands) -> Waits:
        while True:
            yield lambda: bool(hands.tiles)
            tile = hands.tiles.pop(0)
            self.go_on(self.reader(tile))
            for i, depth in enumerate(tile.panels):
                yield partial(tile.has_read, i + 1)
                yield 2 * tile.rows * tile.columns * depth / hands.flops_per_s + self.world.step_s
                tile.added += 1
            yield from self.finish(tile)
            self.left -= 1
            hands.dealt -= 1
            self.deal(hands)

    def reader(self, tile: Tile) -> Waits:
        """Panels have room for two: one that is multiplied, and the next."""
        a, b = self.plan.sizes.operand_bytes
        for i, depth in enumerate(tile.panels):
            yield partial(tile.has_added, i - 1)
            yield Transfer(depth * (tile.rows * a + tile.columns * b))
            tile.read += 1

    def finish(self, tile: Tile) -> Waits:
        number, _, layers = tile.at
        elements = tile.rows * tile.columns
        others = self.begun.get(number, 0)
        self.begun[number] = others + 1
        size = self.plan.sizes.out_bytes
        if layers > 1 and others < layers - 1:
            size = self.plan.sizes.sum_bytes
        elif layers > 1:
            yield lambda: self.written.get(number, 0) == layers - 1
            yield Transfer(elements * self.plan.sizes.sum_bytes * (layers - 1))
        yield Transfer(elements * size * self.world.write_cost)
        yield self.world.flush_s
        self.written[number] = self.written.get(number, 0) + 1

    def go_on(self, one: Waits) -> None:
        """Let one run to what it waits for next."""
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
