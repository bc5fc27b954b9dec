"""Moves between registers and tensor memory, copies of shared memory, and what allocations refuse.

Which lane's register is which cell is worked out from CUTLASS's layouts, which count bits of cells and lanes of
tensor memory. Source: NVIDIA/cutlass, include/cute/atom/copy_traits_sm100.hpp (SM100_TMEM_LOAD_*, SM100_UTCCP_*).
"""

from __future__ import annotations

import numpy as np
import pytest
from cute_layouts import Modes, offsets
from tensor_kernels import AWAIT, LANES, THREADS, noise, run, text

from tilewright.errors import KernelError, PtxError
from tilewright.programs import Program
from tilewright.simt import launch

#: Of each shape the bits of a lane that `.x1` names, and where threads and the bits of their registers lie among them.
SHAPES: dict[str, tuple[int, Modes, Modes]] = {
    "32x32b": (32, [(32, 32)], [(32, 1)]),
    "16x64b": (64, [(2, 512), (2, 32), (8, 64)], [(32, 1)]),
    "16x128b": (128, [(4, 32), (8, 128)], [(32, 1), (2, 1024)]),
    "16x256b": (256, [(4, 64), (8, 256)], [(64, 1), (2, 2048)]),
}


def cells(shape: str, times: int) -> list[list[tuple[int, int]]]:
    """(lane, column) of each register of each thread: the first of `times` pieces that lie side by side."""
    bits, threads, values = SHAPES[shape]
    found = []
    for start in offsets(threads):
        mine = [divmod(start + at, bits) for at in offsets(values) if at % 32 == 0]
        found.append([(lane, bit // 32 + bits // 32 * i) for i in range(times) for lane, bit in mine])
    return found


def test_moves_are_those_of_cutlass() -> None:
    """Each shape, from each place that it may begin at: read from noise, and written over it."""
    for shape, times, first in (
        ("32x32b", 4, 0), ("16x64b", 2, 0), ("16x64b", 1, 16), ("16x128b", 2, 16), ("16x256b", 2, 0),
    ):  # fmt: skip
        expected = cells(shape, times)
        count = len(expected[0])
        listed = "{" + ", ".join(f"%r{i}" for i in range(count)) + "}"
        outs = "".join(f"st.global.b32 [%at+{4 * i}], %r{i};\n" for i in range(count))
        body = f"""
        add.u32 %move, %own, {(first << 16) + 40};
        tcgen05.ld.sync.aligned.{shape}.x{times}.b32 {listed}, [%move];
        tcgen05.wait::ld.sync.aligned;
        add.u32 %move, %own, {(first << 16) + 300};
        tcgen05.st.sync.aligned.{shape}.x{times}.b32 [%move], {listed};
        tcgen05.wait::st.sync.aligned;
        mul.wide.u32 %w, %t, 64; add.u64 %at, %given, %w;
        {outs}
        """
        tensor, given = noise(), np.zeros((THREADS, 16), np.uint32)
        found = run(text(body), tensor, given=given)
        after = tensor.copy()
        for thread in range(THREADS):
            for i, (lane, column) in enumerate(expected[thread % 32]):
                at = thread // 32 * 32 + first + lane
                assert given[thread, i] == tensor[at, 40 + column], (shape, thread, i)
                after[at, 300 + column] = tensor[at, 40 + column]
        assert np.array_equal(found, after), shape


def test_two_halves_and_columns_of_16_bits() -> None:
    """`.16x32bx2` names columns of its second half by a literal; `.pack::16b` joins columns, `.unpack` parts them."""
    body = """
    tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r0, %r1}, [%own], 7;
    tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {%r2, %r3}, [%own];
    tcgen05.wait::ld.sync.aligned;
    add.u32 %move, %own, 100;
    tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%move], 7, {%r0, %r1};
    add.u32 %move, %own, 200;
    tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%move], {%r2, %r3};
    tcgen05.wait::st.sync.aligned;
    """
    tensor = noise(1)
    found = run(text(body), tensor)
    after = tensor.copy()
    lower = np.arange(LANES) % 32 < 16
    for column in (0, 1, 7, 8):
        after[lower, 100 + column] = tensor[lower, column]
    after[:, 200:204] = tensor[:, :4] & 0xFFFF
    assert np.array_equal(found, after)


@pytest.mark.parametrize(
    "shape", ["128x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4"]
)
def test_copies_of_shared_memory(shape: str) -> None:
    """Lines of 16 bytes in atoms of eight; copies go to the warps that the name says."""
    lines, bits = (int(x) for x in shape.partition(".")[0].removesuffix("b").split("x"))
    rng = np.random.default_rng(2)
    content = rng.integers(0, 1 << 32, (lines, bits // 32), dtype=np.uint32)
    shared = np.zeros(lines * 32, np.uint8)
    leading, stride = 128, 256  # of units along a line, and of eight lines
    for line in range(lines):
        for unit in range(bits // 128):
            at = line // 8 * stride + line % 8 * 16 + unit * leading
            shared[at : at + 16] = content[line, 4 * unit : 4 * unit + 4].view(np.uint8)
    matrix = leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46
    body = f"""
    cvt.u64.u32 %l0, %s; shr.u64 %l0, %l0, 4; or.b64 %l0, %l0, {matrix};
    add.u32 %move, %tensor, 64;
    @%q tcgen05.cp.cta_group::1.{shape} [%move], %l0;
    {AWAIT}"""
    tensor = noise(3)
    found = run(text(body, shared_bytes=shared.size), tensor, shared)
    groups = {"02_13": (0, 1, 0, 1), "01_23": (0, 0, 1, 1)}.get(shape[-5:], (0, 1, 2, 3) if lines == 128 else (0,) * 4)
    after = tensor.copy()
    for warp, part in enumerate(groups):
        after[32 * warp : 32 * warp + 32, 64 : 64 + bits // 32] = content[32 * part : 32 * part + 32]
    assert np.array_equal(found, after)


KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k() {{
.shared .align 4 .b32 place, other;
.reg .b32 %t, %r<9>; .reg .pred %q;
{body}
ret;
}}
"""
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], {};\n"
LOAD = "ld.shared.b32 %t, [place];\n"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, {};\n"


def bare(body: str, threads: int = 32) -> None:
    launch(Program.from_ptx(KERNEL.format(body=body)), 1, threads, (), gpu="b200")


def test_columns_come_and_go() -> None:
    """All 512 columns in parts, twice over, and the address is generic where no space is named."""
    parts = "".join(ALLOC.format(n) + LOAD + f"mov.b32 %r{i}, %t;\n" for i, n in enumerate((256, 128, 64, 32, 32)))
    free = "".join(f"mov.b32 %t, %r{i};\n" + FREE.format(n) for i, n in enumerate((256, 128, 64, 32, 32)))
    bare(parts + free + parts + free)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (ALLOC.format(48), "must be 32, 64, 128, 256 or 512 .got 48."),
        (ALLOC.format(0), "got 0"),
        (ALLOC.format(1024), "got 1,024"),
        (ALLOC.format(512) + ALLOC.format(32), "32 adjacent columns must be free .got 0 free"),
        ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + ALLOC.format(32), "gives up its permit"),
        (ALLOC.format(64), "must free its tensor memory before it ends .got 64 columns"),
        (ALLOC.format(64) + LOAD + FREE.format(32), "one whole allocation.*got 32 columns at address 0x0"),
        (ALLOC.format(64) + LOAD + "add.u32 %t, %t, 32;\n" + FREE.format(32), "at address 0x20"),
        (LOAD.replace("ld.shared.b32 %t, [place]", "mov.b32 %t, -1") + FREE.format(32), "0xffffffff"),
    ],
)
def test_allocations_that_are_refused(body: str, said: str) -> None:
    with pytest.raises(KernelError, match=said):
        bare(body)


@pytest.mark.parametrize(
    ("move", "said"),
    [
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%t+64];", "got 1 from column 64"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%t+63];", "got 2 from column 63"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%t+65536];", "got lane 1 in warp 0"),
        ("tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r0}, [%t+2097152];", "got lane 32 in warp 0"),
        ("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r0}, [%t], 64;", "from column 64"),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%t+65535], {%r0};", "from column 65,535"),
        ("mov.b32 %t, -1; tcgen05.st.sync.aligned.32x32b.x1.b32 [%t], {%r0};", "got lane 65,535"),
    ],
)
def test_moves_outside_of_what_is_allocated(move: str, said: str) -> None:
    with pytest.raises(KernelError, match=said):
        bare(ALLOC.format(64) + LOAD + "mov.b32 %r0, 0; mov.b32 %r1, 0;\n" + move)


def test_blocks_begin_without_columns() -> None:
    """What one block of a grid left allocated is a fault of that block, whichever host thread runs the next one."""
    body = ALLOC.format(512) + LOAD + FREE.format(512)
    launch(Program.from_ptx(KERNEL.format(body=body)), 100, 32, (), gpu="b200")


def test_operands_are_looked_at() -> None:
    for wrong, said in (
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0}, [%t];", "2 registers in braces"),
        ("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r0}, [%t], %r1;", "a literal number of columns"),
        ("tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r0}, [%t];", "is not implemented"),
        ("tcgen05.shift.cta_group::1.down [%t];", "is not implemented"),
    ):
        with pytest.raises(PtxError, match=said):
            bare(wrong)
