"""Random changes of PTX instructions; each changes one thing."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ptx_operands import changed_operand, operands, register_of

from tilewright.simulate.ptx import tree

#: Displacements that exceed some width of a sum or a shift.
OFFSETS = (-1, 1, 3, 4, -4, 0x7F, 1 << 12, 1 << 16, -(1 << 16), 0x3FF00, (1 << 31) - 1, (1 << 31) - 16, -(1 << 31),
           1 << 31, 1 << 32, -(1 << 32), (1 << 32) - 4, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63),
           (1 << 64) - 4)  # fmt: skip
#: Modifiers that can replace each other: an exchange inside a family often gives a form that exists.
FAMILIES = tuple(
    tuple(f".{name}" for name in family.split())
    for family in (
        "b8 u8 s8 b16 u16 s16 f16 bf16 b32 u32 s32 f32 f16x2 b64 u64 s64 f64 b128 pred",
        "global shared local const param shared::cta param::entry param::func",
        "v2 v4 v8",
        "sync arrive red",
        "popc and or",
        "all any uni ballot",
        "up down bfly idx",
        "add min max and or xor exch cas inc dec",
        "relaxed acquire release acq_rel volatile weak",
        "cta cluster gpu sys",
        "lo hi wide",
        "rn rz rm rp rni rzi rmi rpi",
        "eq ne lt le gt ge ltu gtu num nan",
    )
)
BARRIERS = ("bar", "barrier")
BARRIER_NUMBERS = (0, 1, 2, 7, 15, 16, 31, 32, 33, 64, 96, 128, 1024, 2048, -1, 1 << 31, 1 << 32)


@dataclass(frozen=True)
class Place:
    """Where a change is made: an instruction of a function of a module, and where other parts may come from."""

    module: tree.Module
    function: tree.Function
    at: int
    foreign: list[tree.Instruction]
    draw: random.Random

    @property
    def item(self) -> tree.Instruction:
        """The instruction."""
        found = self.function.body[self.at]
        assert isinstance(found, tree.Instruction)
        return found

    def put(self, item: tree.Instruction) -> None:
        """Replace the instruction."""
        self.function.body[self.at] = item


def deleted(place: Place) -> None:
    """The instruction is removed."""
    if len(place.function.body) > 4:
        del place.function.body[place.at]


def doubled(place: Place) -> None:
    """It is repeated, somewhere."""
    place.function.body.insert(place.draw.randrange(len(place.function.body) + 1), place.item)


def swapped(place: Place) -> None:
    """It and another line, perhaps a label, exchange places."""
    body, other = place.function.body, place.draw.randrange(len(place.function.body))
    body[place.at], body[other] = body[other], body[place.at]


def adopted(place: Place) -> None:
    """An instruction of any kernel is inserted before it, with this function's registers."""
    registers, draw = list(place.function.registers) or ["%r1"], place.draw

    def own(operand: tree.Operand) -> tree.Operand:
        match operand:
            case tree.Register(name) if "." not in name:
                return tree.Register(draw.choice(registers))
            case tree.Address(_, offset):
                return tree.Address(tree.Register(draw.choice(registers)), offset)
            case tree.Vector(items):
                return tree.Vector(tuple(own(item) for item in items))
        return operand

    item = draw.choice(place.foreign)
    place.function.body.insert(place.at, replace(item, guard=None, operands=tuple(own(o) for o in item.operands)))


def guarded(place: Place) -> None:
    """The guard is removed, negated, or replaced."""
    predicates = [name for name, type_ in place.function.registers.items() if type_ == ".pred"]
    guard, draw = place.item.guard, place.draw
    if guard is not None and draw.random() < 0.6:
        place.put(replace(place.item, guard=None if draw.random() < 0.5 else replace(guard, negated=not guard.negated)))
    elif predicates:
        place.put(replace(place.item, guard=tree.Guard(tree.Register(draw.choice(predicates)), draw.random() < 0.5)))


def renamed(place: Place) -> None:
    """Another opcode with as many operands, or a modifier of any instruction."""
    item, draw = place.item, place.draw
    if draw.random() < 0.5 or not item.modifiers:
        other = draw.choice([o for o in place.foreign if len(o.operands) == len(item.operands)] or place.foreign)
        place.put(replace(item, opcode=other.opcode, modifiers=other.modifiers))
        return
    index = draw.randrange(len(item.modifiers))
    modifier = draw.choice([m for other in place.foreign for m in other.modifiers])
    place.put(replace(item, modifiers=(*item.modifiers[:index], modifier, *item.modifiers[index + 1 :])))


def exchanged_modifier(place: Place) -> None:
    """A type, width, space, order or operation becomes another of its family, or a modifier is added or removed."""
    item, draw = place.item, place.draw
    if not item.modifiers:
        return
    index = draw.randrange(len(item.modifiers))
    before, old, after = item.modifiers[:index], item.modifiers[index], item.modifiers[index + 1 :]
    family = next((f for f in FAMILIES if old in f), (old,))
    how = draw.random()
    new = () if how < 0.1 else (draw.choice(draw.choice(FAMILIES)), old) if how < 0.2 else (draw.choice(family),)
    place.put(replace(item, modifiers=(*before, *new, *after)))


def changed_operands(place: Place) -> None:
    """One operand is replaced, dropped or doubled, or two exchange places."""
    place.put(replace(place.item, operands=operands(place.item.operands, place.function, place.module, place.draw)))


def exchanged_registers(place: Place) -> None:
    """A register becomes another one wherever the instruction names it."""
    function, draw = place.function, place.draw
    named = [o for operand in place.item.operands for o in register_of(operand)]
    if named and function.registers:
        old, new = draw.choice(named), draw.choice(list(function.registers))
        place.put(replace(place.item, operands=tuple(changed_operand(o, old, new) for o in place.item.operands)))


def displaced(place: Place) -> None:
    """The offset of an address, or of a variable's name, reaches an edge."""
    found = [
        (at, index)
        for at, item in enumerate(place.function.body)
        if isinstance(item, tree.Instruction)
        for index, operand in enumerate(item.operands)
        if isinstance(operand, tree.Address) or (isinstance(operand, tree.Symbol) and item.opcode == "mov")
    ]
    if not found:
        return
    at, index = place.draw.choice(found)
    item = place.function.body[at]
    assert isinstance(item, tree.Instruction)
    operand = item.operands[index]
    assert isinstance(operand, tree.Address | tree.Symbol)
    offset = place.draw.choice(OFFSETS) + place.draw.choice((0, 0, operand.offset))
    new = (*item.operands[:index], replace(operand, offset=offset), *item.operands[index + 1 :])
    place.function.body[at] = replace(item, operands=new)


def one_of(place: Place, opcodes: Collection[str]) -> tuple[int, tree.Instruction | None]:
    """Any of a function's instructions with one of these opcodes, and its place; None if there is none."""
    found = [
        (i, item)
        for i, item in enumerate(place.function.body)
        if isinstance(item, tree.Instruction) and item.opcode in opcodes
    ]
    return place.draw.choice(found) if found else (0, None)


def barrier(place: Place) -> None:
    """A barrier's number or count changes, is left out, or becomes a register."""
    draw, body = place.draw, place.function.body
    at, item = one_of(place, BARRIERS)
    if item is None:
        changed_operands(place)
        return
    new: list[tree.Operand] = list(item.operands)
    number: tree.Operand = tree.Immediate(draw.choice(BARRIER_NUMBERS))
    if draw.random() < 0.3:
        number = tree.Register(draw.choice(list(place.function.registers)))
    index = draw.randrange(len(new) + 1)
    if new and draw.random() < 0.2:
        del new[-1]
    else:
        new[index : index + 1] = [number]
    body[at] = replace(item, operands=tuple(new))


def call(place: Place) -> None:
    """A call passes or takes one value fewer, more or other, or calls another function or none."""
    draw, body = place.draw, place.function.body
    at, item = one_of(place, ("call",))
    if item is None:
        changed_operands(place)
        return
    old = next((o for o in item.operands if isinstance(o, tree.CallArguments)), None)
    if old is None:
        return
    functions = [tree.Symbol(name) for name in place.module.functions] + [
        tree.Symbol(v.name) for v in place.function.variables
    ]
    registers = [tree.Register(name) for name in place.function.registers]
    prototypes = (None, *place.function.prototypes)
    ways: tuple[Callable[[], dict[str, object]], ...] = (
        lambda: {"target": draw.choice([*functions, *registers])},
        lambda: {"arguments": operands(old.arguments, place.function, place.module, draw)},
        lambda: {"returns": operands(old.returns, place.function, place.module, draw)},
        lambda: {"arguments": old.returns, "returns": old.arguments},
        lambda: {"prototype": draw.choice(prototypes)},
    )
    new = replace(old, **draw.choice(ways)())  # type: ignore[arg-type]
    body[at] = replace(item, operands=tuple(new if o is old else o for o in item.operands))
