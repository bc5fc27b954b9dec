"""Products of matrices by a warpgroup, four warps of 16 rows each, whose operands lie in shared memory.

Source: PTX ISA, section 9.7.15 (wgmma). A meaning of kind `warpgroup` gives the format of A's elements, and of B's. The
machine multiplies when an instruction is issued: what waits for it afterwards has nothing left to wait for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewright.simt.isa.table import Form, Table
from tilewright.simt.translate.state import FORMATS

rows = Table()

#: Source: PTX ISA, 9.7.15.2, "Matrix Shape": every multiple of 8 from 8 to 256.
_SHAPES = {k: " ".join(f"m64n{n}k{k}" for n in range(8, 257, 8)) for k in (8, 16, 32)}


def columns(form: Form) -> int:
    """Of the result."""
    return int(form["shape"].partition("n")[2].partition("k")[0])


def _counts(form: Form) -> Mapping[str, int]:
    """Registers of 32 bits that a lane holds: 16 rows of the result, and of A if it lies in registers."""
    return {"d": 16 * columns(form) * (16 if form["dtype"] == "f16" else 32) // (32 * 32), "a": 4}


_product = functools.partial(
    rows.row,
    section="9.7.15.5.2",
    types={"d": "b32", "a": "b32|b64", "b": "b64", "scale": "pred", **dict.fromkeys(("na", "nb", "t", "u"), "s32")},
    counts=_counts,
    updates=True,
    kind="warpgroup",
    cost="tensor",
    note="done when it is issued",
)
_PLAIN = "d, a, b, scale, na, nb"
#: Source: the same, of integers: fewer multiples.
_WHOLE = {k: " ".join(f"m64n{n}k{k}" for n in (8, 24, *range(16, 257, 16))) for k in (32, 256)}


@_product(f"wgmma.mma_async.sync.aligned.shape.dtype.f16.f16 {_PLAIN}, t{{, u}};", shape=_SHAPES[16], dtype="f16 f32")
@_product(f"wgmma.mma_async.sync.aligned.shape.f32.bf16.bf16 {_PLAIN}, t{{, u}};", shape=_SHAPES[16])
@_product(f"wgmma.mma_async.sync.aligned.shape.f32.tf32.tf32 {_PLAIN};", shape=_SHAPES[8])
@_product(
    f"wgmma.mma_async.sync.aligned.shape.dtype.atype.btype {_PLAIN};",
    shape=_SHAPES[32], dtype="f16 f32", atype="e4m3 e5m2", btype="e4m3 e5m2",
)  # fmt: skip
def formats(form: Form) -> tuple[int, int]:
    """The numbers of A's and B's formats."""
    a, b = (form.name.split(".")[i] for i in (-2, -1))
    return FORMATS[a], FORMATS[b]


@_product(
    "wgmma.mma_async.sync.aligned.shape{.satfinite}.s32.atype.btype d, a, b, scale;",
    shape=_WHOLE[32], atype="s8 u8", btype="s8 u8",
)  # fmt: skip
@_product("wgmma.mma_async.sync.aligned.shape.s32.b1.b1.and.popc d, a, b, scale;", shape=_WHOLE[256])
def integers(form: Form) -> tuple[int, int]:
    """Whether A's elements have a sign, and B's."""
    return int(form["atype"] == "s8"), int(form["btype"] == "s8")


_control = functools.partial(rows.placed, section="9.7.15.7", cost="control")
_control("wgmma.fence.sync.aligned;", kind="nothing", note="no effect on values")
_control(
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned n;",
    kind="group",
    types={"n": "u32"},
    note="products are done when they are issued",
)
