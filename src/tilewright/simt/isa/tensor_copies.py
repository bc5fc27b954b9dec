"""Copies of boxes of a tensor between global and shared memory, done when they are issued.

Source: PTX ISA, section 9.7.9.27 (cp.async.bulk.tensor). A tensor map's coordinates stand behind it, in its brackets.
"""

from __future__ import annotations

import functools

from tilewright.simt.isa.table import Table

rows = Table()

_AXES = "1d 2d 3d 4d 5d"
_copy = functools.partial(
    rows.placed,
    section="9.7.9.27",
    kind="tensor",
    cost="memory",
    fixed=3,
    dim=_AXES,
    types={"mask": "b16", "policy": "b64"},
    note="coordinates stand in the brackets of the tensor map; tiles, without im2col",
)

for _hint, _policy in ("", ""), (".L2::cache_hint", ", policy"):
    for _multicast, _mask in ("", ""), (".multicast::cluster", ", mask"):
        _copy(
            f"cp.async.bulk.tensor.dim.place.global{{.tile}}.mbarrier::complete_tx::bytes{_multicast}{_hint} "
            f"[to], [tensor], [object]{_mask}{_policy};",
            place="shared::cluster shared::cta",
        )
    _copy(
        f"cp.async.bulk.tensor.dim.global.shared::cta{{.tile}}.bulk_group{_hint} [tensor], [from]{_policy};",
    )
    _copy(f"cp.async.bulk.prefetch.tensor.dim.L2.global{{.tile}}{_hint} [tensor]{_policy};")
