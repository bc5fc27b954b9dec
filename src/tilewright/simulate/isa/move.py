"""Moves, and conversions between generic addresses and addresses of a state space.

Source: PTX ISA, section 9.7.9, Data Movement and Conversion Instructions.
"""

from __future__ import annotations

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_SPACES = "const global local shared shared::cta shared::cluster param param::entry"


@rows.row(
    "mov.type d, a;",
    section="9.7.9.3",
    type="pred b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f32 f64",
    linear="move",
    note="the translator packs and unpacks {a, b}, and gives the addresses of variables and functions",
)
def mov(code: Code, form: Form, a: Value) -> Value:
    """Copy a register, an immediate or a special register."""
    return a


@rows.row(
    "mov.vec.type d, a;",
    section="9.7.9.3",
    vec="v2 v4",
    type="b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64",
    note="%tid and similar registers have four elements, the last one 0; a single register as source is refused",
)
def mov_vector(code: Code, form: Form, *a: Value) -> tuple[Value, ...]:
    """Copy each element."""
    return a


_SIZED = {"p": "size", "a": "size"}
for _syntax, _fixed in (("cvta.space.size p, a;", 0), ("cvta.to.space.size p, a;", 1)):
    rows.placed(_syntax, section="9.7.9.20", fixed=_fixed, kind="cvta", types=_SIZED, space=_SPACES, size="u32 u64")
rows.placed("isspacep.space p, a;", section="9.7.9.19", kind="isspacep", types={"p": "pred", "a": "u64"}, space=_SPACES)
