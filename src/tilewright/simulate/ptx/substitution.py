"""Names in a syntax tree: those of an operand, and copies with other names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tilewright.simulate.ptx import tree

#: Gives the new name of a register, variable, function or label.
Rename = Callable[[str], str]


def parts(operand: tree.Operand) -> Iterator[tree.Register | tree.Symbol]:
    """The registers and symbols of an operand, from left to right.

    >>> [part.name for part in parts(tree.Vector((tree.Register("%r1"), tree.Address(tree.Symbol("table"), 4))))]
    ['%r1', 'table']
    """
    inner: tuple[tree.Operand, ...] = ()
    match operand:
        case tree.Register() | tree.Symbol():
            yield operand
        case tree.Address(base, _, coordinates):
            inner = coordinates if base is None else (base, *coordinates)
        case tree.Vector(items):
            inner = items
        case tree.Negated(register) | tree.Selected(register):
            yield register
        case tree.Pair(first, second):
            inner = (first, second)
        case tree.CallArguments(returns, target, arguments, _):
            inner = (*returns, target, *arguments)
    for item in inner:
        yield from parts(item)


def with_names(operand: tree.Operand, rename: Rename) -> tree.Operand:
    """An operand with other names.

    >>> with_names(tree.Address(tree.Register("%r1"), 8), lambda name: name + "$2")
    Address(base=Register(name='%r1$2'), offset=8, coordinates=())
    """
    match operand:
        case tree.Register(name):
            return tree.Register(rename(name))
        case tree.Symbol(name):
            return replace(operand, name=rename(name))
        case tree.Address(base, _, coordinates):
            return replace(operand, base=base and _named(base, rename), coordinates=_all(coordinates, rename))
        case tree.Vector(items):
            return tree.Vector(_all(items, rename))
        case tree.Negated(register):
            return tree.Negated(tree.Register(rename(register.name)))
        case tree.Selected(register):
            return replace(operand, operand=tree.Register(rename(register.name)))
        case tree.Pair(first, second):
            return tree.Pair(tree.Register(rename(first.name)), tree.Register(rename(second.name)))
        case tree.CallArguments(returns, target, arguments, prototype):
            label = rename(prototype) if prototype else None
            return tree.CallArguments(_all(returns, rename), _named(target, rename), _all(arguments, rename), label)
    return operand


def instruction_with_names(item: tree.Instruction, rename: Rename) -> tree.Instruction:
    """An instruction with other names, also in its guard."""
    guard = item.guard and tree.Guard(tree.Register(rename(item.guard.register.name)), item.guard.negated)
    return replace(item, operands=_all(item.operands, rename), guard=guard)


def _all(operands: tuple[tree.Operand, ...], rename: Rename) -> tuple[tree.Operand, ...]:
    return tuple(with_names(operand, rename) for operand in operands)


def _named(operand: tree.Register | tree.Symbol, rename: Rename) -> tree.Register | tree.Symbol:
    return replace(operand, name=rename(operand.name))
