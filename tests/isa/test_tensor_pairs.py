"""Products of two blocks: each has half of the rows of A and of the columns of B, and D for its rows by all columns."""

from __future__ import annotations

import numpy as np
import pytest
from test_tensor_products import small, values
from test_tensor_sparse import METADATA, SPARSE, expanded, places, put_metadata

from tilewright.errors import KernelError
from tilewright.programs import Program
from tilewright.simt import launch

K, N = 16, 32
#: What each block does: its own operands come from its part of an array, the first one multiplies, both read their D.
SOURCE = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p_in, .param .u64 p_out) {{
.shared .align 128 .b8 tile[{bytes}];
.shared .align 8 .b64 bar;
.shared .align 4 .b32 place;
.reg .b32 %t, %i, %v, %s, %columns, %own, %rank, %base, %warp, %r<{columns}>;
.reg .b64 %from, %w, %out, %a, %b;
.reg .pred %q, %more, %first, %no, %done, %both;
ld.param.u64 %from, [p_in]; ld.param.u64 %out, [p_out];
mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; shr.u32 %warp, %t, 5;
mov.u32 %s, tile; mul.lo.u32 %base, %rank, {bytes}; shl.b32 %i, %t, 2;
copy: setp.ge.u32 %more, %i, {bytes}; @%more bra copied;
add.u32 %v, %i, %base; cvt.u64.u32 %w, %v; add.u64 %w, %w, %from; ld.global.b32 %v, [%w];
add.u32 %own, %s, %i; st.shared.b32 [%own], %v; add.u32 %i, %i, 512; bra copy;
copied:
setp.eq.u32 %q, %t, 0; setp.ne.u32 %no, %t, %t; setp.eq.u32 %first, %warp, 0;
@%q mbarrier.init.shared.b64 [bar], 1;
@%first tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [place], 64;
fence.proxy.async;
barrier.cluster.arrive; barrier.cluster.wait;
ld.shared.b32 %columns, [place];
setp.eq.u32 %both, %rank, 0; and.pred %both, %both, %q;
cvt.u64.u32 %a, %s; and.b64 %a, %a, 0x3ffff; shr.u64 %a, %a, 4; add.u64 %b, %a, {rows};
or.b64 %a, %a, {layout}; or.b64 %b, %b, {layout};
mov.u32 %v, {instruction};
@%both tcgen05.mma.cta_group::2.kind::f16 [%columns], %a, %b, %v, %no;
mov.b16 %mask, 3;
@%both tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], %mask;
wait: mbarrier.try_wait.parity.shared.b64 %done, [bar], 0; @!%done bra wait;
shl.b32 %own, %warp, 21; add.u32 %own, %own, %columns;
tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{list}}}, [%own];
tcgen05.wait::ld.sync.aligned;
mad.lo.u32 %i, %rank, 128, %t; mul.wide.u32 %w, %i, {row}; add.u64 %out, %out, %w;
{stores}
barrier.cluster.arrive; barrier.cluster.wait;
@%first tcgen05.dealloc.cta_group::2.sync.aligned.b32 %columns, 64;
ret;
}}
""".replace(".reg .b64 %from", ".reg .b16 %mask; .reg .b64 %from")


def program(m: int) -> Program:
    columns = N if m == 256 else N // 2
    return Program.from_ptx(
        SOURCE.format(
            bytes=(m // 2 + N // 2) * 2 * K, columns=columns, rows=m // 2 * 2 * K >> 4, row=4 * columns,
            layout=8 << 16 | 16 << 32 | 1 << 46, instruction=1 << 4 | N >> 3 << 17 | m >> 4 << 24,
            list=", ".join(f"%r{i}" for i in range(columns)),
            stores="".join(f"st.global.b32 [%out+{4 * i}], %r{i};\n" for i in range(columns)),
        )
    )  # fmt: skip


def tiles(lines: np.ndarray) -> np.ndarray:
    """Lines of 16 halves in atoms of 8 lines of 16 bytes, the two of each eight lines side by side."""
    return lines.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3).ravel()


@pytest.mark.parametrize("m", [256, 128])
def test_rows_and_columns_of_two_blocks(m: int) -> None:
    """Of 128 rows each block has 64, whose columns' second half lies in the upper lanes."""
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, (lines, K)).astype(np.float16) for lines in (m, N))
    given = np.concatenate([
        tiles(x) for rank in range(2) for x in (a[rank * m // 2 :][: m // 2], b[rank * N // 2 :][: N // 2])
    ])  # fmt: skip
    columns = N if m == 256 else N // 2
    out = np.zeros((2, 128, columns), np.float32)
    launch(program(m), 2, 128, (given.view(np.uint16), out.reshape(-1)), cluster=2, gpu="b200")
    truth = a.astype(np.float32) @ b.astype(np.float32).T
    found = out if m == 256 else np.concatenate([out[:, :64], out[:, 64:]], axis=2)
    assert np.array_equal(found.reshape(m, N), truth)


#: Each thread's metadata are two words behind the operands of both blocks; they go to columns 40 and 41.
PUT_METADATA = """
mad.lo.u32 %i, %rank, 1024, {start}; shl.b32 %v, %t, 3; add.u32 %i, %i, %v; cvt.u64.u32 %w, %i; add.u64 %w, %w, %from;
ld.global.v2.b32 {{%r0, %r1}}, [%w]; shl.b32 %own, %warp, 21; add.u32 %own, %own, %columns;
tcgen05.st.sync.aligned.32x32b.x2.b32 [%own+40], {{%r0, %r1}}; tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; barrier.cluster.arrive; barrier.cluster.wait; tcgen05.fence::after_thread_sync;
"""


@pytest.mark.parametrize("selector", [0, 1])
def test_a_sparse_a_of_two_blocks(selector: int) -> None:
    """Each block has the metadata of its own rows: CUTLASS's SM100_MMA_F16BF16_2x1SM_SS_SPARSE, `tmem_e_frg`."""
    rng, m = np.random.default_rng(selector), 256
    a, b = small(rng, (m, K), "f16"), small(rng, (N, 2 * K), "f16")
    there = places(rng, "f16", m)
    operands, metadata = [], []
    for rank in range(2):
        rows = slice(rank * m // 2, (rank + 1) * m // 2)
        columns = b[rank * N // 2 :][: N // 2].reshape(-1, 8, 4, 8).transpose(0, 2, 1, 3).ravel()
        operands += [tiles(a[rows]), columns]
        tensor = np.zeros((128, 512), np.uint32)
        put_metadata(tensor, "f16", there[rows], METADATA + selector)
        metadata.append(tensor[:, METADATA : METADATA + 2].ravel())
    own, dense = len(operands[0]) + len(operands[1]), (m // 2 + N // 2) * K
    text = program(m).ptx.replace(f"tile[{2 * dense}]", f"tile[{2 * own}]")
    text = text.replace(f"%rank, {2 * dense}", f"%rank, {2 * own}").replace(f"%i, {2 * dense}", f"%i, {2 * own}")
    layout = 8 << 16 | 16 << 32 | 1 << 46
    text = text.replace(f"or.b64 %b, %b, {layout}", f"or.b64 %b, %b, {8 << 16 | 32 << 32 | 1 << 46}")
    dense_descriptor = 1 << 4 | N >> 3 << 17 | m >> 4 << 24
    text = text.replace(f"mov.u32 %v, {dense_descriptor}", f"mov.u32 %v, {dense_descriptor | SPARSE | selector}")
    product = "tcgen05.mma.sp.cta_group::2.kind::f16 [%columns], %a, %b, [%columns+40], %v, %no;"
    text = text.replace(MULTIPLY, product)
    text = text.replace("setp.eq.u32 %both", PUT_METADATA.format(start=4 * own) + "setp.eq.u32 %both")
    given = np.concatenate([*operands, *(words.view(np.uint16) for words in metadata)])
    out = np.zeros((m, N), np.float32)
    launch(Program.from_ptx(text), 2, 128, (given, out.reshape(-1)), cluster=2, gpu="b200")
    assert np.array_equal(out, expanded(values(a, "f16"), there) @ values(b, "f16").T)


#: The product, and in its place a copy of A's rows.
MULTIPLY = "tcgen05.mma.cta_group::2.kind::f16 [%columns], %a, %b, %v, %no;"
COPY = "tcgen05.cp.cta_group::2.128x256b [%columns], %a;"


def test_a_copy_for_two_blocks_takes_each_ones_lines() -> None:
    """As DeepGEMM has it: the first block issues the copy, and each has its own scales in shared memory."""
    rows = np.random.default_rng(1).integers(0, 1 << 16, (2, 128, K), dtype=np.uint16)
    given = np.concatenate([np.concatenate([tiles(of_block), np.zeros(N // 2 * K, np.uint16)]) for of_block in rows])
    out = np.zeros((2, 128, N), np.uint32)
    text = program(256).ptx
    assert MULTIPLY in text
    copy = Program.from_ptx(text.replace(MULTIPLY, COPY))
    launch(copy, 2, 128, (given, out.reshape(-1)), cluster=2, gpu="b200")
    assert np.array_equal(out[:, :, : K // 2], rows.view(np.uint32))


@pytest.mark.parametrize("instruction", [MULTIPLY, COPY])
def test_a_block_alone_has_no_peer(instruction: str) -> None:
    given, out = np.zeros(8192, np.uint16), np.zeros(8192, np.float32)
    alone = Program.from_ptx(program(256).ptx.replace(MULTIPLY, instruction))
    with pytest.raises(KernelError, match="clusters with an even number of blocks"):
        launch(alone, 1, 128, (given, out), cluster=1, gpu="b200")
