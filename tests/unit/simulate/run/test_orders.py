"""Seeded orders: every block runs once, for any grid, and seeds change the order."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import LimitError
from tilewright.programs import Program
from tilewright.simt import Limits, launch

#: Each block takes a ticket, and writes it in its place.
_TICKETS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry tickets(.param .u64 count, .param .u64 out)
{
  .reg .u64 %rd<5>; .reg .u32 %r<7>; .reg .pred %p;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p, %r1, 0;
  @%p ret;
  ld.param.u64 %rd1, [count];
  ld.param.u64 %rd2, [out];
  atom.global.add.u32 %r2, [%rd1], 1;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %nctaid.x;
  mov.u32 %r5, %ctaid.y;
  mad.lo.u32 %r6, %r5, %r4, %r3;
  mul.wide.u32 %rd3, %r6, 4;
  add.u64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r2;
  ret;
}
"""


@pytest.mark.parametrize("grid", [(1, 1), (2, 1), (7, 3), (64, 2), (13, 17)])
def test_every_block_runs_once_for_every_seed(grid: tuple[int, int]) -> None:
    program = Program.from_ptx(_TICKETS)
    blocks = grid[0] * grid[1]
    orders = set()
    for seed in (None, 0, 1, 2, 3, 4):
        count, out = np.zeros(1, np.uint32), np.full(blocks, 99999, np.uint32)
        launch(program, grid, (32, 1), (count, out), seed=seed, limits=Limits(threads=1))
        assert count[0] == blocks
        assert sorted(out) == list(range(blocks))
        orders.add(tuple(out))
    assert len(orders) > 1 or blocks == 1


def test_a_seed_costs_nothing_on_a_huge_grid() -> None:
    text = _TICKETS.replace("st.global.u32 [%rd4], %r2;", "")
    with pytest.raises(LimitError):
        launch(
            Program.from_ptx(text), (2**31 - 1, 1), (1, 1), (np.zeros(1, np.uint32), np.zeros(1, np.uint32)),
            seed=1, limits=Limits(seconds=0.3),
        )  # fmt: skip
