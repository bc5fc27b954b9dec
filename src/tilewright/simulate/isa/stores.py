"""Stores whose bytes an mbarrier counts, and shared memory filled with zeros (PTX ISA 9.7.9.12, 9.7.9.13, 9.7.13.7).

The machine stores when an instruction is issued, and counts the bytes at the mbarrier at once. A program that waits
correctly sees no difference.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

_COUNTED = "mbarrier::complete_tx::bytes"
_counted = functools.partial(rows.placed, kind="counted", cost="memory", fixed=1, note="stored at once")
_counted(
    f"st.async{{.weak}}{{.ss}}.{_COUNTED}{{.vec}}.type [a], b, [m];",
    f"st.async.scope{{.ss}}.{_COUNTED}{{.vec}}.type [a], b, [m];",
    section="9.7.9.12",
    scope="cluster",
    ss="shared shared::cta shared::cluster",
    vec="v2 v4",
    type="b32 b64 u32 u64 s32 s64 f32 f64",
)
_reduces = functools.partial(
    _counted,
    f"red.async.relaxed.cluster{{.ss}}.{_COUNTED}.op.type [a], b, [m];",
    section="9.7.13.7",
    ss="shared::cluster",
)
_reduces(op="inc dec", type="u32")
_reduces(op="min max", type="u32 s32")
_reduces(op="and or xor", type="b32")
_reduces(op="add", type="u32 s32 u64 s64")

rows.placed(
    "st.bulk{.weak}{.space} [a], bytes, initial;",
    section="9.7.9.13",
    kind="fill",
    cost="memory",
    fixed=1,
    types={"bytes": "u32|u64", "initial": "u32"},
    space="shared::cta",
    note="with zeros, at once",
)
