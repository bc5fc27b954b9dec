"""TW204: registers that hold no value on any path to where they are read.

A value that is only copied is not used yet: compilers copy what a variable holds before it is set wherever that costs
nothing. So a result counts as set as soon as one path can set it, and what is reported was never set on any.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.checking.text.values import Values
from tilewright.instruments.findings import Finding
from tilewright.ptx import tree
from tilewright.simt.isa import Role
from tilewright.simt.translate.graph import Op, registers_of

#: Instructions that pass a value on, or may choose another one: their result is set as soon as one source is.
_PASSING = (Role.COPY, Role.CHOOSE, Role.PIECE)


def findings(values: Values, kernel: str) -> list[Finding]:
    """A finding for each first use of a register that nothing has set before.

    >>> from tilewright.checking.text.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 out) { .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ... ld.param.u64 %rd1, [out];
    ... add.s32 %r2, %r1, 1;
    ... st.global.u32 [%rd1], %r2; ret; }'''
    >>> [(f.ptx_line, f.message) for f in findings(of_kernel(text, "k"), "k")]
    [(4, '`add.s32` reads %r1, which no path to it sets')]
    """
    used = {id(op): (op, unset) for op, unset in _uses(values)}
    tainted = {register for op, _ in used.values() for register in op.writes}
    found = []
    for op, unset in used.values():
        # What follows from another use is not reported again; a sum that is never set begins with itself.
        follows = [o for r in unset & tainted for o in values.origins([r]) if id(o) in used and o is not op]
        if any(other.instruction.ptx_line < op.instruction.ptx_line for other in follows):
            continue
        found.append(values.finding("TW204", op, kernel, {"registers": sorted(unset)}))
    return found


def _uses(values: Values) -> Iterator[tuple[Op, set[str]]]:
    """Instructions that do something with registers that hold no value there, and these registers."""
    known = _known_at_blocks(values)
    for block in values.graph.blocks:
        here = set(known[block.index])
        for op in (*block.ops, *([block.end] if block.end else [])):
            unset = set(_used(op)) - here
            if unset and not _passes(op):
                yield op, unset
            _follow(op, here)


def _known_at_blocks(values: Values) -> list[set[str]]:
    """For each block the registers that some path to it has set, to a fixed point."""
    blocks = values.graph.blocks
    known: list[set[str]] = [set() for _ in blocks]
    waiting = list(range(len(blocks)))[::-1]
    while waiting:
        index = waiting.pop()
        here = set(known[index])
        for op in blocks[index].ops:
            _follow(op, here)
        for successor in blocks[index].successors:
            if not here <= known[successor]:
                known[successor] |= here
                if successor not in waiting:
                    waiting.append(successor)
    return known


def _follow(op: Op, known: set[str]) -> None:
    """Add what an instruction sets."""
    sources = [r for r in _used(op) if op.guard is None or r != op.guard.register.name]
    missing = [r for r in sources if r not in known]
    if not missing or (_passes(op) and len(missing) < len(set(sources))):
        known.update(op.writes)


def _used(op: Op) -> tuple[str, ...]:
    """The registers whose values count: a product of a warpgroup may begin a sum, and the sum before does not then."""
    if op.form.row.kind != "warpgroup" or not op.form.row.writes:
        return op.reads
    given = op.named
    scale = given["scale"]
    keeps = isinstance(scale, tree.Immediate) and scale.value != 0
    others = (operand for name, operand in given.items() if name != "d")
    return op.reads if keeps else tuple(r for operand in others for r in registers_of(operand))


def _passes(op: Op) -> bool:
    return op.form.row.role in _PASSING


def speculated(values: Values, ptx_line: int) -> bool:
    """Whether a load's results are only chosen from by `selp`: compilers load ahead what they may not need."""
    for load in values.ops:
        if load.instruction.ptx_line == ptx_line and load.writes:
            readers = [op for register in load.writes for op in values.readers.get(register, ())]
            chosen = all(
                op.form.row.role is Role.CHOOSE and not set(registers_of(op.sources[2])) & set(load.writes)
                for op in readers
            )
            return bool(readers) and chosen
    return False
