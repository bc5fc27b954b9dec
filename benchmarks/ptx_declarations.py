"""Random changes of what a PTX function and its module declare: labels, registers, variables, parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptx_instructions import OFFSETS, Place

from tilewright.simulate.ptx.tree import Label, Register, Symbol


def labels(place: Place) -> None:
    """Two labels exchange places, one moves, or a table of branches names others."""
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
