"""Names in a syntax tree: those of an operand, and copies with other names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tilewright.ptx.tree import (
    Address,
    CallArguments,
    Guard,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Selected,
    Symbol,
    Vector,
)

#: Gives the new name of a register, variable, function or label.
Rename = Callable[[str], str]


def parts(operand: Operand) -> Iterator[Register | Symbol]:
    """The registers and symbols of an operand, from left to right.

    >>> [part.name for part in parts(Vector((Register("%r1"), Address(Symbol("table"), 4))))]
    ['%r1', 'table']
    """
    inner: tuple[Operand, ...] = ()
    match operand:
        case Register() | Symbol():
            yield operand
        case Address(base, _, coordinates):
            inner = coordinates if base is None else (base, *coordinates)
        case Vector(items):
            inner = items
        case Negated(register) | Selected(register):
            yield register
        case Pair(first, second):
            inner = (first, second)
        case CallArguments(returns, target, arguments, _):
            inner = (*returns, target, *arguments)
    for item in inner:
        yield from parts(item)


def with_names(operand: Operand, rename: Rename) -> Operand:
    """An operand with other names.

    >>> with_names(Address(Register("%r1"), 8), lambda name: name + "$2")
    Address(base=Register(name='%r1$2'), offset=8, coordinates=())
    """
    match operand:
        case Register(name):
            return Register(rename(name))
        case Symbol(name):
            return replace(operand, name=rename(name))
        case Address(base, _, coordinates):
            return replace(operand, base=base and _named(base, rename), coordinates=_all(coordinates, rename))
        case Vector(items):
            return Vector(_all(items, rename))
        case Negated(register):
            return Negated(Register(rename(register.name)))
        case Selected(register):
            return replace(operand, operand=Register(rename(register.name)))
        case Pair(first, second):
            return Pair(Register(rename(first.name)), Register(rename(second.name)))
        case CallArguments(returns, target, arguments, prototype):
            label = rename(prototype) if prototype else None
            return CallArguments(_all(returns, rename), _named(target, rename), _all(arguments, rename), label)
    return operand


def instruction_with_names(item: Instruction, rename: Rename) -> Instruction:
    """An instruction with other names, also in its guard."""
    guard = item.guard and Guard(Register(rename(item.guard.register.name)), item.guard.negated)
    return replace(item, operands=_all(item.operands, rename), guard=guard)


def _all(operands: tuple[Operand, ...], rename: Rename) -> tuple[Operand, ...]:
    return tuple(with_names(operand, rename) for operand in operands)


def _named(operand: Register | Symbol, rename: Rename) -> Register | Symbol:
    return replace(operand, name=rename(operand.name))
