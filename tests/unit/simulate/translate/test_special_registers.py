"""Every special register against a formula of this file, and unknown names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tilewright.errors import PtxError
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.translate.analysis.special import SPECIAL_REGISTERS, find

STATIC_BYTES = 40
#: The machine's reserved memory follows the kernel's own, at a multiple of 16.
RESERVED_START = 48


@dataclass(frozen=True)
class Place:
    """A thread of a launch."""

    block: tuple[int, ...]
    grid: tuple[int, ...]
    thread: int
    number: tuple[int, ...]
    dynamic: int

    @property
    def lane(self) -> int:
        return self.thread % 32

    @property
    def shared(self) -> int:
        """Dynamic shared memory starts at a multiple of 16; the whole is allocated in units of 128 bytes."""
        used = 48 + self.dynamic if self.dynamic else STATIC_BYTES
        return (used + 127) // 128 * 128


def thread_index(axis: int) -> Callable[[Place], int]:
    def formula(p: Place) -> int:
        x, y, _ = p.block
        return [p.thread % x, p.thread // x % y, p.thread // (x * y)][axis]

    return formula


FORMULAS: dict[str, Callable[[Place], int]] = {
    **{f"%tid.{'xyz'[a]}": thread_index(a) for a in range(3)},
    **{f"%ntid.{'xyz'[a]}": lambda p, a=a: p.block[a] for a in range(3)},
    **{f"%ctaid.{'xyz'[a]}": lambda p, a=a: p.number[a] for a in range(3)},
    **{f"%nctaid.{'xyz'[a]}": lambda p, a=a: p.grid[a] for a in range(3)},
    **{f"%clusterid.{'xyz'[a]}": lambda p, a=a: p.number[a] for a in range(3)},
    **{f"%nclusterid.{'xyz'[a]}": lambda p, a=a: p.grid[a] for a in range(3)},
    **{f"%cluster_ctaid.{a}": lambda p: 0 for a in "xyz"},
    **{f"%cluster_nctaid.{a}": lambda p: 1 for a in "xyz"},
    "%cluster_ctarank": lambda p: 0,
    "%cluster_nctarank": lambda p: 1,
    "%is_explicit_cluster": lambda p: 0,
    "%laneid": lambda p: p.lane,
    "%warpid": lambda p: p.thread // 32,
    "%nwarpid": lambda p: (p.block[0] * p.block[1] * p.block[2] + 31) // 32,
    "%smid": lambda p: 0,
    "%nsmid": lambda p: 1,
    "%gridid": lambda p: 0,
    "%lanemask_eq": lambda p: sum(1 << i for i in range(32) if i == p.lane),
    "%lanemask_le": lambda p: sum(1 << i for i in range(32) if i <= p.lane),
    "%lanemask_lt": lambda p: sum(1 << i for i in range(32) if i < p.lane),
    "%lanemask_ge": lambda p: sum(1 << i for i in range(32) if i >= p.lane),
    "%lanemask_gt": lambda p: sum(1 << i for i in range(32) if i > p.lane),
    "%total_smem_size": lambda p: p.shared,
    "%aggr_smem_size": lambda p: p.shared + 1024,
    "%dynamic_smem_size": lambda p: p.dynamic,
    "%current_graph_exec": lambda p: 0,
    **{f"%envreg{i}": lambda p: 0 for i in range(32)},
    **{f"%reserved_smem_offset_{name}": lambda p: RESERVED_START for name in ("begin", "0")},
    "%reserved_smem_offset_1": lambda p: RESERVED_START + 256,
    **{f"%reserved_smem_offset_{name}": lambda p: RESERVED_START + 1024 for name in ("end", "cap")},
    **{f"%pm{i}{width}": lambda p: 0 for i in range(8) for width in ("", "_64")},
}
#: Clocks count executed instructions, so their growth is tested.
CLOCKS = {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}


def components() -> list[str]:
    names = [f"{name}.{axis}" if axis else name for name, s in SPECIAL_REGISTERS.items() for axis in s.axes or [""]]
    return [name for name in names if name not in CLOCKS]


def program(body: str) -> Program:
    return Program.from_ptx(
        f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<4>; .shared .b8 s[{STATIC_BYTES}];
ld.param.u64 %d1, [out];
{body}
ret;
}}
"""
    )


def reading(names: list[tuple[str, int]]) -> Program:
    """A kernel whose threads write each name, read in so many bits, as 64 bits."""
    body = ["mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3;"]
    body += ["mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;"]
    for size, at in (("%ntid.z", "%tid.z"), ("%ntid.y", "%tid.y"), ("%ntid.x", "%tid.x")):
        body.append(f"mov.u32 %r2, {size}; mov.u32 %r3, {at}; mad.lo.u32 %r1, %r1, %r2, %r3;")
    body.append(f"mad.wide.u32 %d1, %r1, {8 * len(names)}, %d1;")
    moves = {
        1: "mov.pred %p1, {}; selp.u64 %d2, 1, 0, %p1;",
        16: "mov.u16 %h1, {}; cvt.u64.u16 %d2, %h1;",
        32: "mov.u32 %r1, {}; cvt.u64.u32 %d2, %r1;",
        64: "mov.u64 %d2, {};",
    }
    for index, (name, bits) in enumerate(names):
        body.append(moves[bits].format(name) + f" st.global.u64 [%d1+{8 * index}], %d2;")
    return program("\n".join(body))


def test_a_formula_for_every_register():
    assert set(components()) == set(FORMULAS)


@pytest.mark.parametrize(
    ("grid", "block", "dynamic"),
    [((1, 1, 1), (32, 1, 1), 0), ((3, 2, 2), (5, 3, 2), 100), ((2, 1, 1), (64, 2, 1), 16), ((1, 4, 1), (1, 1, 7), 0),
     ((2, 2, 1), (3, 40, 1), 1000)],
)  # fmt: skip
def test_every_register_in_every_thread(grid, block, dynamic):
    names = [(name, bits) for name in components() for bits in find(name)[0].widths]
    threads = block[0] * block[1] * block[2]
    got = np.zeros((grid[0] * grid[1] * grid[2], threads, len(names)), np.uint64)
    launch(reading(names), grid, block, (got,), shared_bytes=dynamic)
    for number in range(len(got)):
        position = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
        for thread in range(threads):
            place = Place(block, grid, thread, position, dynamic)
            wanted = [FORMULAS[name](place) % (1 << bits) for name, bits in names]
            assert got[number, thread].tolist() == wanted


def test_clocks_grow_equally():
    loop = "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100; @%p1 bra L;"
    reads = """mov.u64 %d2, %clock64; mov.u64 %d3, %globaltimer; mov.u32 %r2, %clock; mov.u32 %r3, %clock_hi;
    mov.u32 %r4, %globaltimer_lo; mov.u32 %r5, %globaltimer_hi; mov.b64 %d4, {%r2, %r3}; mov.b64 %d5, {%r4, %r5};"""
    stores = [" ".join(f"st.global.u64 [%d1+{8 * (4 * half + i)}], %d{2 + i};" for i in range(4)) for half in (0, 1)]
    runs = []
    for _ in range(2):
        got = np.zeros((2, 4), np.uint64)
        launch(program(f"{reads} {stores[0]} {loop} {reads} {stores[1]}"), 1, 1, (got,))
        runs.append(got.tolist())
    assert runs[0] == runs[1]
    (first, *others), (last, *more) = runs[0]
    assert others == [first] * 3 and more == [last] * 3
    assert 300 <= last - first < 400  # three instructions a round, and those between the reads


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mov.u32 %r1, %tid.q;", r"'%tid' has no component '\.q' \(got '%tid\.q'\); .* %tid\.x, %tid\.y, %tid\.z"),
        ("mov.u32 %r1, %tid.v;", r"'%tid' has no component '\.v'"),
        ("mov.u32 %r1, %ctaid.xy;", r"'%ctaid' has no component '\.xy'"),
        ("mov.u32 %r1, %ntid;", r"'%ntid' has no value as a whole .*; read one of %ntid\.x, %ntid\.y, %ntid\.z"),
        ("mov.u32 %r1, %laneid.x;", r"'%laneid' has no components \(got '%laneid\.x'\); read '%laneid'"),
        ("mov.u32 %r1, %lanid;", r"'%lanid' is not declared, and is no special register; known ones: .*%laneid"),
        ("mov.u32 %r1, %envreg32;", r"'%envreg32' is not declared, and is no special register; known ones: .*%envreg"),
        ("mov.u32 %r1, %zzz;", r"'%zzz' is not declared.*known ones: %tid, .*%clock64, .*%envreg31$"),
        ("mov.u64 %d1, %tid.x;", r"operand a of 'mov\.u64' must be 64 bits wide \(got %tid\.x, 32 bits or 16 bits\)"),
        ("mov.u32 %r1, %clock64;", r"operand a of 'mov\.u32' must be 32 bits wide \(got %clock64, 64 bits\)"),
        ("mov.u32 %r1, %is_explicit_cluster;", r"must be 32 bits wide \(got %is_explicit_cluster, a predicate\)"),
        ("add.u32 %r1, %tid.x, 1;", r"operand a of 'add\.u32' must be a declared register \(got %tid\.x\)"),
        ("mov.u32 %tid.x, 1;", r"'mov\.u32' must write to a register"),
        ("@%tid.x mov.u32 %r1, 1;", r"guard of 'mov\.u32' must be"),
        ("mov.u32 %r1, _;", r"'mov\.u32' reads '_'"),
    ],
)  # fmt: skip
def test_unknown_special_registers(line, message):
    with pytest.raises(PtxError, match=r"kernel\.ptx:7: .*" + message):
        launch(program(line), 1, 32, (np.zeros(1, np.uint64),))
