"""Bulk asynchronous copies by one thread, of any multiple of 16 bytes (PTX ISA 9.7.9.25.4).

The machine moves the bytes when a copy is issued, and counts them at the mbarrier at once. A program that waits
correctly sees no difference.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

#: The assembler crashes on other orders of these names.
_ALL = 9
_TYPES = {"bytes": "u32", "ctas": "b16", "policy": "b64", "bytemask": "b16"}
_copy = functools.partial(
    rows.placed, section="9.7.9.25.4.1", kind="bulk", cost="memory", types=_TYPES, note="bytes move when it is issued"
)
_BYTES = "mbarrier::complete_tx::bytes"

for _hint, _policy in ("", ""), (".L2::cache_hint", ", policy"):
    _copy(
        f"cp.async.bulk.to.global.{_BYTES}{_hint} [b], [a], bytes, [m]{_policy};",
        to="shared::cluster shared::cta",
        fixed=_ALL,
    )
    _copy(
        f"cp.async.bulk.shared::cluster.global.{_BYTES}.multicast::cluster{_hint} [b], [a], bytes, [m], ctas{_policy};",
        fixed=_ALL,
    )
    for _mask, _bytes in ("", ""), (".cp_mask", ", bytemask"):
        _copy(
            f"cp.async.bulk.global.shared::cta.bulk_group{_hint}{_mask} [b], [a], bytes{_policy}{_bytes};", fixed=_ALL
        )
    rows.placed(
        f"cp.async.bulk.prefetch.L2.global{_hint} [a], bytes{_policy};",
        section="9.7.9.25.4.3",
        kind="nothing",
        cost="memory",
        types=_TYPES,
        fixed=_ALL,
        note="a hint: it reads nothing here",
    )
_copy(f"cp.async.bulk.shared::cluster.shared::cta.{_BYTES} [b], [a], bytes, [m];", fixed=_ALL)

rows.placed(
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group{.read} groups;",
    section="9.7.9.25.4.4",
    kind="bulk_group",
    cost="memory",
    fixed=_ALL,
    note="copies are complete when they are issued",
)
