"""Loads whose value some threads do not use: all that it can reach is stores that these threads leave out.

Compilers of tiles have every thread load, and one thread store, where a tile has fewer elements than the block has
threads. The other threads' loads race with that store, but no result depends on them. Which threads leave a store out
follows from its guard and from the branches before it, as far as these depend on the thread's index alone. A value that
decides a branch can reach all that lies on one of its ways only. A value that lanes exchange, as they do for a sum, is
used by the lane that stores the result, or else by its whole warp.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.dominance import post_dominators
from tilewright.observe.checking.static.values import Values
from tilewright.simulate.isa import Linear, Role
from tilewright.simulate.machine.gpu import WARP_LANES
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Block, Op

_Threads = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]
#: The threads for which a predicate is known to be true, and those for which it is known to be false.
_Known = tuple[_Threads, _Threads]

#: What is computed of threads' indices; numbers are below 2^31, so that signs make no difference.
_ARITHMETIC: dict[Linear, Callable[..., Any]] = {
    Linear.MOVE: lambda a: a,
    Linear.CVT: lambda a: a,
    Linear.ADD: operator.add,
    Linear.SUB: operator.sub,
    Linear.MUL: operator.mul,
    Linear.MUL_WIDE: operator.mul,
    Linear.MAD: lambda a, b, c: a * b + c,
    Linear.MAD_WIDE: lambda a, b, c: a * b + c,
    Linear.SHL: lambda a, b: a << np.minimum(b, 31),
    Linear.SHR: lambda a, b: a >> np.minimum(b, 31),
    Linear.AND: operator.and_,
    Linear.OR: operator.or_,
}
_COMPARED: dict[str, Callable[..., Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_MOST = 1 << 31
#: Instructions whose result depends on their own thread's operands alone, besides those with a `Linear`.
_ROLES = (
    Role.COPY, Role.CONVERT, Role.COMPARE, Role.CHOOSE, Role.PIECE, Role.SUM, Role.PRODUCT, Role.MULTIPLY_ADD,
    Role.FUNCTION, Role.SIGN, Role.BITWISE, Role.LEAST, Role.GREATEST,
)  # fmt: skip
#: Instructions whose result depends on the operands of the other lanes too.
_OF_WARP = (Role.SHUFFLE, Role.AGREE)
#: On which lanes' loads a register of each lane depends: a row of bits for each lane, those of lane 0 the lowest.
_ROW = (1 << WARP_LANES) - 1
_ALL = (1 << WARP_LANES * WARP_LANES) - 1
_EACH_ITS_OWN = sum(1 << (WARP_LANES + 1) * lane for lane in range(WARP_LANES))
#: A load that orders other accesses, or is ordered, is meant for other threads.
_STRONG = ("volatile", "relaxed", "acquire", "mmio")


def threads(values: Values, block: tuple[int, int, int]) -> dict[int, _Threads]:
    """For each PTX line of loads of global memory that some threads of a block do not use: these threads.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 x) { .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ... ld.param.u64 %rd1, [x];
    ... ld.global.u32 %r1, [%rd1];
    ... mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0;
    ... @%p1 st.global.u32 [%rd1], %r1; ret; }'''
    >>> {line: int(idle.sum()) for line, idle in threads(of_kernel(text, "k"), (64, 1, 1)).items()}
    {4: 63}
    """
    loads = [op for op in values.ops if _is_load(op)]
    paths = _Paths(values, block) if loads else None
    found: dict[int, _Threads] = {}
    for op in loads:
        assert paths is not None
        idle = ~paths.users(op)
        line = op.instruction.ptx_line  # one for each place that its function is inlined at
        found[line] = found[line] & idle if line in found else idle
    return {line: idle for line, idle in found.items() if idle.any()}


def _is_load(op: Op) -> bool:
    form = op.form
    plain = form.row.access == "load" and bool(op.writes) and form.has("global")
    return plain and not any(map(form.has, _STRONG))


def _is_store(op: Op) -> bool:
    return op.form.row.stores or op.form.row.access == "atomic"


def is_own(op: Op) -> bool:
    """Whether an instruction only computes its thread's registers from its thread's registers."""
    row = op.form.row
    return not row.access and (row.linear is not Linear.NONE or row.role in _ROLES)


def _lanes_of(op: Op) -> tuple[int, ...] | None:
    """The lane from which each lane gets the result of an operation of the warp; None: it may be any."""
    at, *clamp = op.sources[1:3] if op.form.row.role is Role.SHUFFLE else [None]
    given = [one.value for one in (at, *clamp) if isinstance(one, tree.Immediate) and one.kind == "int"]
    if len(given) != 2:
        return None
    by, limit = given[0] % WARP_LANES, given[1]
    inside, last = limit >> 8 & WARP_LANES - 1, limit & WARP_LANES - 1
    found = []
    for lane in range(WARP_LANES):
        end = lane & inside | last & ~inside
        if op.form.has("up"):
            other = lane - by if lane - by >= end else lane
        else:
            first = by & ~inside | lane & inside
            other = first if op.form.has("idx") else lane + by if op.form.has("down") else lane ^ by
        found.append(lane if not op.form.has("up") and other > end else other)
    return tuple(found)


def _after(op: Op, depends: int) -> int:
    """On which lanes' loads each lane's result depends, where its operands depend on some: see `_ROW`."""
    if op.form.row.role not in _OF_WARP:
        return depends
    lanes = _lanes_of(op)
    if lanes is None:
        return _ALL
    return sum((depends >> WARP_LANES * of & _ROW) << WARP_LANES * lane for lane, of in enumerate(lanes))


def _sources(threads: _Threads, depends: int) -> _Threads:
    """The threads on whose loads the values of some threads depend."""
    lanes = np.pad(threads, (0, -threads.size % WARP_LANES)).reshape(-1, WARP_LANES)
    bits = np.frombuffer(depends.to_bytes(WARP_LANES * WARP_LANES // 8, "little"), np.uint8)
    of = np.unpackbits(bits, bitorder="little").reshape(WARP_LANES, WARP_LANES)
    sources: _Threads = (lanes.astype(np.uint8) @ of).reshape(-1) != 0
    return sources[: threads.size]


class _Paths:
    """Which threads of a block may execute each instruction."""

    def __init__(self, values: Values, block: tuple[int, int, int]) -> None:
        self._values = values
        x, y, z = block
        number = np.arange(x * y * z)
        self._special = {
            "%tid.x": number % x, "%tid.y": number // x % y, "%tid.z": number // (x * y),
            "%ntid.x": np.full_like(number, x), "%ntid.y": np.full_like(number, y), "%ntid.z": np.full_like(number, z),
            "%laneid": number % 32,
        }  # fmt: skip
        self._none = np.zeros(number.size, bool)
        self._numbers: dict[int, _Numbers | None] = {}
        self._place = {
            id(op): (block, at)
            for block in values.graph.blocks
            for at, op in enumerate((*block.ops, *([block.end] if block.end else [])))
        }
        self._deciding: dict[str, list[Block]] = {}
        for one in values.graph.blocks:
            if one.predicate:
                self._deciding.setdefault(one.predicate, []).append(one)
        self._regions: dict[int, list[Op]] = {}
        self._certain = post_dominators([one.successors for one in values.graph.blocks])
        self._reached = self._reach(values.graph.blocks)

    def users(self, load: Op) -> _Threads:
        """The threads that may use a load's value: a store, a branch, an address or another thread may depend on it."""
        used = self._none.copy()
        depends = dict.fromkeys(load.writes, _EACH_ITS_OWN)
        waiting = list(load.writes)
        while waiting:
            register = waiting.pop()
            decided = [op for block in self._deciding.get(register, ()) for op in self._between(block)]
            readers = [op for op in self._values.readers.get(register, ()) if op.form.row.role is not Role.JUMP]
            for op in (*decided, *readers):
                if _is_store(op):
                    used |= _sources(self._executing(op), depends[register])
                    continue
                guarded = op.guard is not None and op.guard.register.name == register
                whole = op.form.row.role in _OF_WARP and not guarded and op in readers
                if not (is_own(op) or whole or (_is_load(op) and op not in readers)):
                    return ~self._none
                through = _after(op, depends[register])
                for written in op.writes:
                    before = depends.get(written, 0)
                    if through & ~before:
                        depends[written] = before | through
                        waiting.append(written)
        return used

    def _between(self, block: Block) -> list[Op]:
        """The instructions that a branch decides on: up to where its ways meet; in a loop, itself too."""
        if block.index in self._regions:
            return self._regions[block.index]
        blocks, found = self._values.graph.blocks, self._regions.setdefault(block.index, [])
        waiting, seen = list(block.successors), set[int]()
        while waiting:
            one = blocks[waiting.pop()]
            if one.index not in seen and not (one is not block and self._certain[block.index] >> one.index & 1):
                seen.add(one.index)
                waiting += one.successors
                ends = one.end is not None and (one is block or one.kind not in ("jump", "branch", "exit"))
                found += [*one.ops, *([one.end] if one.end is not None and ends else [])]
        return found

    def _executing(self, op: Op) -> _Threads:
        """The threads that may execute an instruction."""
        block, at = self._place[id(op)]
        reached = self._reached[block.index]
        if op.guard is None:
            return reached
        true, false = self._predicate(op.guard.register.name, block, at)
        return reached & ~(true if op.guard.negated else false)

    def _reach(self, blocks: list[Block]) -> list[_Threads]:
        """The threads that may come to each block, computed to a fixed point."""
        reached = [self._none.copy() for _ in blocks]
        reached[0] |= True
        waiting = [0]
        while waiting:
            block = blocks[waiting.pop()]
            for number, successor in enumerate(block.successors):
                through = reached[block.index]
                if block.kind == "branch":
                    true, false = self._predicate(block.predicate, block, len(block.ops))
                    through = through & ~(true if (number == 0) is block.negated else false)
                if (through & ~reached[successor]).any():
                    reached[successor] |= through
                    waiting.append(successor)
        return reached

    def _writer(self, register: str, block: Block, before: int) -> Op | None:
        """The instruction that gives a register its value at a place in a block; None if it may be one of several.

        That is the last one before in the block, or else the only one of all.
        """
        own = (op for op in reversed(block.ops[:before]) if register in op.writes)
        writers = self._values.writers.get(register, [])
        writer = next(own, writers[0] if len(writers) == 1 else None)
        return writer if writer is not None and writer.guard is None else None

    def _predicate(self, register: str, block: Block, before: int) -> _Known:
        """The threads for which a predicate is true, and false, at a place in a block, whatever is not known."""
        op = self._writer(register, block, before)
        if op is None or len(op.destinations) != 1:
            return self._none, self._none
        place = self._place[id(op)]
        parts = op.instruction.name.split(".")[1:]
        if op.form.row.role is Role.COMPARE and len(op.sources) == 2 and parts[0] in _COMPARED:
            a, b = (self._number(source, *place) for source in op.sources)
            if a is not None and b is not None:
                result = _COMPARED[parts[0]](a, b)
                return result, ~result
        elif parts == ["pred"] and all(isinstance(source, tree.Register) for source in op.sources):
            names = [source.name for source in op.sources if isinstance(source, tree.Register)]
            match op.form.row.linear, op.form.row.role, [self._predicate(name, *place) for name in names]:
                case Linear.AND, _, [a_, b_]:
                    return a_[0] & b_[0], a_[1] | b_[1]
                case Linear.OR, _, [a_, b_]:
                    return a_[0] | b_[0], a_[1] & b_[1]
                case _, Role.BITWISE, [a_]:
                    return a_[1], a_[0]
                case Linear.MOVE, _, [a_]:
                    return a_
        return self._none, self._none

    def _number(self, operand: tree.Operand, block: Block, before: int) -> _Numbers | None:
        """An operand's value at a place for each thread; None unless it follows from the thread's index alone."""
        if isinstance(operand, tree.Immediate):
            return np.full(self._none.size, operand.value) if operand.kind == "int" else None
        if not isinstance(operand, tree.Register):
            return None
        if operand.name in self._special:
            return self._special[operand.name]
        op = self._writer(operand.name, block, before)
        if op is None:
            return None
        if id(op) not in self._numbers:
            self._numbers[id(op)] = None  # while it depends on itself
            self._numbers[id(op)] = self._computed(op)
        return self._numbers[id(op)]

    def _computed(self, op: Op) -> _Numbers | None:
        if op.form.row.linear not in _ARITHMETIC or op.form.has("hi") or "f" in op.form["type"]:
            return None
        sources = [self._number(source, *self._place[id(op)]) for source in op.sources]
        if len(op.destinations) != 1 or any(source is None for source in sources):
            return None
        result: _Numbers = _ARITHMETIC[op.form.row.linear](*sources)
        return result if ((result >= 0) & (result < _MOST)).all() else None
