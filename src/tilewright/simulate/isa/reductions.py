"""Bulk copies that combine the copied elements with those in memory (PTX ISA 9.7.9.25.4.2, 9.7.9.27).

Each element is atomic by itself. A tensor map gives the type of a tensor's elements.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

#: The assembler crashes on other orders of these names.
_ALL = 12
_TYPES = {"bytes": "u32", "policy": "b64"}
_bulk = functools.partial(
    rows.placed,
    section="9.7.9.25.4.2",
    kind="bulk",
    cost="memory",
    types=_TYPES,
    fixed=_ALL,
    note="the elements are combined when it is issued",
)
_BYTES = "mbarrier::complete_tx::bytes"

for _op, _own, _more in (
    ("add", "u32 s32 u64", "f32 f64"),
    ("min max", "u32 s32", "u64 s64 f16 bf16"),
    ("inc dec", "u32", ""),
    ("and or xor", "b32", "b64"),
):
    _bulk(f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_BYTES}.op.type [b], [a], bytes, [m];", op=_op, type=_own)
    for _hint, _policy in ("", ""), (".L2::cache_hint", ", policy"):
        _bulk(
            f"cp.reduce.async.bulk.global.shared::cta.bulk_group{_hint}.op.type [b], [a], bytes{_policy};",
            op=_op,
            type=f"{_own} {_more}",
        )

for _hint, _policy in ("", ""), (".L2::cache_hint", ", policy"):
    _bulk(
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group{_hint}.op.noftz.type [b], [a], bytes{_policy};",
        op="add",
        type="f16 bf16",
    )
    for _mode, _dim in ("{.tile}", "1d 2d 3d 4d 5d"), (".im2col_no_offs", "3d 4d 5d"):
        rows.placed(
            f"cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{_mode}.bulk_group{_hint} "
            f"[tensor], [from]{_policy};",
            section="9.7.9.27",
            kind="tensor",
            cost="memory",
            fixed=_ALL,
            dim=_dim,
            op="add min max inc dec and or xor",
            types=_TYPES,
            note="elements are combined when it is issued, in the map's type",
        )
