"""The uses of instructions in programs, by opcode, for the passes and checks that need more than its row.

A row says what an instruction computes, what it does to memory and who places it. That `selp` chooses, or that `trap`
ends a program, is stated here, as a role.
"""

from __future__ import annotations

import enum


class Role(enum.StrEnum):
    """A use of instructions."""

    NONE = ""
    COPY = "copy"  # its operands as they are
    CONVERT = "convert"  # a number in another type
    COMPARE = "compare"  # two numbers, which gives true or false
    CHOOSE = "choose"  # one of its operands, by another
    PIECE = "piece"  # bits of one operand among those of another
    SUM = "sum"
    PRODUCT = "product"
    MULTIPLY_ADD = "multiply-add"
    FUNCTION = "function"  # a quotient, root, logarithm, sine and so on
    SIGN = "sign"  # a number with another sign
    BITWISE = "bitwise"  # a function of bits at the same place
    LEAST = "least"
    GREATEST = "greatest"
    SHUFFLE = "shuffle"  # the value of another lane
    AGREE = "agree"  # one result for all lanes that execute it
    WARPGROUP = "warpgroup"  # a product of matrices by a warpgroup, or the ordering of such products
    TENSOR_MEMORY = "tensor memory"  # allocation, moves, and products in tensor memory
    SLEEP = "sleep"
    JUMP = "jump"
    SWITCH = "switch"  # a jump to one of a list
    CALL = "call"
    RETURN = "return"
    EXIT = "exit"
    TRAP = "trap"
    ALLOCATE = "allocate"  # on the stack


#: The opcodes of each role. Source: PTX ISA, chapter 9, by the manual's own description of each.
OPCODES = {
    Role.COPY: "mov",
    Role.CONVERT: "cvt",
    Role.COMPARE: "setp set",
    Role.CHOOSE: "selp slct",
    Role.PIECE: "prmt bfi",
    Role.SUM: "add sub",
    Role.PRODUCT: "mul mul24",
    Role.MULTIPLY_ADD: "fma mad mad24",
    Role.FUNCTION: "div rcp sqrt rsqrt ex2 lg2 sin cos tanh",
    Role.SIGN: "abs neg copysign",
    Role.BITWISE: "not xor lop3",
    Role.LEAST: "min",
    Role.GREATEST: "max",
    Role.SHUFFLE: "shfl",
    Role.AGREE: "vote activemask redux",
    Role.WARPGROUP: "wgmma",
    Role.TENSOR_MEMORY: "tcgen05",
    Role.SLEEP: "nanosleep",
    Role.JUMP: "bra",
    Role.SWITCH: "brx",
    Role.CALL: "call",
    Role.RETURN: "ret",
    Role.EXIT: "exit",
    Role.TRAP: "trap",
    Role.ALLOCATE: "alloca",
}
_ROLES = {opcode: role for role, opcodes in OPCODES.items() for opcode in opcodes.split()}


def role_of(name: str) -> Role:
    """The role of an instruction, by its opcode or its full name.

    >>> role_of("selp.b32") is Role.CHOOSE, role_of("popc")
    (True, <Role.NONE: ''>)
    """
    return _ROLES.get(name.partition(".")[0], Role.NONE)
