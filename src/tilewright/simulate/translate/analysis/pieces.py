"""Long kernels in pieces: each becomes an LLVM function of bounded size.

LLVM's register allocation and scheduling take more than linear time. Pieces bound their input, so the time to translate
a kernel grows with its length. A piece is a run of blocks. Registers that are live into another piece are kept in the
warp's record in between; a kernel with so many live values would spill them anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.simulate.translate.analysis.graph import Block, Graph

#: Greatest cost of a kernel in one piece, and greatest cost of a piece (a single block may cost more).
WHOLE_COST, PIECE_COST = 2500, 1000
#: Cost of a memory access in instructions: its check, its events, and a gather or scatter of many lanes.
_ACCESS_COST = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of blocks that one LLVM function runs."""

    blocks: range  #: Their indices.
    #: `touched`, `written`: registers that its instructions read or write, and those that they write.
    touched: frozenset[str]
    written: frozenset[str]


def is_long(graph: Graph, frontiers: Sequence[set[int]]) -> bool:
    """Whether a kernel needs several functions. The ends of blocks count, because they test the whole frontier."""
    return sum(_cost(b) + len(frontiers[b.index]) for b in graph.blocks) > WHOLE_COST


def cut(graph: Graph) -> list[Piece]:
    """The pieces of a long kernel, in the order of its blocks."""
    costs = [_cost(block) for block in graph.blocks]
    pieces, start = [], 0
    while start < len(costs):
        stop = _stop(graph, costs, start)
        pieces.append(_piece(graph, range(start, stop)))
        start = stop
    return pieces


def whole(graph: Graph) -> Piece:
    """A kernel as one piece."""
    return _piece(graph, range(len(graph.blocks)))


def _cost(block: Block) -> int:
    return block.cost + sum((_ACCESS_COST - 1) * bool(op.form.row.access) for op in block.ops)


def _stop(graph: Graph, costs: list[int], start: int) -> int:
    """The end of the piece that starts at a block: the cut in its second half that the fewest loops cross."""
    cost, stop = costs[start], start + 1
    while stop < len(costs) and cost + costs[stop] <= PIECE_COST:
        cost += costs[stop]
        stop += 1
    if stop == len(costs):
        return stop
    best = stop
    while stop > start + 1 and cost >= PIECE_COST // 2:
        if _loops_around(graph, stop) < _loops_around(graph, best):
            best = stop
        stop -= 1
        cost -= costs[stop]
    return best


def _loops_around(graph: Graph, cut_at: int) -> int:
    return sum(header < cut_at <= tail for tail, header in graph.back_edges)


def _piece(graph: Graph, blocks: range) -> Piece:
    ops = [op for i in blocks for op in (*graph.blocks[i].ops, graph.blocks[i].end) if op is not None]
    written = frozenset(name for op in ops for name in op.writes)
    read = frozenset(name for op in ops for name in op.reads)
    return Piece(blocks, written | read, written)
