"""How many blocks a multiprocessor holds, by the columns of tensor memory that each allocates."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program
from tilewright.simulate.programs.launch_rules import resident_blocks, tensor_columns

TEXT = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry holds(.param .u64 p_out)
{{
.reg .b32 %t, %r<3>; .reg .b64 %out, %at;
.shared .align 4 .b32 place;
ld.param.u64 %out, [p_out];
{allocations}
ld.shared.b32 %r1, [place];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, {columns};
mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %out;
st.global.b32 [%at], %t;
ret;
}}
"""
ALLOCATION = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], {};"


def holds(columns: int, allocations: str = ALLOCATION) -> Program:
    """A kernel whose blocks of one warp allocate some columns."""
    return Program.from_ptx(TEXT.format(columns=columns, allocations=allocations.format(columns)))


@pytest.mark.parametrize(("columns", "blocks"), [(512, 1), (256, 2), (128, 4), (32, 16)])
def test_blocks_share_the_columns_of_a_multiprocessor(columns: int, blocks: int) -> None:
    program, b200 = holds(columns), tw.machine.gpu("b200")
    assert tensor_columns(program) == columns
    assert resident_blocks(program, b200, (32, 1, 1), 0) == blocks * b200.multiprocessors
    out = np.zeros(32, np.int32)
    fits = tw.profile(program, 300, 32, (out,), gpu="b200").occupancy
    assert fits is not None
    assert (fits.occupancy.active_blocks, fits.occupancy.limiter) == (blocks, "tensor memory")
    assert tw.predict(program, 300, 32, (out,), gpu="b200").resident_blocks == blocks


def test_columns_of_all_allocations_count_where_they_are_constant() -> None:
    twice = f"{ALLOCATION} {ALLOCATION.format(64)}"
    assert tensor_columns(holds(128, twice)) == 192
    assert tensor_columns(holds(64, f"mov.b32 %r2, {{}}; {ALLOCATION.format('%r2')}")) == 64
    assert tensor_columns(holds(64, f"mov.b32 %r2, {{}}; mov.b32 %r2, 32; {ALLOCATION.format('%r2')}")) == 0
    assert tensor_columns(holds(512, twice)) == 512
    assert tensor_columns(holds(0, "")) == 0
