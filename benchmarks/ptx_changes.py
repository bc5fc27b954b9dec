"""Random changes of PTX programs, by seed: what `mutation.py` launches.

A change is a row of `CHANGES`: a function that changes one thing of a program's tree, and how often it is drawn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ptx_operands import changed_operand, operands, register_of

from tilewright.simt.ptx import parse, to_text
from tilewright.simt.ptx.tree import (
    Address,
    CallArguments,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Register,
    Symbol,
    Vector,
)

KERNELS = Path(__file__).parent / "mutation_kernels"
#: Displacements at which some width of a sum or a shift is passed.
OFFSETS = (-1, 1, 3, 4, -4, 0x7F, 1 << 12, 1 << 16, -(1 << 16), 0x3FF00, (1 << 31) - 1, (1 << 31) - 16, -(1 << 31),
           1 << 31, 1 << 32, -(1 << 32), (1 << 32) - 4, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63),
           (1 << 64) - 4)  # fmt: skip
#: Modifiers that stand for each other: an exchange inside a family often gives a form that exists.
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

Draw = random.Random


@dataclass(frozen=True)
class Place:
    """Where a change is made: an instruction of a function of a module, and what may come from elsewhere."""

    module: Module
    function: Function
    at: int
    foreign: list[Instruction]
    draw: Draw

    @property
    def item(self) -> Instruction:
        """The instruction."""
        found = self.function.body[self.at]
        assert isinstance(found, Instruction)
        return found

    def put(self, item: Instruction) -> None:
        """Replace the instruction."""
        self.function.body[self.at] = item


#: What changes one thing, and how often it is drawn.
Change = tuple[Callable[[Place], None], int]


class Stock:
    """The kernels by name, and all their instructions."""

    def __init__(self) -> None:
        self.texts = {path.stem: path.read_text() for path in sorted(KERNELS.glob("*.ptx"))}
        modules = [parse(text) for text in self.texts.values()]
        bodies = [function.body for module in modules for function in module.functions.values()]
        self.instructions = [item for body in bodies for item in body if isinstance(item, Instruction)]


def mutated(stock: Stock, seed: int, changes: tuple[Change, ...] | None = None) -> tuple[str, str]:
    """A kernel's name and its text, changed in one to six places (one time in eight by characters, not by meaning)."""
    changes = CHANGES if changes is None else changes
    draw = random.Random(seed)
    name = draw.choice(list(stock.texts))
    text = stock.texts[name]
    if draw.random() < 0.125:
        return name, damaged(text, draw)
    module = parse(text)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        function = draw.choice([f for f in module.functions.values() if len(f.body) > 1])
        found = [i for i, item in enumerate(function.body) if isinstance(item, Instruction)]
        if found and changes:
            (change,) = draw.choices([row[0] for row in changes], [row[1] for row in changes])
            change(Place(module, function, draw.choice(found), stock.instructions, draw))
    return name, to_text(module)


def damaged(text: str, draw: Draw) -> str:
    """Lines deleted, doubled or exchanged, words exchanged, and characters overwritten."""
    lines = text.splitlines()
    for _ in range(draw.choice((1, 2, 4))):
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                words = re.findall(r"[%.\w]+", lines[at])
                if words:
                    given = draw.choice(re.findall(r"[%.\w]+", text))
                    lines[at] = lines[at].replace(draw.choice(words), given, 1)
            case _:
                column = draw.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:column] + draw.choice("0159-+;,.[]{}%@!rpfdx_ ") + lines[at][column + 1 :]
    return "\n".join(lines) + "\n"


# -- instructions ---------------------------------------------------------------------------------------------------


def deleted(place: Place) -> None:
    """The instruction goes."""
    if len(place.function.body) > 4:
        del place.function.body[place.at]


def doubled(place: Place) -> None:
    """It comes once more, somewhere."""
    place.function.body.insert(place.draw.randrange(len(place.function.body) + 1), place.item)


def swapped(place: Place) -> None:
    """It and another line, a label perhaps, take each other's place."""
    body, other = place.function.body, place.draw.randrange(len(place.function.body))
    body[place.at], body[other] = body[other], body[place.at]


def adopted(place: Place) -> None:
    """An instruction of any kernel comes before it, with this function's registers."""
    registers, draw = list(place.function.registers) or ["%r1"], place.draw

    def own(operand: Operand) -> Operand:
        match operand:
            case Register(name) if "." not in name:
                return Register(draw.choice(registers))
            case Address(_, offset):
                return Address(Register(draw.choice(registers)), offset)
            case Vector(items):
                return Vector(tuple(own(item) for item in items))
        return operand

    item = draw.choice(place.foreign)
    place.function.body.insert(place.at, replace(item, guard=None, operands=tuple(own(o) for o in item.operands)))


def guarded(place: Place) -> None:
    """The guard goes, turns round, or is another."""
    predicates = [name for name, type_ in place.function.registers.items() if type_ == ".pred"]
    guard, draw = place.item.guard, place.draw
    if guard is not None and draw.random() < 0.6:
        place.put(replace(place.item, guard=None if draw.random() < 0.5 else replace(guard, negated=not guard.negated)))
    elif predicates:
        place.put(replace(place.item, guard=Guard(Register(draw.choice(predicates)), draw.random() < 0.5)))


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
    """A type, width, space, order or operation becomes another of its family, or one more is put in or left out."""
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
    """One operand is another, or two change places, or one is dropped or doubled."""
    place.put(replace(place.item, operands=operands(place.item.operands, place.function, place.module, place.draw)))


def exchanged_registers(place: Place) -> None:
    """A register is another one's number wherever the instruction names it."""
    function, draw = place.function, place.draw
    named = [o for operand in place.item.operands for o in register_of(operand)]
    if named and function.registers:
        old, new = draw.choice(named), draw.choice(list(function.registers))
        place.put(replace(place.item, operands=tuple(changed_operand(o, old, new) for o in place.item.operands)))


# -- one kind of instruction --------------------------------------------------------------------------------------


def displaced(place: Place) -> None:
    """The offset of an address, or of a variable's name, reaches an edge."""
    found = [
        (at, index)
        for at, item in enumerate(place.function.body)
        if isinstance(item, Instruction)
        for index, operand in enumerate(item.operands)
        if isinstance(operand, Address) or (isinstance(operand, Symbol) and item.opcode == "mov")
    ]
    if not found:
        return
    at, index = place.draw.choice(found)
    item = place.function.body[at]
    assert isinstance(item, Instruction)
    operand = item.operands[index]
    assert isinstance(operand, Address | Symbol)
    offset = place.draw.choice(OFFSETS) + place.draw.choice((0, 0, operand.offset))
    new = (*item.operands[:index], replace(operand, offset=offset), *item.operands[index + 1 :])
    place.function.body[at] = replace(item, operands=new)


def barrier(place: Place) -> None:
    """A barrier's number or count changes, or is left out, or comes from a register."""
    draw, body = place.draw, place.function.body
    found = [i for i, item in enumerate(body) if isinstance(item, Instruction) and item.opcode in BARRIERS]
    if not found:
        changed_operands(place)
        return
    at = draw.choice(found)
    item = body[at]
    assert isinstance(item, Instruction)
    new: list[Operand] = list(item.operands)
    number: Operand = Immediate(draw.choice(BARRIER_NUMBERS))
    if draw.random() < 0.3:
        number = Register(draw.choice(list(place.function.registers)))
    index = draw.randrange(len(new) + 1)
    if new and draw.random() < 0.2:
        del new[-1]
    else:
        new[index : index + 1] = [number]
    body[at] = replace(item, operands=tuple(new))


def call(place: Place) -> None:
    """A call passes or takes something less, more or else, or calls another function or none."""
    draw, body = place.draw, place.function.body
    found = [i for i, item in enumerate(body) if isinstance(item, Instruction) and item.opcode == "call"]
    if not found:
        changed_operands(place)
        return
    at = draw.choice(found)
    item = body[at]
    assert isinstance(item, Instruction)
    old = next((o for o in item.operands if isinstance(o, CallArguments)), None)
    if old is None:
        return
    functions = [Symbol(name) for name in place.module.functions] + [Symbol(v.name) for v in place.function.variables]
    registers = [Register(name) for name in place.function.registers]
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


# -- the rest of a program ------------------------------------------------------------------------------------------


def labels(place: Place) -> None:
    """Two labels take each other's place, or one moves, or a table of branches names other ones."""
    draw, body, targets = place.draw, place.function.body, place.function.targets
    found = [i for i, item in enumerate(body) if isinstance(item, Label)]
    if not found:
        return
    at, other = draw.choice(found), draw.choice(found)
    names = [item.name for item in body if isinstance(item, Label)]
    if targets and draw.random() < 0.4:
        table = draw.choice(list(targets))
        targets[table] = tuple(draw.choice(names) for _ in range(draw.choice((1, 2, len(names), 40))))
    elif draw.random() < 0.5:
        body[at], body[other] = body[other], body[at]
    else:
        body.insert(draw.randrange(len(body)), body.pop(at))


def retyped(place: Place) -> None:
    """A register has another type."""
    registers, draw = place.function.registers, place.draw
    if registers:
        types = (".pred", ".b8", ".b16", ".u16", ".f16", ".b32", ".s32", ".f32", ".b64", ".u64", ".f64", ".b128")
        registers[draw.choice(list(registers))] = draw.choice(types)


def resized(place: Place) -> None:
    """A variable or a parameter has another size, type, alignment, space or contents."""
    module, function, draw = place.module, place.function, place.draw
    formals = [p for p in (*function.params, *function.returns) if not isinstance(p, Register)]
    found = [*module.variables.values(), *function.variables, *formals]
    if not found:
        return
    chosen = draw.choice(found)
    ways: tuple[Callable[[], dict[str, object]], ...] = (
        lambda: {"count": draw.choice((0, 1, 3, 64, 100_000, 1 << 39)), "initial": ()},
        lambda: {"type": draw.choice((".b8", ".u16", ".f32", ".b64", ".pred", ".f16x2", ".b128"))},
        lambda: {"align": draw.choice((0, 1, 2, 3, 16, 4096, 1 << 40))},
        lambda: {"space": draw.choice(("global", "const", "shared", "local", "param"))},
        lambda: {"vector": draw.choice((1, 2, 4)), "initial": ()},
        lambda: {"initial": tuple(draw.sample(chosen.initial, len(chosen.initial)))},
        lambda: {"initial": tuple(Symbol(draw.choice(names), draw.choice(OFFSETS), generic=True) for _ in range(2))},
    )
    names = [*module.variables, *module.functions]
    new = replace(chosen, **draw.choice(ways)())  # type: ignore[arg-type]
    if module.variables.get(chosen.name) is chosen:
        module.variables[chosen.name] = new
    elif chosen in function.variables:
        function.variables[function.variables.index(chosen)] = new
    else:
        function.params = tuple(new if p is chosen else p for p in function.params)
        function.returns = tuple(new if p is chosen else p for p in function.returns)


#: Changes and how often each is drawn.
CHANGES: tuple[Change, ...] = (
    (deleted, 3),
    (doubled, 3),
    (swapped, 3),
    (adopted, 3),
    (guarded, 3),
    (renamed, 3),
    (exchanged_modifier, 6),
    (changed_operands, 8),
    (exchanged_registers, 4),
    (displaced, 5),
    (barrier, 2),
    (call, 2),
    (labels, 3),
    (retyped, 2),
    (resized, 3),
)
