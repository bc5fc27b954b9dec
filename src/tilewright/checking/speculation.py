"""Loads that a compiler moved ahead of the question whether their result is needed."""

from __future__ import annotations

from typing import Any

from tilewright.simt.ptx.tree import Instruction, Module, Register, Vector


def speculated(module: Module, ptx_line: int) -> bool:
    """Whether a load's results are only chosen from by `selp`: compilers load ahead what they may not need."""
    for function in module.functions.values():
        load = next((i for i in function.body if isinstance(i, Instruction) and i.ptx_line == ptx_line), None)
        if load is None or not load.operands:
            continue
        into = load.operands[0]
        names = {r.name for r in (into.items if isinstance(into, Vector) else (into,)) if isinstance(r, Register)}
        uses = [i for i in function.body if isinstance(i, Instruction) and i is not load and names & _read(i)]
        return bool(uses) and all(i.opcode == "selp" and not names & _named(i.operands[3]) for i in uses)
    return False


def _read(instruction: Instruction) -> set[str]:
    """Registers that an instruction reads, or, for all that is said here, may read."""
    sources = instruction.operands if instruction.opcode in ("st", "red", "bra") else instruction.operands[1:]
    guard = {instruction.guard.register.name} if instruction.guard else set()
    return guard.union(*(_named(operand) for operand in sources))


def _named(operand: Any) -> set[str]:
    """Registers in an operand."""
    if isinstance(operand, Register):
        return {operand.name}
    parts = [getattr(operand, "base", None), getattr(operand, "operand", None), *getattr(operand, "items", ())]
    return set().union(*(_named(part) for part in parts if part is not None))
