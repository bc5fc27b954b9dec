"""How often each part of the machine code runs.

The SIMT machine runs PTX and counts each of its instructions. The assembler says which line of PTX each machine
instruction comes from; it unrolls loops, duplicates and moves code. So how often a block of machine code runs is
estimated: the flow through the graph of blocks that agrees best with the counts of the instructions that stand for one
of PTX each. Differences count as they are, not squared, so the few that the assembler merged do not matter. Where
several flows agree, as with a loop that is kept unrolled and as it was, the one of the fewest instructions is taken:
code is unrolled to be used. What a warp's path is then, :mod:`tilewright.prediction.walk` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.prediction import opcodes
from tilewright.prediction.deadline import Deadline
from tilewright.prediction.linear import Equation, least
from tilewright.programs.disassembler import Instruction

#: What differences cost: of an instruction counted one each, and of another; and what an instruction costs.
_COUNTED, _NEAR, _SHORT = 1.0, 0.03, 1e-6
#: So much of it counts for lines that stand in several blocks, as copies or as parts that follow one another.
_SPLIT = 0.05
#: What going back costs: of two flows that agree equally well, a warp enters a loop wherever it comes by.
_BACK = 1e-8
NONE = 1e-6  #: Less is no flow.
END = -1
#: Of all work, the part that warps may have done which count as idle.
_IDLE = 0.1
_LEAVES = ("branch", "call", "exit", "return")


Flow = npt.NDArray[np.float64]


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
        if opcodes.row(one.name).flow == "indirect":
            raise CompileError(f"a predicted kernel must branch to known places (got {one.opcode}); avoid jump tables")
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
    return Graph(blocks, tuple(_edges(code, blocks)), MappingProxyType(calls), frozenset(callees))


def _edges(code: Sequence[Instruction], blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = {first: number for number, (first, _) in enumerate(blocks)}
    for number, (_, end) in enumerate(blocks):
        last = code[end - 1]
        flow = opcodes.row(last.name).flow
        leaves = flow in ("exit", "return") or (flow in _LEAVES and last.target is not None)
        if flow == "return":
            yield from ((number, at[back]) for back in _returns(code, end - 1) if back in at)
        elif leaves:
            yield number, END if last.target is None else at[last.target]
        if end in at and not (leaves and last.always):
            yield number, at[end]


def _returns(code: Sequence[Instruction], ret: int) -> list[int]:
    """Where a return may go: behind each call of the code that it stands in, which begins at the last target before."""
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

    Loops that turn and that no way leads to are entered: a warp comes into each at least once.

    Parameters
    ----------
    code, ways
        The machine code, and its graph.
    executed : mapping of int to float
        How often a warp executes the PTX instruction of each line.
    ptx : mapping of int to str
        The opcode that stands on each line, without modifiers: which machine instruction is one of its kind, and not a
        part of a division.
    deadline : Deadline
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
    """Which share of the warps does not end at the kernel's guard, and how often one of these takes each edge.

    A mean of warps that work and of warps that have nothing to do would be neither. The guard is what leaves the kernel
    before any loop; where what ends there has done a good part of all work, it is none.

    Examples
    --------
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


_Wanted = tuple[Mapping[int, float], float, float]  # factors of edges, their sum, and what a difference of 1 costs


def _wanted(
    code: Sequence[Instruction], ways: Graph, executed: Mapping[int, float], ptx: Mapping[int, str]
) -> Iterator[_Wanted]:
    """What the counts say of the edges."""
    outs = [ways.out(block) for block in range(len(ways.blocks))]
    one_each, near = _places(code, ways, executed, ptx)
    for places, weight in ((one_each, _COUNTED), (near, _NEAR)):
        for parts, counts in _alike(places, executed):
            middle = float(np.median(counts))
            factors = {edge: copies for block, copies in parts.items() for edge in outs[block]}
            sure = 1.0 if weight == _COUNTED or len(parts) == 1 else _SPLIT
            yield factors, middle, sure * weight * len(counts) / max(1.0, middle) ** 0.5


def _agreeing(ways: Graph, wanted: Sequence[_Wanted], deadline: Deadline) -> npt.NDArray[np.float64]:
    """The flow whose differences from what is wanted cost least."""
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
        equations.append(({**parts, len(costs): 1.0, len(costs) + 1: -1.0}, total))  # what is missing, or too much
        costs += [weight, weight]
    return least(costs, equations, deadline)[: len(ways.edges)]


_Places = dict[int, dict[int, float]]


def _places(
    code: Sequence[Instruction], ways: Graph, executed: Mapping[int, float], ptx: Mapping[int, str]
) -> tuple[_Places, _Places]:
    """By line of PTX, how many of its copies stand in each block: of instructions one each, and of the others.

    Of the others only lines of which no block is unrolled.
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
    """The counts of lines that stand in the same blocks equally often, together."""
    groups: dict[tuple[tuple[int, float], ...], list[float]] = {}
    for line, parts in places.items():
        groups.setdefault(tuple(sorted(parts.items())), []).append(executed[line])
    return [(dict(parts), counts) for parts, counts in groups.items()]
