"""`.param` variables of calls: registers where possible, local memory otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.simulate.isa import table
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.substitution import parts


@dataclass(frozen=True, slots=True)
class _Piece:
    """One element that an instruction moves to or from a variable."""

    variable: str
    offset: int
    bits: int


def promote_params(function: tree.Function) -> tree.Function:
    """Rewrite accesses to `.param` variables of a function's calls; returns the changed function."""
    params = {v.name for v in function.variables if v.space == "param"}
    if not params:
        return function
    kept_in_memory = _kept_in_memory(function, params)
    body: list[tree.Instruction | tree.Label] = []
    for item in function.body:
        name = _variable(item)
        if isinstance(item, tree.Instruction) and name in params:
            if name in kept_in_memory:
                body.append(_to_local(item))
            else:
                body += list(_moves(item, function))
        else:
            body.append(item)
    function.body = body
    function.variables = [
        replace(v, space="local") if v.name in kept_in_memory else v
        for v in function.variables
        if v.space != "param" or v.name in kept_in_memory
    ]
    return function


def _variable(item: tree.Instruction | tree.Label) -> str:
    """The variable that a plain `.param` load or store names; one without a value is refused with its form."""
    if isinstance(item, tree.Instruction) and _access(item) in ("load", "store") and len(item.operands) == 2:
        address = item.operands[0 if _stores(item) else 1]
        if isinstance(address, tree.Address) and isinstance(address.base, tree.Symbol):
            return address.base.name
    return ""


def _access(item: tree.Instruction) -> str:
    form = table().find(item.name)
    return form.row.access if form is not None else ""


def _stores(item: tree.Instruction) -> bool:
    return _access(item) == "store"


def _kept_in_memory(function: tree.Function, params: set[str]) -> set[str]:
    """Variables whose address is taken, that a remaining call passes, or that have overlapping accesses."""
    kept: set[str] = set()
    pieces: dict[str, dict[int, int]] = {}
    for item in function.body:
        if not isinstance(item, tree.Instruction):
            continue
        name = _variable(item)
        for operand in item.operands:
            if name not in params or not isinstance(operand, tree.Address):
                kept |= params.intersection(part.name for part in parts(operand) if isinstance(part, tree.Symbol))
        if name not in params:
            continue
        for piece in _pieces(item):
            known = pieces.setdefault(name, {})
            if known.setdefault(piece.offset, piece.bits) != piece.bits or piece.bits > 64:
                kept.add(name)
    for name, known in pieces.items():
        ends = sorted((offset, offset + bits // 8) for offset, bits in known.items())
        if any(left[1] > right[0] for left, right in itertools.pairwise(ends)):
            kept.add(name)
    return kept


def _pieces(item: tree.Instruction) -> list[_Piece]:
    bits = int("".join(c for c in _type_of(item) if c.isdigit()) or 32)
    address = item.operands[0 if _stores(item) else 1]
    assert isinstance(address, tree.Address) and isinstance(address.base, tree.Symbol)
    start = address.offset + address.base.offset
    count = next((int(m[2:]) for m in item.modifiers if m in (".v2", ".v4", ".v8")), 1)
    return [_Piece(address.base.name, start + i * bits // 8, bits) for i in range(count)]


def _type_of(item: tree.Instruction) -> str:
    """The type of a load or store, which is last in the manual's order."""
    form = table().find(item.name)
    return (form.modifiers if form is not None else item.modifiers)[-1]


def _to_local(item: tree.Instruction) -> tree.Instruction:
    return replace(item, modifiers=tuple(".local" if m.startswith(".param") else m for m in item.modifiers))


def _moves(item: tree.Instruction, function: tree.Function) -> Iterator[tree.Instruction]:
    """A `.param` access as moves between registers."""
    moved = item.operands[1 if _stores(item) else 0]
    values = moved.items if isinstance(moved, tree.Vector) else (moved,)
    for piece, value in zip(_pieces(item), values, strict=False):
        name = f"{piece.variable}@{piece.offset}"
        function.registers[name] = f".b{max(piece.bits, 16)}"
        kept = tree.Register(name)
        opcode, modifiers = _move(item, piece.bits, function.registers.get(getattr(value, "name", ""), ""))
        operands = (kept, value) if _stores(item) else (value, kept)
        yield replace(item, opcode=opcode, modifiers=modifiers, operands=operands)


def _move(item: tree.Instruction, bits: int, declared: str) -> tuple[str, tuple[str, ...]]:
    """The instruction that moves a piece to or from a register, which may be wider than the element."""
    type_ = _type_of(item)
    have = int("".join(c for c in declared if c.isdigit()) or max(bits, 16))
    sign = "s" if type_.startswith(".s") and not _stores(item) else "u"
    if bits == have:
        return "mov", (type_ if type_.startswith(".f") else f".b{bits}",)
    wide, narrow = f".{sign}{have}", f".{sign}{bits}"
    if _stores(item):  # an 8-bit element is in a 16-bit register
        return "cvt", (narrow, wide) if bits > 8 or have > 16 else (".u16", ".u8")
    return "cvt", (wide, narrow)
