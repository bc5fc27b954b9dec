"""Thread frontiers: the other blocks where lanes can wait while a block runs.

Source: Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011, stated here as a data-flow problem so that
barriers and spinning lanes, which may leave lanes waiting in lower-numbered blocks, fit the same iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from tilewright.simulate.code import LANES
from tilewright.simulate.translate.analysis.graph import Graph


def thread_frontiers(graph: Graph, divergent: set[int]) -> list[set[int]]:
    """For every block, the blocks in which lanes of the same warp may wait while it runs.

    `divergent` holds the blocks whose branch can send lanes of one warp to different successors.
    """
    # Sets of blocks are integers, a bit a block: kernels with a thousand blocks have a million pairs of them.
    frontiers = [0] * len(graph.blocks)
    sticky = _bits(graph.spin_headers)  # blocks that can wait while higher-numbered ones run
    behind = 0  # blocks after a barrier: lanes held by it wait there even while others run that block
    shared = 0, 0  # blocks whose lanes all wait for one another's, and `behind` when they were found
    work = deque(block.index for block in graph.blocks)
    at_work = set(work)
    while work:
        index = work.popleft()
        at_work.remove(index)
        block = graph.blocks[index]
        waiting = frontiers[index]
        if block.kind == "barrier" and waiting:
            sticky |= 1 << block.successors[0]
            behind |= 1 << block.successors[0]
        parks = block.meets and waiting != 0
        if parks:
            sticky |= 1 << index
        if index in divergent:
            ends = [(waiting | _bits(block.successors), max(block.successors))]
        else:
            ends = [(waiting | 1 << s, s) for s in block.successors] or [(waiting, len(graph.blocks))]
        for others, top in ends:
            rotates = others & sticky != 0 or parks
            present = others | (1 << index if parks else 0)
            if rotates:
                if behind == shared[1] and not present & ~shared[0]:
                    continue  # each has the others in its frontier
                shared = present, behind
            for chosen in _members(present if rotates else present & ((2 << top) - 1)):
                left = present & ~(1 << chosen & ~behind)
                if not rotates:
                    left &= sticky | -1 << chosen
                if left & ~frontiers[chosen]:
                    frontiers[chosen] |= left
                    if chosen not in at_work:
                        work.append(chosen)
                        at_work.add(chosen)
    return [set(_members(frontier)) for frontier in frontiers]


def full_blocks(graph: Graph, frontiers: list[set[int]], threads: int) -> set[int]:
    """Blocks in which always all lanes of the warp run, so that no mask is needed.

    All lanes that have not exited run if no lane can wait elsewhere; and no lane has exited before, unless some can
    exit while others wait.
    """
    if threads % LANES:
        return set()
    after = set().union(*(frontiers[b.index] for b in graph.blocks if not b.successors))
    work = list(after)
    while work:
        fresh = set(graph.blocks[work.pop()].successors) - after
        after |= fresh
        work += fresh
    return {block.index for block in graph.blocks if not frontiers[block.index]} - after


def _bits(blocks: Iterable[int]) -> int:
    found = 0
    for block in blocks:
        found |= 1 << block
    return found


def _members(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
