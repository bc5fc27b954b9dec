"""Matrices between shared memory and the registers of a warp, and their transposition.

Source: PTX ISA, sections 9.7.14.5.15 (ldmatrix), 9.7.14.5.16 (stmatrix) and 9.7.14.5.17 (movmatrix). A lane holds two
neighbouring elements of a row, the lower half first; four lanes hold a row. In memory a row is 16 bytes at any address:
the lowest eight lanes have the addresses of the first matrix, the next eight those of the second, and so on.

Matrices of 16 columns have elements of 8 bits in registers. In memory the elements may have 6 or 4 bits, in padded
rows; they are extended with zeros. The register layout of transposed ones is from CUTLASS's copy traits for sm_100.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewright.simulate.code import LANES, Code, Value
from tilewright.simulate.isa.table import Form, Table

rows = Table()


def _count(form: Form) -> Mapping[str, int]:
    """Registers of a lane: one for each eight rows of a matrix (columns in memory, if it is transposed)."""
    return {"d" if form.row.writes else "b": int(form["num"][1:]) * (1 + form.has("m16n16"))}


def element_bits(form: Form) -> int:
    """Bits of an element in memory."""
    return int(form["packed"][1]) if form["packed"] else 8 if form.has("b8") else 16


def transposed_places(form: Form, registers: int) -> list[int]:
    """The place of each byte of transposed 8-bit registers in consecutive rows of 16 bytes.

    Source: CUTLASS, include/cute/atom/copy_traits_sm100.hpp (SM100_U8x16_LDSM_T, SM100_U8x16_STSM_T).
    """

    def row(register: int, t: int, byte: int) -> int:
        if form.has("m16n16"):
            return 16 * (register // 2) + 4 * t + 2 * (register % 2) + byte % 2
        return 8 * register + 2 * t + byte % 2

    return [
        16 * row(register, lane % 4, byte) + lane // 4 + 8 * (byte // 2)
        for register in range(registers)
        for lane in range(LANES)
        for byte in range(4)
    ]


_rows = functools.partial(
    rows.placed,
    types={"d": "b32", "b": "b32"},
    counts=_count,
    kind="rows",
    cost="memory",
    space="shared shared::cta",
    note="a row counts as an access by the lane that has its address",
)
_loads, _stores = functools.partial(_rows, section="9.7.14.5.15"), functools.partial(_rows, section="9.7.14.5.16")
_loads("ldmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16 d, [a];", num="x1 x2 x4")
_loads("ldmatrix.sync.aligned.m16n16.num.trans{.space}.b8 d, [a];", num="x1 x2")
_PACKED = "b6x16_p32 b4x16_p64"
_loads("ldmatrix.sync.aligned.m8n16.num{.space}.b8x16.packed d, [a];", num="x1 x2 x4", packed=_PACKED)
_loads("ldmatrix.sync.aligned.m16n16.num.trans{.space}.b8x16.packed d, [a];", num="x1 x2", packed=_PACKED)
_stores("stmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16 [a], b;", num="x1 x2 x4")
_stores("stmatrix.sync.aligned.m16n8.num.trans{.space}.b8 [a], b;", num="x1 x2 x4")


def transposed(code: Code, matrix: Value) -> Value:
    """The transpose of a matrix of which each lane has two elements."""
    halves = code.op(f"bitcast {matrix} to <{2 * LANES} x i16>", "i16", 2 * LANES)
    order = ", ".join(f"i32 {8 * column + row}" for row in range(8) for column in range(8))
    turned = code.op(
        f"shufflevector {halves}, {halves.ir_type} poison, <{2 * LANES} x i32> <{order}>", "i16", 2 * LANES
    )
    return code.op(f"bitcast {turned} to <{LANES} x i32>", "i32", LANES)


@rows.row(
    "movmatrix.sync.aligned.m8n8.trans.b16 d, a;",
    section="9.7.14.5.17",
    types={"d": "b32", "a": "b32"},
    kind="warp",
    cost="warp",
)
def move_transposed(code: Code, form: Form, mask: Value, a: Value) -> Value:
    """The transposed matrix."""
    return transposed(code, code.splat(a))
