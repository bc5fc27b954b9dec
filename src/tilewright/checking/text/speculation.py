"""Loads that a compiler moved ahead of the question whether their result is needed."""

from __future__ import annotations

from tilewright.checking.text.values import Values
from tilewright.simt.isa import Role
from tilewright.simt.translate.graph import registers_of


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
