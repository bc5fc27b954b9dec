"""Tensor memory of a block: allocation of columns, and moves of registers and of lines of shared memory.

Source: PTX ISA, 9.7.16.7 (allocation), 9.7.16.8 (tcgen05.ld, tcgen05.st, tcgen05.wait), 9.7.16.9 (tcgen05.cp),
9.7.16.11 (tcgen05.fence, tcgen05.commit). The upper half of an address is a lane, the lower half a column.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import MOVES

rows = Table()

#: The assembler crashes on other orders of these names.
ALL = 9
GROUPS = "cta_group::1 cta_group::2"

_memory = functools.partial(rows.placed, cost="tensor", fixed=ALL)
_columns = functools.partial(_memory, section="9.7.16.7.1", kind="columns", group=GROUPS)
_columns(
    "tcgen05.alloc.group.sync.aligned{.space}.b32 [a], columns;",
    types={"columns": "b32"},
    space="shared::cta",
    note="a fault if too few columns are free, because no other block shares this tensor memory",
)
_columns("tcgen05.dealloc.group.sync.aligned.b32 a, columns;", types={"a": "b32", "columns": "b32"})
_columns("tcgen05.relinquish_alloc_permit.group.sync.aligned;")

#: By shape: registers of 32 bits of a lane for `.x1`, and the greatest number of registers.
_REGISTERS = {"32x32b": (1, 128), "16x64b": (1, 128), "16x128b": (2, 64), "16x256b": (4, 32), "16x32bx2": (1, 128)}
#: By shape: columns for one register of a lane; shapes of 16 lanes have two, because they have half as many lanes.
WIDTHS = {"32x32b": 1, "16x64b": 2, "16x128b": 2, "16x256b": 2, "16x32bx2": 1}


def _counts(form: Form) -> Mapping[str, int]:
    """The number of a lane's registers."""
    return {"d" if form.row.writes else "b": _REGISTERS[shape(form)][0] * int(form["num"][1:])}


def shape(form: Form) -> str:
    """The lanes and bits in the name of a move."""
    return form["shape"] or "16x32bx2"


def move(form: Form) -> tuple[int, int]:
    """The number of a move's shape, and the bits of what it does."""
    halves = form.has("pack::16b") or form.has("unpack::16b")
    return MOVES[shape(form)], (not form.row.writes) * MOVES["stores"] + halves * MOVES["halves"]


_move = functools.partial(
    rows.row,
    kind="columns",
    cost="tensor",
    types={"d": "b32", "a": "b32", "b": "b32"},
    counts=_counts,
    fixed=ALL,
    note="complete when it is issued",
)
for _most in 128, 64, 32:
    _shapes = " ".join(name for name, (_, most) in _REGISTERS.items() if most == _most and name != "16x32bx2")
    _nums = " ".join(f"x{1 << i}" for i in range(8) if 1 << i <= _most)
    _of = functools.partial(_move, shape=_shapes, num=_nums)
    _of("tcgen05.ld.sync.aligned.shape.num{.pack::16b}.b32 d, [a];", section="9.7.16.8.3")(move)
    _of("tcgen05.st.sync.aligned.shape.num{.unpack::16b}.b32 [a], b;", section="9.7.16.8.4")(move)
_two = functools.partial(_move, num=" ".join(f"x{1 << i}" for i in range(8)))
_two("tcgen05.ld.sync.aligned.16x32bx2.num{.pack::16b}.b32 d, [a], apart;", section="9.7.16.8.3")(move)
_two("tcgen05.st.sync.aligned.16x32bx2.num{.unpack::16b}.b32 [a], apart, b;", section="9.7.16.8.4")(move)
_memory(
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.wait::st.sync.aligned;",
    section="9.7.16.8.5",
    kind="columns",
    note="moves are complete when they are issued",
)
_memory(
    "tcgen05.fence::before_thread_sync;",
    "tcgen05.fence::after_thread_sync;",
    section="9.7.16.11.1",
    kind="nothing",
    note="no effect on values",
)

#: By shape: lines, their bytes, and the groups of 32 lanes that get the first lines, the next lines, and copies of
#: them.
_COPIES = {
    "128x256b": (128, 32, (0, 1, 2, 3)),
    "128x128b": (128, 16, (0, 1, 2, 3)),
    "64x128b.warpx2::02_13": (64, 16, (0, 1, 2, 3)),
    "64x128b.warpx2::01_23": (64, 16, (0, 2, 1, 3)),
    "32x128b.warpx4": (32, 16, (0, 1, 2, 3)),
}


def copy(form: Form) -> tuple[int, int, int]:
    """The lines of a copy, their bytes, and the groups of lanes that get them, four bits each."""
    lines, bytes_, groups = _COPIES[".".join(filter(None, (form["shape"], form["many"])))]
    return lines, bytes_, sum(group << 4 * i for i, group in enumerate(groups))


_copies = functools.partial(
    rows.row,
    section="9.7.16.9",
    kind="columns",
    cost="tensor",
    types={"matrix": "b64"},
    fixed=ALL,
    group=GROUPS,
    note="complete when it is issued",
)
_copies("tcgen05.cp.group.shape [a], matrix;", shape="128x256b 128x128b")(copy)
_copies("tcgen05.cp.group.shape.many [a], matrix;", shape="64x128b", many="warpx2::02_13 warpx2::01_23")(copy)
_copies("tcgen05.cp.group.shape.many [a], matrix;", shape="32x128b", many="warpx4")(copy)
_copies("tcgen05.cp.group.many.shape [a], matrix;", shape="32x128b", many="warpx4")(copy)  # as Triton writes it
_memory(
    "tcgen05.commit.group.mbarrier::arrive::one{.space}{.multicast::cluster}.b64 [a]{, ctas};",
    section="9.7.16.11.2",
    kind="columns",
    group=GROUPS,
    space="shared::cluster",
    types={"ctas": "b16"},
    note="products and copies are complete when they are issued, so the arrival at the mbarrier is immediate",
)
