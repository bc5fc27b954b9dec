"""Thread frontiers of random graphs, against a statement of the data flow in sets that skips nothing."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilewright.simulate.translate.analysis.frontier import thread_frontiers


@dataclass
class Block:
    """What the data flow reads of a block of code."""

    index: int
    successors: tuple[int, ...]
    kind: str = ""
    meets: bool = False


@dataclass
class Flow:
    """What it reads of a graph."""

    blocks: list[Block]
    spin_headers: set[int] = field(default_factory=set)


def plain(graph: Flow, divergent: set[int]) -> list[set[int]]:
    """The frontiers, one pair of blocks at a time."""
    frontiers: list[set[int]] = [set() for _ in graph.blocks]
    sticky, behind = set(graph.spin_headers), set[int]()
    work = deque(range(len(graph.blocks)))
    while work:
        index = work.popleft()
        block, waiting = graph.blocks[index], frontiers[index]
        if block.kind == "barrier" and waiting:
            sticky.add(block.successors[0])
            behind.add(block.successors[0])
        parks = block.meets and bool(waiting)
        if parks:
            sticky.add(index)
        if index in divergent:
            ends = [(waiting | set(block.successors), max(block.successors))]
        else:
            ends = [(waiting | {s}, s) for s in block.successors] or [(set(waiting), len(graph.blocks))]
        for others, top in ends:
            present = others | ({index} if parks else set())
            rotates = bool(others & sticky) or parks
            for chosen in sorted(present):
                if not rotates and chosen > top:
                    continue
                left = present if chosen in behind else present - {chosen}
                if not rotates:
                    left = {one for one in left if one in sticky or one >= chosen}
                if not left <= frontiers[chosen]:
                    frontiers[chosen] |= left
                    if chosen not in work:
                        work.append(chosen)
    return frontiers


def drawn(rng: random.Random) -> tuple[Flow, set[int]]:
    """A graph of barriers, meeting and spinning blocks, and its divergent branches."""
    count = rng.randrange(3, 14)
    blocks, divergent = [], set[int]()
    for index in range(count):
        successors = tuple(sorted({rng.randrange(count) for _ in range(rng.choice((1, 1, 2, 2, 3)))}))
        kind = "barrier" if rng.random() < 0.25 else ""
        if kind:
            successors = successors[:1]
        elif rng.random() < 0.1 and index:
            successors = ()
        blocks.append(Block(index, successors, kind, meets=not kind and rng.random() < 0.15))
        if len(successors) > 1 and rng.random() < 0.7:
            divergent.add(index)
    return Flow(blocks, {index for index in range(count) if rng.random() < 0.15}), divergent


@pytest.mark.parametrize("part", range(8))
def test_what_is_skipped_changes_no_frontier(part: int) -> None:
    rng = random.Random(part)
    for _ in range(500):
        graph, divergent = drawn(rng)
        given: Any = graph
        assert thread_frontiers(given, divergent) == plain(graph, divergent), (graph, divergent)
