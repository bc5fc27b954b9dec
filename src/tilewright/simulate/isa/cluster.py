"""Addresses of other blocks' shared memory (PTX ISA 9.7.9.23): the block's rank is above 24 bits of offset."""

from __future__ import annotations

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import CLUSTER_BLOCKS_MOST, RANK_SHIFT

rows = Table()

_RANKS = (CLUSTER_BLOCKS_MOST - 1) << RANK_SHIFT


@rows.row(
    "mapa{.space}.type d, a, b;",
    section="9.7.9.23",
    types={"b": "u32"},
    space="shared::cluster",
    type="u32 u64",
    note="a rank outside the cluster gives an address outside all memory",
)
def mapa(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The address in another block of the cluster that corresponds to an address of shared memory."""
    rank = code.binary("shl", code.resize(b, a.type, signed=False), code.const(a.type, RANK_SHIFT))
    there = code.or_(code.and_(a, code.const(a.type, ~_RANKS)), rank)
    exists = code.icmp("ult", b, code.const("i32", CLUSTER_BLOCKS_MOST))
    return code.select(exists, there, code.const(a.type, -16))


@rows.row(
    "getctarank{.space}.type d, a;",
    section="9.7.9.24",
    types={"d": "u32"},
    space="shared::cluster",
    type="u32 u64",
)
def getctarank(code: Code, form: Form, a: Value) -> Value:
    """The rank of the block that an address belongs to."""
    return code.and_(
        code.resize(code.binary("lshr", a, code.const(a.type, RANK_SHIFT)), "i32", signed=False),
        code.const("i32", CLUSTER_BLOCKS_MOST - 1),
    )
