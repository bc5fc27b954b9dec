"""Loads that the compiler moved out of a loop, or merged from two branches, have line 0: the source reads at their use.

So such a load gets the place of the first instruction after it that needs its value and has a line. Source: LLVM, "How
to Update Debug Info", which drops the line of what is moved between blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from tilewright.simulate.ptx.substitution import parts
from tilewright.simulate.ptx.tree import Address, Instruction, Label, Location, Operand, Register


def placed(body: list[Instruction | Label], moved: set[int]) -> None:
    """Place the loads among the moved instructions, given by their indices, in a function's body.

    One pass from the end. What a moved instruction reads is used where its result is.

    >>> from tilewright.simulate.ptx import parse
    >>> text = '''.version 8.0 .target sm_90 .file 1 "k.cu"
    ... .entry k(.param .u64 p) { .reg .f32 %f<4>; .reg .b64 %rd<2>; .loc 1 3 1
    ... ld.param.u64 %rd1, [p]; .loc 1 0 1
    ... ld.global.f32 %f1, [%rd1]; .loc 1 7 1
    ... add.f32 %f2, %f1, %f1; ret; }'''
    >>> [item.location.line for item in parse(text).functions["k"].body]
    [3, 7, 7, 7]
    """
    uses: dict[str, tuple[int, Location | None]] = {}  # of a register's value: the first below that is not moved
    for at in range(len(body) - 1, min(moved, default=len(body)) - 1, -1):
        item = body[at]
        if not isinstance(item, Instruction) or not item.operands:
            continue
        first: tuple[int, Location | None] | None = (at, item.location)
        if at in moved:
            results = _registers(item.operands[:1]) & uses.keys()
            first = min((uses[name] for name in results), key=itemgetter(0), default=None)
            if first and first[1] and any(isinstance(operand, Address) for operand in item.operands[1:]):
                body[at] = replace(item, location=first[1])
        if first:
            stores = isinstance(item.operands[0], Address)
            for name in _registers(item.operands[not stores :]):
                uses[name] = min(first, uses.get(name, first), key=itemgetter(0))


def _registers(operands: Sequence[Operand]) -> set[str]:
    return {part.name for operand in operands for part in parts(operand) if isinstance(part, Register)}
