"""Thread frontiers: in which other blocks lanes can be waiting while one block runs.

Source: Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011, stated here as a data-flow problem so that
barriers and spinning lanes, which may leave lanes waiting in lower-numbered blocks, fit the same iteration.
"""

from __future__ import annotations

from tilewright.simt.translate.graph import Graph


def thread_frontiers(graph: Graph, divergent: set[int]) -> list[set[int]]:
    """For every block, the blocks in which lanes of the same warp may wait while it runs.

    `divergent` holds the blocks whose branch can send lanes of one warp to different successors.
    """
    frontiers: list[set[int]] = [set() for _ in graph.blocks]
    sticky = set(graph.spin_headers)  # blocks that can wait while higher-numbered ones run
    work = [b.index for b in graph.blocks]
    while work:
        index = work.pop(0)
        block = graph.blocks[index]
        waiting = frontiers[index]
        if block.kind == "barrier" and waiting:
            sticky.add(block.successors[0])
        if block.meets and waiting:
            sticky.add(index)
        if index in divergent:
            runs = [waiting | set(block.successors)]
            highest = [max(block.successors)]
        else:
            runs = [waiting | {s} for s in block.successors] or [set(waiting)]
            highest = list(block.successors) or [len(graph.blocks)]
        for others, top in zip(runs, highest, strict=True):
            rotates = bool(others & sticky) or (block.meets and waiting)
            present = others | ({index} if block.meets and waiting else set())
            for chosen in present:
                if chosen > top and not rotates:
                    continue
                left = {o for o in present if o != chosen and (o > chosen or o in sticky or rotates)}
                if not left <= frontiers[chosen]:
                    frontiers[chosen] |= left
                    if chosen not in work:
                        work.append(chosen)
    return frontiers
