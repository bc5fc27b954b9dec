"""Random changes of PTX operands."""

from __future__ import annotations

import random
from dataclasses import replace

from tilewright.simulate.ptx import tree

#: What immediates become: edges of every width, small numbers, masks, and sizes of the arrays' own order.
EDGES = (0, 1, -1, 2, 4, 31, 32, 33, 64, 255, 4096, 0x7FFF, 0xFFFF, 1 << 20, 0x55555555, 0x7FFFFFFF, 1 << 31,
         -(1 << 31), 0xFFFFFFFF, 1 << 32, -(1 << 32), 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63),
         (1 << 64) - 4)  # fmt: skip

SPECIAL = ("%laneid", "%warpid", "%nwarpid", "%tid.x", "%ntid.y", "%ctaid.x", "%nctaid.z", "%clock", "%clock64",
           "%lanemask_lt", "%smid", "%gridid", "%globaltimer", "%dynamic_smem_size", "%total_smem_size", "%envreg3",
           "%cluster_ctarank", "_")  # fmt: skip


def operands(
    old: tuple[tree.Operand, ...], function: tree.Function, module: tree.Module, draw: random.Random
) -> tuple[tree.Operand, ...]:
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


def operand(old: tree.Operand, function: tree.Function, module: tree.Module, draw: random.Random) -> tree.Operand:
    """Another operand, of the same kind more often than not."""
    labels = [item.name for item in function.body if isinstance(item, tree.Label)]
    names = [*module.variables, *module.functions, *(v.name for v in function.variables), *labels]
    registers = list(function.registers) or ["%r1"]
    new: tree.Operand = draw.choice(
        (
            tree.Register(draw.choice((*registers, *SPECIAL))),
            tree.Immediate(draw.choice(EDGES)),
            tree.Symbol(draw.choice(names)),
        )
    )
    if draw.random() < 0.1:
        return new
    match old:
        case tree.Register(name):
            same = [r for r in registers if function.registers.get(r) == function.registers.get(name)]
            new = tree.Register(draw.choice(same if same and draw.random() < 0.7 else registers))
        case tree.Immediate():
            new = tree.Immediate(draw.choice(EDGES) + draw.choice((0, 0, 1, -1)))
        case tree.Symbol(name):
            new = tree.Symbol(draw.choice(labels if name in labels and draw.random() < 0.9 else names), 0)
        case tree.Address(base, offset) if draw.random() < 0.5:
            new = tree.Address(base, draw.choice((offset + draw.choice(EDGES), draw.choice(EDGES))))
        case tree.Address(_, offset):
            register = tree.Register(draw.choice(registers))
            new = tree.Address(draw.choice((register, register, tree.Symbol(draw.choice(names)), None)), offset)
        case tree.Vector(items):
            at = draw.randrange(len(items))
            new = tree.Vector((*items[:at], operand(items[at], function, module, draw), *items[at + 1 :]))
        case tree.Pair(first, second):
            other = tree.Register(draw.choice(registers))
            new = draw.choice((first, tree.Pair(second, first), tree.Pair(other, second), tree.Pair(first, other)))
        case tree.Negated(register):
            new = register
        case tree.CallArguments():
            register = tree.Register(draw.choice(registers))
            new = replace(old, target=register if draw.random() < 0.5 else tree.Symbol(draw.choice(names)))
    return new


def register_of(operand: tree.Operand) -> list[str]:
    """The registers that an operand names."""
    match operand:
        case tree.Register(name) | tree.Negated(tree.Register(name)) | tree.Address(tree.Register(name)):
            return [name]
        case tree.Pair(first, second):
            return [first.name, second.name]
        case tree.Vector(items):
            return [name for item in items for name in register_of(item)]
    return []


def changed_operand(operand: tree.Operand, old: str, new: str) -> tree.Operand:
    """The operand with one register's name for another's."""
    match operand:
        case tree.Register(name):
            return tree.Register(new if name == old else name)
        case tree.Negated(register):
            return tree.Negated(tree.Register(new if register.name == old else register.name))
        case tree.Address(tree.Register(name)):
            return replace(operand, base=tree.Register(new if name == old else name))
        case tree.Pair(first, second):
            return tree.Pair(*(tree.Register(new if part.name == old else part.name) for part in (first, second)))
        case tree.Vector(items):
            return tree.Vector(tuple(changed_operand(item, old, new) for item in items))
    return operand
