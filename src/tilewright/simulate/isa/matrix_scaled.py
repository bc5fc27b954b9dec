"""Products of matrices by a warp, with one scale for each block of a row or column.

Source: PTX ISA, sections 9.7.14.3 (block scaling), 9.7.14.5.14 (mma) and 9.7.14.6.3 (mma.sp). After `sa`, the scales of
A, come the numbers in braces that select the bytes and lanes that have them; likewise after `sb`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewright.simulate.isa.matrix import extents
from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import FORMATS

rows = Table()

_LANES = 32
_FIVE = "e4m3 e5m2 e3m2 e2m3 e2m1"


def _is_sparse(form: Form) -> bool:
    return form.has("sp::ordered_metadata")


def _bits(form: Form) -> int:
    """Bits of an element: in `.kind::mxf8f6f4` one byte, whatever the format."""
    return 8 if form.has("kind::mxf8f6f4") else 4


def blocks(form: Form) -> int:
    """The number of blocks of a row or column, each with one scale."""
    default = "1" if form.has("kind::mxf8f6f4") else "2"
    return int((form["scales"] or default).removeprefix("scale_vec::").removesuffix("X"))


def _counts(form: Form) -> Mapping[str, int]:
    """Registers of a lane for each matrix (a sparse A without its zeros) and for the selectors of scales."""
    m, n, k = extents(form)
    of_bits = _bits(form) / (32 * _LANES)
    a = m * k * of_bits / (1 + _is_sparse(form))
    return {"a": int(a), "b": int(k * n * of_bits), "c": m * n // _LANES, "d": m * n // _LANES, "ia": 2, "ib": 2}


def mma_scaled(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = (A scale_A) (B scale_B) + C."""
    *_, k = extents(form)
    formats = FORMATS[form["atype"] or "e2m1"], FORMATS[form["btype"] or "e2m1"]
    return "tw_mma_scaled", (*formats, k, _bits(form), blocks(form), int(form.has("ue4m3")), int(_is_sparse(form)))


_scaled = functools.partial(
    rows.row,
    types={**dict.fromkeys(("a", "b", "c", "d", "e", "selector", "sa", "sb"), "b32"), "ia": "u16", "ib": "u16"},
    counts=_counts,
    kind="matrix",
    cost="tensor",
    note="summed in groups, as MMA-Sim gives them for compute capability 12.0",
)

for _section, _words, _more, _bytes, _nibbles in (
    ("9.7.14.5.14", "", "", "m16n8k32", "m16n8k64"),
    ("9.7.14.6.3", ".sp::ordered_metadata", ", e, selector", "m16n8k64", "m16n8k128"),
):
    _name, _operands = f"mma{_words}.sync.aligned.shape.row.col", f"d, a, b, c{_more}, sa, ia, sb, ib"
    _of = functools.partial(_scaled, section=_section)
    _of(
        f"{_name}.kind::mxf8f6f4.block_scale{{.scales}}.f32.atype.btype.f32.ue8m0 {_operands};",
        shape=_bytes,
        atype=_FIVE,
        btype=_FIVE,
        scales="scale_vec::1X",
    )(mma_scaled)
    _four = functools.partial(_of, shape=_nibbles)
    _four(f"{_name}.kind::mxf4.block_scale{{.scales}}.f32.e2m1.e2m1.f32.ue8m0 {_operands};", scales="scale_vec::2X")(
        mma_scaled
    )
    _nv = f"{_name}.kind::mxf4nvf4.block_scale.scales.f32.e2m1.e2m1.f32"
    _four(f"{_nv}.ue8m0 {_operands};", scales="scale_vec::2X scale_vec::4X")(mma_scaled)
    _four(f"{_nv}.ue4m3 {_operands};", scales="scale_vec::4X")(mma_scaled)
