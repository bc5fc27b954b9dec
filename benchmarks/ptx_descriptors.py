"""Random changes of what matrix instructions and copies of tensors are told by numbers: descriptors and tensor maps.

Random operands seldom reach these numbers' fields, so here a few bits change right before an instruction reads them.
"""

from __future__ import annotations

import random

from ptx_instructions import Place, changed_operands

from tilewright.simulate.ptx import tree

#: Bits of the fields of a matrix descriptor: address, leading and other stride, version, base offset, swizzle.
#: Source: PTX ISA, 9.7.15.5.1.2 and 9.7.16.4.1 (matrix descriptors).
FIELDS = ((0, 14), (16, 14), (32, 14), (46, 3), (49, 3), (52, 9), (61, 3))
#: Bytes of a tensor map, and numbers at the edges of its fields.
MAP_BYTES = 128
EDGES = (0, 1, 2, 3, 5, 8, 16, 255, 256, 257, 0x7FFF, 0x8000, 0xFFFF, 0x10000, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
#: Coordinates of a box: in and just outside of a tensor, and where sums of 32 bits end.
CORNERS = (-1, 0, 1, 7, 1 << 16, (1 << 31) - 1, -(1 << 31), -(1 << 31) + 1)
_OPCODES = ("wgmma", "tcgen05")


def descriptor(place: Place) -> None:
    """Bits of a descriptor change: of a matrix, or of the product."""
    draw, body, registers = place.draw, place.function.body, place.function.registers
    found = [
        (at, item, operand)
        for at, item in enumerate(body)
        if isinstance(item, tree.Instruction) and item.opcode in _OPCODES
        for operand in item.operands
        if isinstance(operand, tree.Register) and registers.get(operand.name) in (".b64", ".b32")
    ]
    if not found:
        changed_operands(place)
        return
    at, item, register = draw.choice(found)
    type_ = registers[register.name]
    mask = tree.Immediate(of_matrix(draw) if type_ == ".b64" else of_product(draw))
    body.insert(at, tree.Instruction("xor", (type_,), (register, register, mask), 0, item.guard))


def of_matrix(draw: random.Random) -> int:
    """Bits of one field, or of the whole number."""
    if draw.random() < 0.125:
        return draw.getrandbits(64)
    start, width = draw.choice(FIELDS)
    return draw.choice((1 << draw.randrange(width), 1 + draw.randrange((1 << width) - 1), (1 << width) - 1)) << start


def of_product(draw: random.Random) -> int:
    """One bit, three, or any of 32."""
    return draw.choice((1 << draw.randrange(32), sum(1 << draw.randrange(32) for _ in range(3)), draw.getrandbits(32)))


def tensor_map(place: Place) -> None:
    """Bytes of the map of a copy change, or a coordinate does."""
    draw, body, function = place.draw, place.function.body, place.function
    found = [
        (at, item, operand)
        for at, item in enumerate(body)
        if isinstance(item, tree.Instruction)
        for operand in item.operands
        if isinstance(operand, tree.Address) and operand.coordinates and isinstance(operand.base, tree.Register)
    ]
    if not found:
        changed_operands(place)
        return
    at, item, operand = draw.choice(found)
    corners = [c for c in operand.coordinates if isinstance(c, tree.Register)]
    corners += [c for v in operand.coordinates if isinstance(v, tree.Vector) for c in v.items
                if isinstance(c, tree.Register)]  # fmt: skip
    if corners and draw.random() < 0.25:
        operands = (draw.choice(corners), tree.Immediate(draw.choice(CORNERS)))
        body.insert(at, tree.Instruction("mov", (".b32",), operands, 0, item.guard))
        return
    size = draw.choice((2, 4, 4, 8))
    where = tree.Address(operand.base, operand.offset + draw.randrange(0, MAP_BYTES, size))
    bits, old = f".b{8 * size}", tree.Register("%map")
    function.registers[old.name] = ".b64"
    number = draw.choice((draw.choice(EDGES), 1 << draw.randrange(8 * size), draw.getrandbits(8 * size)))
    store = tree.Instruction("st", (bits,), (where, old), 0, item.guard)
    if draw.random() < 0.5:  # the number itself
        given = (old, tree.Immediate(number))
        body[at:at] = [tree.Instruction("mov", (".b64",), given, 0, item.guard), store]
        return
    load = tree.Instruction("ld", (bits,), (old, where), 0, item.guard)
    change = tree.Instruction("xor", (".b64",), (old, old, tree.Immediate(number)), 0, item.guard)
    body[at:at] = [load, change, store]
