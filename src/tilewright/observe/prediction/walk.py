"""A warp's path through its machine code: each loop runs its mean number of times, each branch goes in proportion.

The order in which the warp did its operations on mbarriers decides branches to them.

Long loops are shortened: the path has a few iterations of each, enough for the multiprocessor to reach a steady state.
Longer paths have more iterations of one such loop. The difference, times the number of omitted iterations, is added to
the time of the short path. Source of the error: `benchmarks/prediction.py --paths`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.ground.dominance import post_dominators
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.flow import END, NONE, Graph

Path = npt.NDArray[np.uint32]
#: A path of at most this many machine instructions is walked in full.
_WHOLE = 24_000
#: Fewest iterations of a shortened loop, and fewest instructions in all of them.
_TURNS, _STEADY = 12, 4_000
#: The longer path has this many times as many iterations.
_LONGER = 3
#: Most machine instructions of a path.
_MOST = 2_000_000
#: Blocks between two checks of the deadline.
_LOOK = 1024


@dataclass(frozen=True, slots=True)
class Paths:
    """A warp's path, and longer variants to extrapolate from."""

    shortened: Path  #: Instruction numbers, in order.
    longer: tuple[tuple[float, Path], ...]  #: Paths with more iterations of a loop, and how often these are left out.


@dataclass(slots=True)
class _Loop:
    """A loop of contiguous blocks: from its head to the last block with an edge back to it."""

    head: int
    last: int
    entered: float = 0.0
    visits: float = 0.0
    left: int = 0
    owed: float = field(default=0.0)

    @property
    def turns(self) -> float:
        """Mean iterations for each entry."""
        return self.visits / self.entered if self.entered > NONE else 1.0

    def holds(self, block: int) -> bool:
        """Whether a block is in the loop."""
        return self.head <= block <= self.last

    def enter(self, most: int | None) -> None:
        """Set the iterations of this entry: the mean, with the fraction carried over to the next entry."""
        each = self.turns + self.owed
        self.left = max(1, round(each)) if most is None else most
        self.owed = each - self.left if most is None else 0.0


class Turns:
    """The turns in which a warp does its operations on mbarriers."""

    def __init__(self, ways: Graph, blocks: Sequence[Sequence[int]], turns: Mapping[int, Sequence[int]]) -> None:
        """`blocks` are the PTX lines of the operations in each block, `turns` the turns of each line, in order."""
        after = [[ways.edges[edge][1] for edge in out] for out in ways.outs()]
        self._blocks = blocks
        self._ahead = [self._first(after, block) for block in range(len(blocks))]
        self._left = {line: list(reversed(numbers)) for line, numbers in turns.items()}
        self._done = 0

    def passes(self, block: int) -> None:
        """Do the operations of a block whose turn it is, in any order of its machine instructions."""
        lines = list(self._blocks[block])
        while due := [line for line in lines if self._next(line) == self._done]:
            lines.remove(due[0])
            self._left[due[0]].pop()
            self._done += 1

    def among(self, blocks: Sequence[int]) -> list[int]:
        """Indices of the blocks to which the warp may branch now.

        Those that lead to an operation whose turn it is. If there are none, those that lead to no operation: the
        others come too early.
        """
        nexts = [[self._next(line) for line in self._ahead[block]] if block != END else [] for block in blocks]
        due = [n for n, turns in enumerate(nexts) if self._done in turns]
        return due or [n for n, turns in enumerate(nexts) if not turns] or list(range(len(blocks)))

    def _first(self, after: Sequence[Sequence[int]], block: int) -> Sequence[int]:
        """The lines of the first operations that follow a block without a branch before them."""
        for _ in self._blocks:
            if self._blocks[block] or len(after[block]) != 1 or after[block][0] == END:
                break
            block = after[block][0]
        return self._blocks[block]

    def _next(self, line: int) -> int:
        """The turn of a line's next operation; -1 if there is none."""
        left = self._left.get(line)
        return left[-1] if left else -1


def paths(ways: Graph, flow: npt.NDArray[np.float64], deadline: Deadline) -> Paths:
    """The path of a warp, from how often it takes each edge.

    Raises CompileError: the path has too many instructions, or the flow leads nowhere.
    """
    kept = _shortened(ways, flow)
    loops = {loop.head: loop for loop in _loops(ways, flow)}
    longer = []
    for head, turns in kept.items():
        times = (loops[head].turns / turns - 1) / (_LONGER - 1)
        for other, fewer in kept.items():
            if other != head and loops[other].holds(head) and loops[other].last >= loops[head].last:
                times *= loops[other].turns / fewer
        longer.append((times, walk(ways, flow, {**kept, head: _LONGER * turns}, deadline)))
    return Paths(walk(ways, flow, kept, deadline), tuple(longer))


def _shortened(ways: Graph, flow: npt.NDArray[np.float64]) -> dict[int, int]:
    """Iterations of the shortened loops, by head: those that save most first, until the path is short."""
    lengths = np.array([end - first for first, end in ways.blocks], float)
    work = _visits(ways, flow) * lengths
    kept: dict[int, int] = {}
    while work.sum() > _WHOLE:
        saved: dict[int, tuple[float, int, _Loop]] = {}
        for loop in _loops(ways, flow):
            inside = float(work[loop.head : loop.last + 1].sum())
            turns = max(_TURNS, math.ceil(_STEADY * loop.turns / inside)) if inside else _TURNS
            if loop.head not in kept and _LONGER * turns < loop.turns:
                saved[loop.head] = inside * (1 - turns / loop.turns), turns, loop
        if not saved:
            break
        _, turns, loop = max(saved.values(), key=lambda one: one[0])
        kept[loop.head] = turns
        work[loop.head : loop.last + 1] *= turns / loop.turns
    return kept


def _visits(ways: Graph, flow: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How often a warp reaches each block."""
    found = np.zeros(len(ways.blocks))
    np.add.at(found, [source for source, _ in ways.edges], flow)
    return found


def walk(
    ways: Graph,
    flow: npt.NDArray[np.float64],
    kept: Mapping[int, int],
    deadline: Deadline,
    most: int = _MOST,
    turns: Turns | None = None,
) -> Path:
    """The numbers of the instructions that a warp executes, in order; `kept` limits the iterations of some loops.

    Branches go in proportion to the flow, but where `turns` decides.

    Raises CompileError: there are more than `most`, or the flow leads nowhere.
    """
    visits = _visits(ways, flow)
    loops = {loop.head: loop for loop in _loops(ways, flow)}
    outs = ways.outs()
    taken, seen = np.zeros(len(flow)), np.zeros(len(visits))
    path: list[tuple[int, int]] = []
    callers: list[int] = []
    length, block, before = 0, 0, END
    while block != END:
        first, end = ways.blocks[block]
        path.append((first, end))
        length += end - first
        if length > most or len(path) > 2 * visits.sum() + len(visits):
            raise CompileError(
                f"a warp's path must have at most {most:,} machine instructions that agree with its counts (found "
                "none); predict a smaller launch, or a simpler kernel"
            )
        seen[block] += 1
        if not len(path) % _LOOK:
            deadline.check()
        if (loop := loops.get(block)) is not None:
            if not loop.holds(before):
                loop.enter(kept.get(block))
            loop.left -= 1
        edges = _open(ways, loops, block, [n for n in outs[block] if flow[n] > NONE] or outs[block])
        if not edges:
            raise CompileError(
                f"a predicted kernel must continue after each instruction (got number {end - 1}, which leads nowhere); "
                "leave it out of the kernel"
            )
        if turns is not None:
            turns.passes(block)
            edges = [edges[n] for n in turns.among([ways.edges[edge][1] for edge in edges])]
        edge = max(edges, key=lambda n: flow[n] * seen[block] / max(visits[block], NONE) - taken[n])
        if block in ways.calls:
            callers.append(ways.calls[block])
        target = callers.pop() if block in ways.callees and callers else ways.edges[edge][1]
        taken[edge] += 1
        before, block = block, target
    return np.concatenate([np.arange(first, end, dtype=np.uint32) for first, end in path])


def _loops(ways: Graph, flow: npt.NDArray[np.float64]) -> Iterator[_Loop]:
    visits, dominators = _visits(ways, flow), _dominators(ways, flow)
    last: dict[int, int] = {}
    for number, (source, target) in enumerate(ways.edges):
        if target == END or target > source or flow[number] <= NONE or source in ways.callees:
            continue
        if dominators[source] >> target & 1:  # else no loop: assemblers put the retry of a wait at the code's end
            last[target] = max(last.get(target, source), source)
    for head, end in last.items():
        outside = (n for n in ways.into(head) if not head <= ways.edges[n][0] <= end)
        yield _Loop(head, end, sum(flow[n] for n in outside) + (head == 0), float(visits[head]))


def _dominators(ways: Graph, flow: npt.NDArray[np.float64]) -> list[int]:
    """For each block, a bit set of the blocks on every way to it that the warp takes."""
    before: list[list[int]] = [[] for _ in ways.blocks]
    for number, (source, target) in enumerate(ways.edges):
        if target not in (0, END) and flow[number] > NONE:
            before[target].append(source)
    return post_dominators(before)


def _open(ways: Graph, loops: Mapping[int, _Loop], block: int, edges: Sequence[int]) -> Sequence[int]:
    """The edges of a block that its loops allow: back while iterations are left, then out."""
    if len(edges) < 2:
        return edges
    for loop in sorted((one for one in loops.values() if one.holds(block)), key=lambda one: -one.head):
        staying = [n for n in edges if loop.holds(ways.edges[n][1])]
        if len(staying) < len(edges):
            leaving = [n for n in edges if n not in staying]
            return staying if loop.left > 0 and staying else leaving
    return edges
