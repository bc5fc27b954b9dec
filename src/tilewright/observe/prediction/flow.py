"""Estimates how often each part of the machine code runs.

The SIMT machine runs PTX and counts each of its instructions. The assembler says which PTX line each machine
instruction comes from; but it unrolls loops, and duplicates and moves code. So the frequency of a machine-code block is
an estimate: the flow through the block graph that agrees best with the counts of those instructions that correspond to
one PTX instruction each. Differences count linearly, not squared, so the few that the assembler merged do not matter.
If several flows agree, for example for a loop kept both unrolled and rolled, the one with the fewest instructions wins:
the unrolled code is there to be used. :mod:`tilewright.observe.prediction.walk` turns the flow into a warp's path.

Lanes that take different sides of a branch run one side after the other. So the graph has an edge more where the first
side reaches the place at which the lanes meet: to the start of the second side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.ground.dominance import post_dominators
from tilewright.observe.prediction import opcodes
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.linear import Equation, least
from tilewright.simulate.programs.disassembler import Instruction

#: Cost of a difference: for an instruction counted one to one, and for another; and the cost of each instruction.
_COUNTED, _NEAR, _SHORT = 1.0, 0.03, 1e-6
#: Factor of these for lines in several blocks, as copies or as parts that follow one another.
_SPLIT = 0.05
#: Cost of a back edge: of two flows that agree equally, this chooses the loop entry on the warp's way.
_BACK = 1e-8
NONE = 1e-6  #: Smaller values count as no flow.
END = -1
#: Largest share of the work of warps that count as idle.
_IDLE = 0.1
#: A branch back for the next of the lanes that give orders to tensor memory. A path has the orders of all at once.
_LANES = ".U.ANY"
#: A branch of lanes that are apart, such as that of `__syncwarp`. The lanes of a path are together.
_APART = "BRA.DIV"
_LEAVES = ("branch", "call", "exit", "return")


Flow = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Graph:
    """Blocks of machine code, and the edges between them."""

    blocks: tuple[tuple[int, int], ...]  #: First instruction, and the one after the last.
    edges: tuple[tuple[int, int], ...]  #: Block numbers; `END` if the warp ends.
    calls: MappingProxyType[int, int]  #: Blocks that call, with the block to which the callee returns.
    callees: frozenset[int]  #: Blocks that end with a return.

    def out(self, block: int) -> list[int]:
        """Indices of the edges that leave a block."""
        return [number for number, (source, _) in enumerate(self.edges) if source == block]

    def outs(self) -> list[list[int]]:
        """The same for each block."""
        found: list[list[int]] = [[] for _ in self.blocks]
        for number, (source, _) in enumerate(self.edges):
            found[source].append(number)
        return found

    def into(self, block: int) -> list[int]:
        """Indices of the edges that enter a block."""
        return [number for number, (_, target) in enumerate(self.edges) if target == block]


def graph(code: Sequence[Instruction]) -> Graph:
    """The graph of machine code, with blocks in code order."""
    heads = {0}
    for number, one in enumerate(code):
        if opcodes.row(one.name).flow == "indirect":
            raise CompileError(f"a predicted kernel must branch to known targets (got {one.opcode}); avoid jump tables")
        if opcodes.row(one.name).flow in _LEAVES:
            heads |= {number + 1} if one.target is None else {number + 1, one.target}
    firsts = sorted(head for head in heads if head < len(code))
    blocks = tuple(zip(firsts, [*firsts[1:], len(code)], strict=True))
    at = {first: number for number, (first, _) in enumerate(blocks)}
    callees = {
        number: _returns(code, end - 1)
        for number, (_, end) in enumerate(blocks)
        if opcodes.row(code[end - 1].name).flow == "return"
    }
    backs = {back for found in callees.values() for back in found if back in at}
    calls = {at[back] - 1: at[back] for back in backs}  # the block before the one it returns to
    edges = tuple(_edges(code, blocks))
    return Graph(blocks, (*edges, *_second_sides(edges, len(blocks))), MappingProxyType(calls), frozenset(callees))


def _edges(code: Sequence[Instruction], blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = {first: number for number, (first, _) in enumerate(blocks)}
    for number, (_, end) in enumerate(blocks):
        last = code[end - 1]
        flow = opcodes.row(last.name).flow
        leaves = flow in ("exit", "return") or (flow in _LEAVES and last.target is not None)
        if flow == "branch" and last.opcode.endswith(_LANES) and last.target is not None and at[last.target] <= number:
            leaves = False
        if last.opcode == _APART:
            leaves = False
        if flow == "return":
            yield from ((number, at[back]) for back in _returns(code, end - 1) if back in at)
        elif leaves:
            yield number, END if last.target is None else at[last.target]
        if end in at and not (leaves and last.always):
            yield number, at[end]


def _second_sides(edges: Sequence[tuple[int, int]], blocks: int) -> list[tuple[int, int]]:
    """The edges of warps that diverge: from the end of one side of a branch to the start of the other.

    The side that comes first in the code runs first, so that no such edge looks like that of a loop.

    >>> _second_sides([(0, 1), (0, 2), (1, 3), (2, 3), (3, END)], 4)
    [(1, 2)]
    """
    after: list[list[int]] = [[] for _ in range(blocks + 1)]  # the last one is the end of the warp
    for source, target in edges:
        after[source].append(blocks if target == END else target)
    behind = post_dominators(after)
    found = []
    for branch, sides in enumerate(after):
        rest = behind[branch] & ~(1 << branch)
        meeting = next((block for block in range(blocks + 1) if behind[block] == rest), None)
        if len(sides) != 2 or meeting is None or meeting in sides:
            continue
        first, second = (_reached(after, side, meeting) for side in sorted(sides))
        if not first & second and branch not in first | second:
            start = max(sides)
            found += [(block, start) for block in sorted(first) if meeting in after[block] and block < start]
    return found


def _reached(after: Sequence[Sequence[int]], start: int, end: int) -> set[int]:
    """The blocks on the ways from one block to another, without the latter."""
    found, waiting = {start}, [start]
    while waiting:
        new = set(after[waiting.pop()]) - found - {end}
        found |= new
        waiting += new
    return found


def _returns(code: Sequence[Instruction], ret: int) -> list[int]:
    """The targets of a return: after each call of its function, which begins at the last call target before it."""
    calls = [
        (one.target, number + 1)
        for number, one in enumerate(code)
        if opcodes.row(one.name).flow == "call" and one.target is not None
    ]
    head = max((target for target, _ in calls if target <= ret), default=None)
    return [back for target, back in calls if target == head]


def frequencies(
    code: Sequence[Instruction],
    ways: Graph,
    executed: Mapping[int, float],
    ptx: Mapping[int, str],
    deadline: Deadline,
) -> npt.NDArray[np.float64]:
    """How often a warp takes each edge.

    A loop with iterations that no other flow leads to still gets an entry: a warp enters each loop at least once.

    `code`, `ways`: the machine code, and its graph. `executed`: how often a warp executes the PTX instruction of each
    line. `ptx`: the opcode on each line, without modifiers. It decides which machine instructions correspond to one PTX
    instruction, and which are part of a division, for example.
    """
    wanted = list(_wanted(code, ways, executed, ptx))
    flow = _agreeing(ways, wanted, deadline)
    for _ in ways.blocks:
        reached = {0}
        while more := {t for (s, t), x in zip(ways.edges, flow, strict=True) if x > NONE and s in reached} - reached:
            reached |= more
        lost = {s for (s, _), x in zip(ways.edges, flow, strict=True) if x > NONE and s not in reached}
        entries = {n: 1.0 for n, (s, t) in enumerate(ways.edges) if t in lost and s not in lost}
        if not entries:
            break
        turning = max(sum(flow[ways.out(block)]) for block in lost)
        wanted.append((entries, min(1.0, turning), _COUNTED))
        flow = _agreeing(ways, wanted, deadline)
    return flow


def working(ways: Graph, flow: Flow) -> tuple[float, Flow]:
    """The share of warps that do not end at the kernel's guard, and how often one of these takes each edge.

    The mean of working and idle warps would describe neither. The guard is an exit before any loop; an exit after a
    good part of all work is no guard.

    >>> edges = ((0, END), (0, 1), (1, 1), (1, 2), (2, END))
    >>> ways = Graph(((0, 4), (4, 8), (8, 9)), edges, MappingProxyType({}), frozenset())
    >>> working(ways, np.array([0.75, 0.25, 24.75, 0.25, 0.25]))
    (0.25, array([ 0.,  1., 99.,  1.,  1.]))
    """
    lengths = [end - first for first, end in ways.blocks]
    work = sum(x * lengths[source] for (source, _), x in zip(ways.edges, flow, strict=True))
    way: list[int] = []
    left: list[int] = []
    block, idle = 0, 0.0
    while True:
        outs = [n for n in ways.out(block) if flow[n] > NONE]
        on = [n for n in outs if ways.edges[n][1] > block]
        if len(on) != 1 or any(ways.edges[n][1] != END for n in outs if n not in on):
            break
        left += [n for n in outs if n not in on]
        way, block = [*way, *on], ways.edges[on[0]][1]
        idle += sum(flow[n] for n in outs if n not in on) * (ways.blocks[block][0] - ways.blocks[0][0])
    share = 1.0 - float(sum(flow[left]))
    if not left or share <= NONE or idle > _IDLE * work:
        return 1.0, flow
    found = flow / share
    found[left], found[way] = 0.0, 1.0
    return share, found


_Wanted = tuple[Mapping[int, float], float, float]  # factors of edges, their sum, cost of a difference of 1


def _wanted(
    code: Sequence[Instruction], ways: Graph, executed: Mapping[int, float], ptx: Mapping[int, str]
) -> Iterator[_Wanted]:
    """The equations of the edges that follow from the counts."""
    outs = ways.outs()
    one_each, near = _places(code, ways, executed, ptx)
    for places, weight in ((one_each, _COUNTED), (near, _NEAR)):
        for parts, counts in _alike(places, executed):
            middle = float(np.median(counts))
            factors = {edge: copies for block, copies in parts.items() for edge in outs[block]}
            sure = 1.0 if weight == _COUNTED or len(parts) == 1 else _SPLIT
            yield factors, middle, sure * weight * len(counts) / max(1.0, middle) ** 0.5


def _agreeing(ways: Graph, wanted: Sequence[_Wanted], deadline: Deadline) -> npt.NDArray[np.float64]:
    """The flow that differs from the requirements at least cost."""
    costs = [
        _SHORT * (ways.blocks[source][1] - ways.blocks[source][0]) + _BACK * (target != END and target <= source)
        for source, target in ways.edges
    ]
    equations: list[Equation] = []
    for block in range(len(ways.blocks)):
        leaves, comes = set(ways.out(block)), set(ways.into(block))
        factors = {edge: 1.0 if edge in leaves else -1.0 for edge in leaves ^ comes}
        equations.append((factors, float(block == 0)))
    for parts, total, weight in wanted:
        equations.append(({**parts, len(costs): 1.0, len(costs) + 1: -1.0}, total))  # shortfall, or excess
        costs += [weight, weight]
    return least(costs, equations, deadline)[: len(ways.edges)]


_Places = dict[int, dict[int, float]]


def _places(
    code: Sequence[Instruction], ways: Graph, executed: Mapping[int, float], ptx: Mapping[int, str]
) -> tuple[_Places, _Places]:
    """For each PTX line, how many copies each block has: of one-to-one instructions, and of the others.

    The others only include lines that no block unrolls.
    """
    one_each: _Places = {}
    near: _Places = {}
    unrolled: set[int] = set()
    for block, (first, end) in enumerate(ways.blocks):
        for one in code[first:end]:
            if ptx.get(one.ptx_line) in opcodes.row(one.name).of and not one.guard:
                parts = one_each.setdefault(one.ptx_line, {})
                parts[block] = parts.get(block, 0.0) + 1
        lines = {one.ptx_line for one in code[first:end] if not one.guard} & set(executed)
        if any(parts.get(block, 0.0) > 1 for parts in one_each.values()):
            unrolled |= lines
        for line in lines:
            near.setdefault(line, {})[block] = 1.0
    return one_each, {line: parts for line, parts in near.items() if line not in unrolled and line not in one_each}


def _alike(places: _Places, executed: Mapping[int, float]) -> list[tuple[dict[int, float], list[float]]]:
    """Merge the counts of lines that are in the same blocks equally often."""
    groups: dict[tuple[tuple[int, float], ...], list[float]] = {}
    for line, parts in places.items():
        groups.setdefault(tuple(sorted(parts.items())), []).append(executed[line])
    return [(dict(parts), counts) for parts, counts in groups.items()]
