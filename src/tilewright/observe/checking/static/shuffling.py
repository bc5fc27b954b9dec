"""TW405: the shuffles that a kernel's stores depend on, so that the instrument need not follow every register.

A shuffle counts only if every lane that gets its result also uses it. After a choice (`selp`, a guarded instruction, a
value set on two paths), a lane may ignore a result that it should not use.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ground.dominance import post_dominators
from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.shuffles import CHAINS, Link
from tilewright.simulate.isa import Role
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Block, Op


def followed(values: Values) -> tuple[dict[int, Link], dict[int, tuple[int, ...]]] | None:
    """What `Shuffles` follows in a kernel: shuffles and stores, by PTX line; None if no shuffle's result is stored."""
    moves = [op for op in values.ops if op.form.row.role is Role.SHUFFLE]
    if not moves:
        return None
    sources = {each: _source_shuffles(values, each) for each in {*map(_moved, moves)}}
    before = {id(op): sources[_moved(op)] for op in moves}
    chains = _chains(moves, before)
    used = _Uses(values)
    links = {
        op.instruction.ptx_line: Link(chains[id(op)], not before[id(op)])
        for op in moves
        if chains[id(op)] < CHAINS and used.always(op)
    }
    stores = {}
    for op in values.ops:
        if op.form.row.stores:
            stored = {chains[key] for key in _source_shuffles(values, op.reads)}
            followed = tuple(sorted(chain for chain in stored if chain < CHAINS))
            if followed:
                stores[op.instruction.ptx_line] = followed
    return (links, stores) if links and stores else None


def _moved(op: Op) -> tuple[str, ...]:
    """The register that a shuffle reads from other lanes."""
    source = op.sources[0]
    return (source.name,) if isinstance(source, tree.Register) else ()


def _source_shuffles(values: Values, registers: tuple[str, ...]) -> set[int]:
    return {id(op) for op in values.origins(registers) if op.form.row.role is Role.SHUFFLE}


def _chains(moves: list[Op], before: dict[int, set[int]]) -> dict[int, int]:
    """A number for each shuffle; shuffles that read each other's results share one."""
    groups: list[set[int]] = []
    for op in moves:
        joined = {id(op)} | before[id(op)]
        apart = [group for group in groups if not group & joined]
        groups = [*apart, joined.union(*(group for group in groups if group & joined))]
    return {key: number for number, group in enumerate(groups) for key in group}


class _Uses:
    """The uses of each register, and the code that every lane reaches."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._block = {id(op): block.index for block, op in _instructions(values)}
        self._certain = post_dominators([block.successors for block in values.graph.blocks])

    def always(self, move: Op) -> bool:
        """Whether a shuffle's result reaches other shuffles or stores with no choice on the way."""
        here, waiting, seen, sinks = self._block[id(move)], list(move.destinations[:1]), {id(move)}, 0
        while waiting:
            for op in self._values.readers.get(waiting.pop(), ()):
                row = op.form.row
                if row.role is Role.SHUFFLE or row.stores:
                    sinks += 1
                elif row.role is Role.CHOOSE or (op.guard is not None and op.writes):
                    return False
                elif id(op) not in seen and row.role is not Role.COMPARE:
                    seen.add(id(op))
                    certain = self._certain[here] >> self._block[id(op)] & 1
                    if not certain and any(len(self._values.writers[register]) > 1 for register in op.writes):
                        return False
                    waiting += op.writes
        return sinks > 0


def _instructions(values: Values) -> Iterator[tuple[Block, Op]]:
    for block in values.graph.blocks:
        for op in (*block.ops, *([block.end] if block.end else [])):
            yield block, op
