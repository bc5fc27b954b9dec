"""The elements of A and B that each block of a launch loads in each step, from the addresses of its lanes.

A step is the time between two barriers of the block. In a kernel without barriers it is one iteration of each warp's
loop; it ends when the warp reaches an instruction that it has already executed in the step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.observe.instruments.addresses import AddressesResult
from tilewright.observe.profiling.counts import LANES
from tilewright.observe.profiling.watching import Kept, Operand, Watched
from tilewright.simulate.events import EventKind

#: First row, first column, rows and columns of a rectangle of elements.
Rectangle = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Touched:
    """The elements of one matrix that a block loaded in one step, or stored to C."""

    rectangles: tuple[Rectangle, ...]  #: Disjoint; they cover each touched element.
    elements: int  #: Number of touched elements.
    asked: int  #: Accesses of lanes to elements: more than `elements` if lanes share them or repeat.


@dataclass(frozen=True, slots=True)
class BlockSteps:
    """One block of a launch."""

    block: tuple[int, int, int]
    loaded: tuple[tuple[Touched, Touched], ...]  #: Of A and of B, by step.
    stored: Touched  #: Of C, in total.


@dataclass(frozen=True, slots=True)
class Steps:
    """The blocks of a launch whose accesses were kept."""

    blocks: tuple[BlockSteps, ...]
    by_barriers: bool  #: Whether barriers separate the steps; else iterations of each warp's loop.


def steps(seen: Watched) -> Steps:
    """Group the accesses to A, B and C by block and step."""
    kept = seen.kept.from_global
    barriers = {row for row, site in enumerate(kept.sites) if site.kind is EventKind.ARRIVE}
    rows = kept.records["row"]
    by_barriers = bool(np.isin(rows, list(barriers)).any())
    number = _by_barriers(kept, barriers) if by_barriers else _by_turns(kept)
    found = [
        _block(seen.kept, block, np.flatnonzero(kept.records["block"] == block), number) for block in _blocks(kept)
    ]
    return Steps(tuple(found), by_barriers)


def _blocks(kept: AddressesResult) -> list[int]:
    return [int(block) for block in np.unique(kept.records["block"])]


def _by_barriers(kept: AddressesResult, barriers: set[int]) -> npt.NDArray[np.int64]:
    """For each record, the number of barriers that its warp had reached."""
    passed: defaultdict[tuple[int, int], int] = defaultdict(int)
    number = np.zeros(len(kept.records), np.int64)
    for i, (block, warp, row) in enumerate(_warps(kept)):
        number[i] = passed[block, warp]
        passed[block, warp] += row in barriers
    return number


def _by_turns(kept: AddressesResult) -> npt.NDArray[np.int64]:
    """For each record, how often its warp had started its loop again."""
    turns: defaultdict[tuple[int, int], int] = defaultdict(int)
    executed: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    number = np.zeros(len(kept.records), np.int64)
    for i, (block, warp, row) in enumerate(_warps(kept)):
        here = executed[block, warp]
        if row in here:
            turns[block, warp] += 1
            here.clear()
        here.add(row)
        number[i] = turns[block, warp]
    return number


def _warps(kept: AddressesResult) -> Iterator[tuple[int, int, int]]:
    records = kept.records
    return zip(records["block"].tolist(), records["warp"].tolist(), records["row"].tolist(), strict=True)


def _block(seen: Kept, block: int, mine: npt.NDArray[np.int64], number: npt.NDArray[np.int64]) -> BlockSteps:
    a, b, c = seen.operands
    kept = seen.from_global
    access = {row: site.access for row, site in enumerate(kept.sites)}
    loads = np.array([i for i in mine if access[int(kept.records["row"][i])] == "load"], np.int64)
    stores = np.array([i for i in mine if access[int(kept.records["row"][i])] == "store"], np.int64)
    loaded = []
    for step in np.unique(number[loads]):
        records = loads[number[loads] == step]
        pair = _touched(kept, records, a), _touched(kept, records, b)
        if pair[0].elements or pair[1].elements:
            loaded.append(pair)
    x, y, _ = seen.profile.grid
    return BlockSteps((block % x, block // x % y, block // (x * y)), tuple(loaded), _touched(kept, stores, c))


def _touched(kept: AddressesResult, records: npt.NDArray[np.int64], matrix: Operand) -> Touched:
    touched = np.zeros(matrix.shape, bool).ravel()
    asked = 0
    chosen = kept.records[records]
    active = (chosen["mask"][:, None] >> np.arange(LANES, dtype=np.uint32) & 1).astype(bool)
    for row in np.unique(chosen["row"]):
        here = chosen["row"] == row
        addresses = chosen["addresses"][here][active[here]].astype(np.int64)
        first = (addresses - matrix.address) // matrix.element_bytes
        first = first[(0 <= first) & (first < touched.size)]
        for element in range(kept.sites[row].bytes_per_lane // matrix.element_bytes):
            touched[first + element] = True
            asked += first.size
    grid = touched.reshape(matrix.shape)
    return Touched(tuple(rectangles(grid)), int(touched.sum()), asked)


def rectangles(grid: npt.NDArray[np.bool_]) -> Sequence[Rectangle]:
    """The set elements as rectangles: runs of a row, merged with equal runs in the row above.

    >>> rectangles(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], bool))
    [(0, 0, 2, 2), (2, 1, 1, 2)]
    """
    found: list[Rectangle] = []
    above: dict[tuple[int, int], int] = {}  # first column, width -> index of a rectangle in the row above
    for row in np.flatnonzero(grid.any(axis=1)):
        edges = np.flatnonzero(np.diff(grid[row].astype(np.int8), prepend=0, append=0)).tolist()
        here: dict[tuple[int, int], int] = {}
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            run = start, end - start
            last = above.get(run)
            if last is not None and found[last][0] + found[last][2] == row:
                first, column, height, width = found[last]
                found[last] = first, column, height + 1, width
                here[run] = last
            else:
                here[run] = len(found)
                found.append((int(row), start, 1, end - start))
        above = here
    return found
