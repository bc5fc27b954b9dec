"""Products of matrices by a warpgroup, four warps of 16 rows each, with operands in shared memory.

Source: PTX ISA, section 9.7.15 (wgmma). A meaning of kind `warpgroup` returns the formats of A's and B's elements. The
machine multiplies when an instruction is issued, so a later wait has nothing to wait for. For a sparse A, `e` is the
metadata, which give the places of the stored elements.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import FORMATS

rows = Table()

#: Source: PTX ISA, 9.7.15.2, "Matrix Shape": every multiple of 8 from 8 to 256.
_COLUMNS = tuple(range(8, 257, 8))
#: Source: the same; integers have fewer multiples.
_FEWER = (8, 24, *range(16, 257, 16))


def columns(form: Form) -> int:
    """Columns of the result."""
    return int(form["shape"].partition("n")[2].partition("k")[0])


def _counts(form: Form) -> Mapping[str, int]:
    """Registers of 32 bits of a lane: for 16 rows of the result, and of A if it is in registers."""
    return {"d": 16 * columns(form) * (16 if form["dtype"] == "f16" else 32) // (32 * 32), "a": 4}


def is_sparse(form: Form) -> bool:
    """Whether A is sparse, with half of its elements stored."""
    return form.has("sp")


def _shapes(k: int, columns: Sequence[int] = _COLUMNS) -> str:
    return " ".join(f"m64n{n}k{k}" for n in columns)


def formats(form: Form) -> tuple[int, int]:
    """The numbers of A's and B's formats."""
    a, b = (form.name.split(".")[i] for i in (-2, -1))
    return FORMATS[a], FORMATS[b]


def integers(form: Form) -> tuple[int, int]:
    """Whether A's elements have a sign, and B's."""
    return int(form["atype"] == "s8"), int(form["btype"] == "s8")


_product = functools.partial(
    rows.row,
    types={
        "d": "b32",
        "a": "b32|b64",
        "b": "b64",
        "e": "b32",
        "selector": "b32",
        "scale": "pred",
        **dict.fromkeys(("na", "nb", "t", "u"), "s32"),
    },
    counts=_counts,
    updates=True,
    kind="warpgroup",
    cost="tensor",
    note="complete when it is issued",
)

#: Products of a sparse A have twice the length, and metadata that give the places of the stored elements.
for _section, _sparse, _more, _twice in ("9.7.15.5.2", "", "", 1), ("9.7.15.6.3", ".sp", ", e, selector", 2):
    _name = f"wgmma.mma_async{_sparse}.sync.aligned.shape"
    _whole = f"d, a, b{_more}, scale"
    _plain = f"{_whole}, na, nb"
    _of = functools.partial(_product, section=_section)
    _of(f"{_name}.dtype.f16.f16 {_plain}, t{{, u}};", shape=_shapes(16 * _twice), dtype="f16 f32")(formats)
    _of(f"{_name}.f32.bf16.bf16 {_plain}, t{{, u}};", shape=_shapes(16 * _twice))(formats)
    _of(f"{_name}.f32.tf32.tf32 {_plain};", shape=_shapes(8 * _twice))(formats)
    _of(
        f"{_name}.dtype.atype.btype {_plain};",
        shape=_shapes(32 * _twice),
        dtype="f16 f32",
        atype="e4m3 e5m2",
        btype="e4m3 e5m2",
    )(formats)
    _of(
        f"{_name}{{.satfinite}}.s32.atype.btype {_whole};",
        shape=_shapes(32 * _twice, _FEWER),
        atype="s8 u8",
        btype="s8 u8",
    )(integers)
_product(
    "wgmma.mma_async.sync.aligned.shape.s32.b1.b1.and.popc d, a, b, scale;",
    section="9.7.15.5.2",
    shape=_shapes(256, _FEWER),
)(integers)

_control = functools.partial(rows.placed, section="9.7.15.7", cost="control")
_control("wgmma.fence.sync.aligned;", kind="nothing", note="no effect on values")
_control(
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned n;",
    kind="group",
    types={"n": "u32"},
    note="products are complete when they are issued",
)
