"""Matrices of 8 x 8 elements of 16 bits between shared memory and the registers of a warp, and their transposition.

Source: PTX ISA, sections 9.7.14.5.15 (ldmatrix), 9.7.14.5.16 (stmatrix) and 9.7.14.5.17 (movmatrix). A lane holds two
neighbouring elements of a row, the lower half first; four lanes hold a row. In memory a row is 16 bytes, anywhere: the
lowest eight lanes have the addresses of the first matrix, the next eight those of the second.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewright.simt.isa.table import Form, Table
from tilewright.simt.translate.code import LANES, Code, Value

rows = Table()


def _count(form: Form) -> Mapping[str, int]:
    """Registers of a lane: one a matrix."""
    return {"d" if form.row.writes else "b": int(form["num"][1:])}


_rows = functools.partial(
    rows.placed, types={"d": "b32", "b": "b32"}, counts=_count, kind="rows", cost="memory",
    num="x1 x2 x4", space="shared shared::cta", note="a row counts as an access of the lane that has its address",
)  # fmt: skip
_rows("ldmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16 d, [a];", section="9.7.14.5.15")
_rows("stmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16 [a], b;", section="9.7.14.5.16")


def transposed(code: Code, matrix: Value) -> Value:
    """A matrix, of which each lane has two elements, with rows for columns."""
    halves = code.op(f"bitcast {matrix} to <{2 * LANES} x i16>", "i16", 2 * LANES)
    order = ", ".join(f"i32 {8 * column + row}" for row in range(8) for column in range(8))
    turned = code.op(
        f"shufflevector {halves}, {halves.ir_type} poison, <{2 * LANES} x i32> <{order}>", "i16", 2 * LANES
    )
    return code.op(f"bitcast {turned} to <{LANES} x i32>", "i32", LANES)


@rows.row(
    "movmatrix.sync.aligned.m8n8.trans.b16 d, a;", section="9.7.14.5.17", types={"d": "b32", "a": "b32"}, kind="warp",
    cost="warp",
)  # fmt: skip
def move_transposed(code: Code, form: Form, mask: Value, a: Value) -> Value:
    """The matrix with rows for columns."""
    return transposed(code, code.splat(a))
