"""A scalar interpreter of random kernels: each lane runs alone, in plain Python, until a barrier or a warp instruction.

It reads the tree, not the PTX, and is independent of the machine. Whatever the PTX manual leaves undefined is an
:class:`UndefinedError`, so that a kernel that the interpreter runs has one right result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from kernel_tree import (
    ARRAYS,
    Access,
    Barrier,
    Call,
    Collective,
    Constant,
    Group,
    If,
    Jump,
    Kernel,
    Loop,
    Op,
    Operand,
    Place,
    Statement,
)
from meanings import CLASSES, MEANINGS, RELATIONS, WIDTHS, bits_of, decode, encode
from warp_meanings import collective

#: Each array has its own region of this many bytes; the address contains the region's number.
PIECE = 1 << 40
STEPS = 20_000  #: of one lane


class UndefinedError(Exception):
    """The kernel does what the manual leaves undefined, or does not end."""


_Wait = tuple[Statement, int] | None
_Run = Iterator[Any]


class Lane:
    """One thread: registers by name as unsigned bits, and memory that only it writes, by a map of bytes."""

    def __init__(self, kernel: Kernel, memory: dict[str, bytearray], place: dict[str, int]) -> None:
        self.kernel = kernel
        self.memory = memory
        self.place = place
        self.registers: dict[str, int] = {}
        self.carry = 0
        self.steps = 0
        self.pieces = {name: (i + 1) * PIECE for i, name in enumerate(ARRAYS)} | {"tile": 1 << 20, "own": 1 << 21}

    def start(self) -> Iterator[Any]:
        for name in ARRAYS:
            self.registers["%" + name] = self.pieces[name]
        for name, (_, bits) in self.kernel.scalars.items():
            self.registers["%" + name] = bits
        yield from self.run(self.kernel.body)

    def value(self, operand: Operand) -> int:
        if isinstance(operand, Constant):
            return operand.bits
        if isinstance(operand, Place):
            return self.pieces[operand.name]
        try:
            return self.registers[operand]
        except KeyError:
            if operand in self.place:
                return self.place[operand]
            raise UndefinedError(f"{operand} is read before it is written") from None

    def holds(self, guard: str) -> bool:
        return not guard or bool(self.value(guard.lstrip("!"))) != (guard[0] == "!")

    def run(self, body: Sequence[Statement]) -> Iterator[Any]:
        """Statements in order; returns the jump that left them, or an empty text."""
        for statement in body:
            self.spend()
            match statement:
                case Op():
                    if self.holds(statement.guard):
                        self.op(statement)
                case Access():
                    if self.holds(statement.guard):
                        self.access(statement)
                case Jump():
                    if self.holds(statement.guard):
                        return statement.where
                case Collective():
                    yield from self.collective(statement)
                case Barrier():
                    yield statement, 0, ()
                case Call():
                    yield from self.call(statement)
                case _:
                    if left := (yield from self.nested(statement)):
                        return left
        return ""

    def spend(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise UndefinedError("the lane does not end")

    def nested(self, statement: Statement) -> Iterator[Any]:
        match statement:
            case Group():
                return (yield from self.run(statement.body))
            case If():
                return (yield from self.run(statement.then if self.holds(statement.guard) else statement.otherwise))
            case Loop():
                return (yield from self.loop(statement))
        raise TypeError(statement)

    def op(self, op: Op) -> None:
        if op.name not in MEANINGS:  # a copy of a special register or of a place
            self.registers[op.results[0]] = self.value(op.sources[0])
            return
        meaning = MEANINGS[op.name]
        sources = [decode(self.value(x), t) for x, t in zip(op.sources, meaning.sources, strict=True)]
        if meaning.carry:
            found, self.carry = meaning.function(*sources, self.carry)
        else:
            found = meaning.function(*sources)
        for name, number, type_ in zip(
            op.results, found if isinstance(found, tuple) else (found,), meaning.results, strict=True
        ):
            self.registers[name] = encode(number, type_)

    def access(self, access: Access) -> None:
        array, at = self.found(access)
        size = max(bits_of(access.type_), 8) // 8
        for i, register in enumerate(access.registers):
            where = slice(at + i * size, at + (i + 1) * size)
            held = int.from_bytes(array[where], "little")
            if access.order == "ld":
                wide = WIDTHS[CLASSES[access.type_]] if register[1] in "gfe" else WIDTHS[register[1]]
                self.registers[register] = (
                    decode(held, access.type_) & ((1 << wide) - 1) if access.type_[0] == "s" else held
                )
                continue
            value = self.value(register) & ((1 << 8 * size) - 1)
            if access.order != "st":
                sources = [decode(held, access.type_), decode(value, access.type_)]
                value = encode(MEANINGS[f"{access.order}.{access.type_}"].function(*sources), access.type_)
            array[where] = value.to_bytes(size, "little")

    def found(self, access: Access) -> tuple[bytearray, int]:
        """The array and the place in it; it must lie inside and be aligned."""
        address = (self.pieces[access.base] if access.base in self.pieces else self.value(access.base)) + access.offset
        near = {"shared": ["tile"], "local": ["own"]}.get(access.space, ARRAYS)
        size = max(bits_of(access.type_), 8) // 8 * len(access.registers)
        for name in near:
            at = address - self.pieces[name]
            if 0 <= at <= len(self.memory[name]) - size and at % size == 0:
                if name in ("rows", "cols") and not self.owns(name, at):
                    break
                return self.memory[name], at
        raise UndefinedError(f"{access} is out of bounds, misaligned, or of another thread")

    def owns(self, name: str, at: int) -> bool:
        """Whether a place of an array lies in this thread's share."""
        threads = self.kernel.threads * self.kernel.grid[0]
        here = at // (len(self.memory[name]) // threads) if name == "rows" else at // 4 % threads
        return here == self.place["gid"]

    def loop(self, loop: Loop) -> Iterator[Any]:
        bits = bits_of(loop.kind)

        def test() -> bool:
            a, b = (decode(self.value(x), loop.kind) for x in (loop.counter, loop.bound))
            self.registers[loop.predicate] = int(RELATIONS[loop.relation](a, b))
            return bool(self.registers[loop.predicate])

        def step() -> None:
            self.registers[loop.counter] = (self.value(loop.counter) + loop.step) & ((1 << bits) - 1)

        self.registers[loop.counter] = self.value(loop.start) & ((1 << bits) - 1)
        if loop.form in ("top", "rotated") and not test():
            return ""
        while True:
            left = yield from self.run(loop.body)
            if left == "leave":
                return left
            if left == "break":
                return ""
            goes_on = loop.form == "post" and test()
            step()
            self.spend()
            if not (goes_on if loop.form == "post" else test()):
                return ""

    def call(self, call: Call) -> Iterator[Any]:
        function = self.kernel.functions[call.function]
        arguments = [self.value(x) for x in call.arguments]
        outside, self.registers = self.registers, {}
        self.registers |= {name: x for (name, _), x in zip(function.parameters, arguments, strict=True)}
        yield from self.run(function.body)
        outside[call.result] = self.value(function.result[0])
        self.registers = outside

    def collective(self, op: Collective) -> Iterator[Any]:
        found = yield op, self.value(op.mask), tuple(map(self.value, op.sources))
        for name, value in zip(op.results, found, strict=False):  # a predicate may be left out
            self.registers[name] = value


def run(kernel: Kernel, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays' contents after all blocks."""
    memory = {name: bytearray(arrays[name].tobytes()) for name in ARRAYS}
    for block in range(kernel.grid[0]):
        _block(kernel, memory | {"tile": bytearray(kernel.tile_bytes)}, block)
    return {name: np.frombuffer(memory[name], arrays[name].dtype).reshape(arrays[name].shape) for name in ARRAYS}


def _block(kernel: Kernel, memory: dict[str, bytearray], block: int) -> None:
    runs: dict[int, Iterator[Any]] = {}
    for thread in range(kernel.threads):
        place = {
            "%tid.x": thread % kernel.block[0], "%tid.y": thread // kernel.block[0], "%ntid.x": kernel.block[0],
            "%ntid.y": kernel.block[1], "%ctaid.x": block, "%nctaid.x": kernel.grid[0], "%laneid": thread % 32,
            "%lanemask_lt": (1 << thread % 32) - 1, "%lanemask_ge": (-1 << thread % 32) & 0xFFFFFFFF,
            "gid": block * kernel.threads + thread,
        }  # fmt: skip
        runs[thread] = Lane(kernel, memory | {"own": bytearray(kernel.own_bytes)}, place).start()
    answers: dict[int, Any] = dict.fromkeys(runs)
    waiting: dict[int, tuple[Statement, int, tuple[int, ...]]] = {}
    while runs:
        for thread in list(answers):
            try:
                waiting[thread] = runs[thread].send(answers.pop(thread))
            except StopIteration:
                del runs[thread]
        answers = _met(waiting)
        for thread in answers:
            del waiting[thread]
        if not answers and runs:
            if len(waiting) < kernel.threads or not all(isinstance(w[0], Barrier) for w in waiting.values()):
                raise UndefinedError("lanes wait for lanes that do not come")
            answers = dict.fromkeys(waiting)
            waiting.clear()


def _met(waiting: dict[int, tuple[Statement, int, tuple[int, ...]]]) -> dict[int, Any]:
    """Results of warp instructions at which all lanes of a mask have arrived, by thread."""
    found: dict[int, Any] = {}
    for thread, (op, mask, _) in waiting.items():
        if thread in found or isinstance(op, Barrier):
            continue
        assert isinstance(op, Collective)
        lanes = {lane: thread - thread % 32 + lane for lane in range(32) if mask >> lane & 1}
        there = {lane: waiting[t] for lane, t in lanes.items() if t in waiting}
        if thread % 32 not in lanes:
            raise UndefinedError("a lane is not in its own mask")
        if len(there) == len(lanes) and all(w[0] is op and w[1] == mask for w in there.values()):
            try:
                results = collective(op.name, {lane: w[2] for lane, w in there.items()})
            except KeyError:
                raise UndefinedError("a shuffle reads a lane that is not there") from None
            found |= {lanes[lane]: result for lane, result in results.items()}
    return found
