"""Loops that poll memory until another thread changes it, as a barrier of the grid does.

The number of polls depends on the order in which warps run here, so a prediction counts one for each time that a warp
comes to such a loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ground.native.memo import bounded
from tilewright.simulate.isa import Role
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.programs.program import Program
from tilewright.simulate.translate.analysis.graph import Block, Op, build, is_strong

#: Instructions after which a loop is more than a wait.
_ACTS = frozenset({Role.CALL, Role.RETURN, Role.EXIT, Role.TRAP, Role.WARPGROUP, Role.TENSOR_MEMORY})


def polled_once(program: Program, executed: Mapping[int, float]) -> dict[int, float]:
    """How often each line of PTX is executed, with each line of a polling loop at most as often as the loop is entered.

    `executed`: the same with all polls, by PTX line.
    """
    found = dict(executed)
    for loop, before in _loops(program.ptx, program.entry):
        entered = sum(max((executed.get(line, 0.0) for line in block), default=0.0) for block in before)
        found |= {line: min(found[line], entered) for line in loop if line in found}
    return found


@bounded(64)
def _loops(ptx: str, entry: str) -> tuple[tuple[list[int], list[list[int]]], ...]:
    """The lines of each polling loop of a kernel, and those of each block from which it is entered."""
    graph = build(parsed(ptx).functions[entry], entry)
    found = []
    for tail, header in graph.back_edges:
        loop = graph.blocks[header : tail + 1]
        if header in graph.spin_headers and _polls(loop):
            before = [one for one in graph.blocks if header in one.successors and not header <= one.index <= tail]
            found.append(([line for block in loop for line in _lines(block)], [_lines(block) for block in before]))
    return tuple(found)


def _lines(block: Block) -> list[int]:
    return [op.instruction.ptx_line for op in _instructions(block)]


def _instructions(block: Block) -> list[Op]:
    return [*block.ops, block.end] if block.end is not None else block.ops


def _polls(loop: list[Block]) -> bool:
    """Whether a loop only reads, at addresses that stay the same."""
    ops = [op for block in loop for op in _instructions(block)]
    acts = any(op.form.row.access in ("store", "atomic") or op.form.row.role in _ACTS for op in ops)
    if acts or any(block.kind == "barrier" for block in loop):
        return False
    loads = [op for op in ops if op.form.row.access == "load"]
    return any(is_strong(op.form) for op in loads) and not any(_changing(ops) & set(op.reads) for op in loads)


def _changing(ops: list[Op]) -> set[str]:
    """The registers whose value may differ from one turn of a loop to the next."""
    changing = {name for op in ops for name in op.writes}
    while True:
        same = {name for op in ops if not (op.form.row.access or changing & set(op.reads)) for name in op.writes}
        written_twice = {name for name in same if sum(name in op.writes for op in ops) > 1}
        if not (settled := (same & changing) - written_twice):
            return changing
        changing -= settled
