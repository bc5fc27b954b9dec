"""Addresses of other blocks' shared memory (PTX ISA 9.7.9.23): a cluster is one block here, whose rank is 0."""

from __future__ import annotations

from tilewright.simt.isa.table import Form, Table
from tilewright.simt.translate.code import Code, Value

rows = Table()


@rows.row(
    "mapa{.space}.type d, a, b;",
    section="9.7.9.23",
    types={"b": "u32"},
    space="shared::cluster",
    type="u32 u64",
    note="another block has none: an address outside of all memory",
)
def mapa(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The address in the block of a rank that corresponds to one of this block."""
    return code.select(code.icmp("eq", b, code.const("i32", 0)), a, code.const(a.type, -16))


@rows.row(
    "getctarank{.space}.type d, a;",
    section="9.7.9.24",
    types={"d": "u32"},
    space="shared::cluster",
    type="u32 u64",
)
def getctarank(code: Code, form: Form, a: Value) -> Value:
    """The rank of the block that an address is of."""
    return code.and_(code.resize(a, "i32", signed=False), code.const("i32", 0))
