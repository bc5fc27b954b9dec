"""Asynchronous copies from global to shared memory, and waiting for them (PTX ISA 9.7.9.25).

The machine moves the bytes when a copy is issued. A program that waits correctly sees no difference.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

_copy = functools.partial(
    rows.placed,
    section="9.7.9.25",
    kind="copy",
    cost="memory",
    fixed=1,
    # `read`: the number of bytes to read, or a predicate (true: none). The other bytes are written as zeros.
    types={"read": "b32|pred", "policy": "b64"},
    cop="ca cg",
    shared="shared shared::cta",
    prefetch="L2::64B L2::128B L2::256B",
)
_copy(
    "cp.async.cop.shared.global{.prefetch} [b], [a], bytes{, read};",
    "cp.async.cop.shared.global.L2::cache_hint{.prefetch} [b], [a], bytes{, read}, policy;",
    note="4, 8 or 16 bytes, with .cg 16; they move when it is issued",
)
rows.placed(
    "cp.async.commit_group;",
    "cp.async.wait_group groups;",
    "cp.async.wait_all;",
    section="9.7.9.25",
    kind="group",
    cost="memory",
    fixed=2,
    note="copies are complete when they are issued",
)
