"""How often each part of the machine code runs, and in which order.

The SIMT machine runs PTX and counts each of its instructions. The assembler says which line of PTX each machine
instruction comes from; it unrolls loops, duplicates and moves code. So how often a block of machine code runs is
estimated: the flow through the graph of blocks that agrees best with the counts of the instructions that stand for one
of PTX each. Differences count as they are, not squared, so the few that the assembler merged do not matter. Where
several flows agree, as with a loop that is kept unrolled and as it was, the one of the fewest instructions is taken:
code is unrolled to be used.

A warp's path is then a walk with these frequencies: each loop as often as it is entered and turns on average, each
branch in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.prediction.nonnegative import least_squares
from tilewright.programs.disassembler import Instruction

#: Opcodes that stand for one PTX instruction each.
_ONE_EACH = frozenset(
    "LDG STG LDS STS LDL STL LD ST ATOM ATOMS ATOMG RED BAR FFMA FADD FMUL DFMA DADD DMUL HFMA2 MUFU LDGSTS HMMA "
    "IMMA DMMA LDSM".split()
)
_LEAVES = frozenset(("BRA", "CALL", "JMP", "EXIT", "RET"))
_INDIRECT = frozenset(("BRX", "BRXU", "JMX", "JMXU"))
_CONSERVED, _COUNTED, _NEAR, _SHORT = 100.0, 1.0, 0.03, 1e-5
_NONE = 1e-6
#: How often rows are weighted anew, and which differences are none.
_REWEIGHTED, _SAME = 8, 1e-3
END = -1


@dataclass(frozen=True, slots=True)
class Graph:
    """Blocks of machine code, and the ways between them."""

    blocks: tuple[tuple[int, int], ...]  #: First instruction, and one past the last.
    edges: tuple[tuple[int, int], ...]  #: Numbers of blocks; `END` where the warp ends.
    calls: MappingProxyType[int, int]  #: Blocks that call, and those to which their callees return.
    callees: frozenset[int]  #: Blocks that return.

    def out(self, block: int) -> list[int]:
        """Numbers of the edges that leave a block."""
        return [number for number, (source, _) in enumerate(self.edges) if source == block]

    def into(self, block: int) -> list[int]:
        """Numbers of the edges that lead to a block."""
        return [number for number, (_, target) in enumerate(self.edges) if target == block]


def graph(code: Sequence[Instruction]) -> Graph:
    """The blocks of machine code, in its order."""
    heads = {0}
    for number, one in enumerate(code):
        if one.name in _INDIRECT:
            raise CompileError(f"a predicted kernel must branch to known places (got {one.opcode}); avoid jump tables")
        if one.name in _LEAVES:
            heads |= {number + 1} if one.target is None else {number + 1, one.target}
    firsts = sorted(head for head in heads if head < len(code))
    blocks = tuple(zip(firsts, [*firsts[1:], len(code)], strict=True))
    at = {first: number for number, (first, _) in enumerate(blocks)}
    callees = {number: _returns(code, end - 1) for number, (_, end) in enumerate(blocks) if code[end - 1].name == "RET"}
    backs = {back for found in callees.values() for back in found if back in at}
    calls = {at[back] - 1: at[back] for back in backs}  # the block before the one it returns to
    return Graph(blocks, tuple(_edges(code, blocks)), MappingProxyType(calls), frozenset(callees))


def _edges(code: Sequence[Instruction], blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = {first: number for number, (first, _) in enumerate(blocks)}
    for number, (_, end) in enumerate(blocks):
        last = code[end - 1]
        leaves = last.name in ("EXIT", "RET") or (last.name in _LEAVES and last.target is not None)
        if last.name == "RET":
            yield from ((number, at[back]) for back in _returns(code, end - 1) if back in at)
        elif leaves:
            yield number, END if last.target is None else at[last.target]
        if end in at and not (leaves and last.always):
            yield number, at[end]


def _returns(code: Sequence[Instruction], ret: int) -> list[int]:
    """Where a return may go: behind each call of the code that it stands in, which begins at the last target before."""
    calls = [
        (one.target, number + 1) for number, one in enumerate(code) if one.name == "CALL" and one.target is not None
    ]
    head = max((target for target, _ in calls if target <= ret), default=None)
    return [back for target, back in calls if target == head]


def frequencies(
    code: Sequence[Instruction], ways: Graph, executed: Mapping[int, float], plain: Set[int]
) -> npt.NDArray[np.float64]:
    """How often a warp takes each edge.

    Parameters
    ----------
    code, ways
        The machine code, and its graph.
    executed : mapping of int to float
        How often a warp executes the PTX instruction of each line.
    plain : set of int
        Lines of PTX that one machine instruction each is made of, not a division's many.
    """
    outs = [ways.out(block) for block in range(len(ways.blocks))]
    rows: list[npt.NDArray[np.float64]] = []
    sums: list[float] = []

    def add(parts: Mapping[int, float], wanted: float, weight: float) -> None:
        row = np.zeros(len(ways.edges))
        for block, share in parts.items():
            row[outs[block]] += share * weight
        rows.append(row)
        sums.append(wanted * weight)

    for block in range(len(ways.blocks)):
        add({block: 1.0}, float(block == 0), _CONSERVED)
        rows[-1][ways.into(block)] -= _CONSERVED
    one_each, near = _places(code, ways, executed, plain)
    for places, weight in ((one_each, _COUNTED), (near, _NEAR)):
        for parts, counts in _alike(places, executed):
            middle = float(np.median(counts))
            add(parts, middle, weight * len(counts) / max(1.0, middle) ** 0.5)
    fixed = len(ways.blocks)
    add({block: float(end - first) for block, (first, end) in enumerate(ways.blocks)}, 0.0, _SHORT)
    return _agreeing(ways, np.array(rows), np.array(sums), slice(fixed, len(rows) - 1))


_Places = dict[int, dict[int, float]]


def _places(
    code: Sequence[Instruction], ways: Graph, executed: Mapping[int, float], plain: Set[int]
) -> tuple[_Places, _Places]:
    """By line of PTX, how many of its copies stand in each block: of instructions one each, and of the others.

    Of the others only lines of which no block is unrolled.
    """
    one_each: _Places = {}
    near: _Places = {}
    unrolled: set[int] = set()
    for block, (first, end) in enumerate(ways.blocks):
        for one in code[first:end]:
            if one.ptx_line in plain and one.name in _ONE_EACH and not one.guard:
                parts = one_each.setdefault(one.ptx_line, {})
                parts[block] = parts.get(block, 0.0) + 1
        lines = {one.ptx_line for one in code[first:end] if not one.guard} & set(executed)
        if any(parts.get(block, 0.0) > 1 for parts in one_each.values()):
            unrolled |= lines
        for line in lines:
            near.setdefault(line, {})[block] = 1.0
    return one_each, {line: parts for line, parts in near.items() if line not in unrolled and line not in one_each}


def _alike(places: _Places, executed: Mapping[int, float]) -> list[tuple[dict[int, float], list[float]]]:
    """The counts of lines that stand in the same blocks equally often, together."""
    groups: dict[tuple[tuple[int, float], ...], list[float]] = {}
    for line, parts in places.items():
        groups.setdefault(tuple(sorted(parts.items())), []).append(executed[line])
    return [(dict(parts), counts) for parts, counts in groups.items()]


def _agreeing(
    ways: Graph, rows: npt.NDArray[np.float64], sums: npt.NDArray[np.float64], counted: slice
) -> npt.NDArray[np.float64]:
    """The flow whose differences from the counted rows are least in sum: least squares, reweighted by them.

    Source: Schlossmacher, An Iterative Technique for Absolute Deviations Curve Fitting, JASA 68(344), 1973.
    """
    weights = np.ones(len(rows))
    flow = _connected(ways, rows, sums, None)
    for _ in range(_REWEIGHTED):
        differences = np.abs(rows[counted] @ flow - sums[counted])
        weights[counted] = 1 / np.sqrt(np.maximum(differences, _SAME))
        before, flow = flow, _connected(ways, rows * weights[:, None], sums * weights, flow)
        if np.abs(flow - before).max() <= _SAME:
            break
    return flow


def _connected(
    ways: Graph, rows: npt.NDArray[np.float64], sums: npt.NDArray[np.float64], near: npt.NDArray[np.float64] | None
) -> npt.NDArray[np.float64]:
    """The flow, found from one near it, without loops that no way leads to: a warp enters these once at least."""
    flow = least_squares(rows, sums, near)
    for _ in ways.blocks:
        reached = {0}
        while more := {t for (s, t), x in zip(ways.edges, flow, strict=True) if x > _NONE and s in reached} - reached:
            reached |= more
        lost = {s for (s, _), x in zip(ways.edges, flow, strict=True) if x > _NONE and s not in reached}
        entries = [n for n, (s, t) in enumerate(ways.edges) if t in lost and s not in lost]
        if not entries:
            break
        row = np.zeros(len(ways.edges))
        row[entries] = _COUNTED
        rows, sums = np.vstack([rows, row]), np.append(sums, _COUNTED)
        flow = least_squares(rows, sums, flow)
    return flow


@dataclass(slots=True)
class _Loop:
    """A loop of blocks that stand together: from its head to the last block that goes back there."""

    last: int
    entered: float = 0.0
    turns: float = 0.0
    left: int = 0
    owed: float = field(default=0.0)

    def enter(self) -> None:
        """Turns for this time: the average, what is left over kept for the next time."""
        each = self.turns / self.entered + self.owed if self.entered > _NONE else 1.0
        self.left = max(1, round(each))
        self.owed = each - self.left


def walk(ways: Graph, flow: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.uint32]:
    """Numbers of the instructions that a warp executes, in order.

    Raises CompileError: they are more than `most`, or the flow leads nowhere.
    """
    visits = [sum(flow[ways.out(block)]) for block in range(len(ways.blocks))]
    loops = _loops(ways, flow, visits)
    taken, seen = np.zeros(len(flow)), np.zeros(len(visits))
    path: list[tuple[int, int]] = []
    callers: list[int] = []
    length, block, before = 0, 0, END
    while block != END:
        first, end = ways.blocks[block]
        path.append((first, end))
        length += end - first
        if length > most or len(path) > 2 * sum(visits) + len(visits):
            raise CompileError(
                f"a warp's path must be of at most {most:,} machine instructions that agree with its counts (found "
                "none); predict a smaller launch, or a simpler kernel"
            )
        seen[block] += 1
        if (loop := loops.get(block)) is not None:
            if not block <= before <= loop.last:
                loop.enter()
            loop.left -= 1
        edges = _open(ways, loops, block, [n for n in ways.out(block) if flow[n] > _NONE] or ways.out(block))
        if not edges:
            raise CompileError(
                f"a predicted kernel must go on from each instruction (got number {end - 1}, which leads nowhere); "
                "leave it out of the kernel"
            )
        edge = max(edges, key=lambda n: flow[n] * seen[block] / max(visits[block], _NONE) - taken[n])
        if block in ways.calls:
            callers.append(ways.calls[block])
        target = callers.pop() if block in ways.callees and callers else ways.edges[edge][1]
        taken[edge] += 1
        before, block = block, target
    return np.concatenate([np.arange(first, end, dtype=np.uint32) for first, end in path])


def _loops(ways: Graph, flow: npt.NDArray[np.float64], visits: Sequence[float]) -> dict[int, _Loop]:
    found: dict[int, _Loop] = {}
    for number, (source, target) in enumerate(ways.edges):
        if target != END and target <= source and flow[number] > _NONE and source not in ways.callees:
            known = found.setdefault(target, _Loop(source))
            known.last = max(known.last, source)
    for head, loop in found.items():
        loop.turns = visits[head]
        outside = (n for n in ways.into(head) if not head <= ways.edges[n][0] <= loop.last)
        loop.entered = sum(flow[n] for n in outside) + (head == 0)
    return found


def _open(ways: Graph, loops: Mapping[int, _Loop], block: int, edges: list[int]) -> list[int]:
    """Of a block's edges those that its loops allow: back while turns are left, then out."""
    for head in sorted((h for h, loop in loops.items() if h <= block <= loop.last), reverse=True):
        staying = [n for n in edges if head <= ways.edges[n][1] <= loops[head].last]
        if len(staying) < len(edges):
            leaving = [n for n in edges if n not in staying]
            return staying if loops[head].left > 0 and staying else leaving
    return edges
