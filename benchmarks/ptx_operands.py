"""Random changes of PTX operands."""

from __future__ import annotations

import random
from dataclasses import replace

from tilewright.simt.ptx.tree import (
    Address,
    CallArguments,
    Function,
    Immediate,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

#: What immediates become: edges of every width, small numbers, masks, and sizes of the arrays' own order.
EDGES = (0, 1, -1, 2, 4, 31, 32, 33, 64, 255, 4096, 0x7FFF, 0xFFFF, 1 << 20, 0x55555555, 0x7FFFFFFF, 1 << 31,
         -(1 << 31), 0xFFFFFFFF, 1 << 32, -(1 << 32), 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63),
         (1 << 64) - 4)  # fmt: skip

SPECIAL = ("%laneid", "%warpid", "%nwarpid", "%tid.x", "%ntid.y", "%ctaid.x", "%nctaid.z", "%clock", "%clock64",
           "%lanemask_lt", "%smid", "%gridid", "%globaltimer", "%dynamic_smem_size", "%total_smem_size", "%envreg3",
           "%cluster_ctarank", "_")  # fmt: skip


def operands(old: tuple[Operand, ...], function: Function, module: Module, draw: random.Random) -> tuple[Operand, ...]:
    """One operand changed, two exchanged, one dropped or one doubled."""
    if not old:
        return old
    new, at = list(old), draw.randrange(len(old))
    how = draw.random()
    if how < 0.1:
        other = draw.randrange(len(old))
        new[at], new[other] = new[other], new[at]
    elif how < 0.15:
        del new[at]
    elif how < 0.2:
        new.insert(at, new[at])
    else:
        new[at] = operand(new[at], function, module, draw)
    return tuple(new)


def operand(old: Operand, function: Function, module: Module, draw: random.Random) -> Operand:
    """Another operand, of the same kind more often than not."""
    labels = [item.name for item in function.body if isinstance(item, Label)]
    names = [*module.variables, *module.functions, *(v.name for v in function.variables), *labels]
    registers = list(function.registers) or ["%r1"]
    new: Operand = draw.choice(
        (Register(draw.choice((*registers, *SPECIAL))), Immediate(draw.choice(EDGES)), Symbol(draw.choice(names)))
    )
    if draw.random() < 0.1:
        return new
    match old:
        case Register(name):
            same = [r for r in registers if function.registers.get(r) == function.registers.get(name)]
            new = Register(draw.choice(same if same and draw.random() < 0.7 else registers))
        case Immediate():
            new = Immediate(draw.choice(EDGES) + draw.choice((0, 0, 1, -1)))
        case Symbol(name):
            new = Symbol(draw.choice(labels if name in labels and draw.random() < 0.9 else names), 0)
        case Address(base, offset) if draw.random() < 0.5:
            new = Address(base, draw.choice((offset + draw.choice(EDGES), draw.choice(EDGES))))
        case Address(_, offset):
            register = Register(draw.choice(registers))
            new = Address(draw.choice((register, register, Symbol(draw.choice(names)), None)), offset)
        case Vector(items):
            at = draw.randrange(len(items))
            new = Vector((*items[:at], operand(items[at], function, module, draw), *items[at + 1 :]))
        case Pair(first, second):
            other = Register(draw.choice(registers))
            new = draw.choice((first, Pair(second, first), Pair(other, second), Pair(first, other)))
        case Negated(register):
            new = register
        case CallArguments():
            register = Register(draw.choice(registers))
            new = replace(old, target=register if draw.random() < 0.5 else Symbol(draw.choice(names)))
    return new


def register_of(operand: Operand) -> list[str]:
    """The registers that an operand names."""
    match operand:
        case Register(name) | Negated(Register(name)) | Address(Register(name)):
            return [name]
        case Pair(first, second):
            return [first.name, second.name]
        case Vector(items):
            return [name for item in items for name in register_of(item)]
    return []


def changed_operand(operand: Operand, old: str, new: str) -> Operand:
    """The operand with one register's name for another's."""
    match operand:
        case Register(name):
            return Register(new if name == old else name)
        case Negated(register):
            return Negated(Register(new if register.name == old else register.name))
        case Address(Register(name)):
            return replace(operand, base=Register(new if name == old else name))
        case Pair(first, second):
            return Pair(*(Register(new if part.name == old else part.name) for part in (first, second)))
        case Vector(items):
            return Vector(tuple(changed_operand(item, old, new) for item in items))
    return operand
