"""Warps that give way before strong accesses: those of two warps come in turn, with every register kept."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.programs import Program
from tilewright.simt import Limits, launch

#: Each warp, or its odd lanes, reads a word, computes a little, and stores one more: an update that is not atomic.
UPDATE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry update(.param .u64 count, .param .u64 out)
{{
  .reg .u64 %rd<4>; .reg .u32 %r<8>; .reg .f32 %f<2>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [count];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mad.lo.u32 %r4, %r2, %r3, %r1;
  cvt.rn.f32.u32 %f1, %r4;
  and.b32 %r5, %r1, 1;
  setp.eq.u32 %p1, %r5, 0;
  {branch}
  ld.volatile.{space}.u32 %r6, [{at}];
  add.u32 %r6, %r6, 1;
  st.volatile.{space}.u32 [{at}], %r6;
done:
  cvt.rzi.u32.f32 %r7, %f1;
  mul.wide.u32 %rd3, %r4, 4;
  add.u64 %rd3, %rd2, %rd3;
  st.global.u32 [%rd3], %r7;
  ret;
}}
"""


def counted(seed: int | None, *, grid: int, block: int, branch: str = "", threads: int | None = None) -> int:
    program = Program.from_ptx(UPDATE.format(branch=branch, space="global", at="%rd1"))
    count, out = np.zeros(1, np.uint32), np.zeros(grid * block, np.uint32)
    launch(program, grid, block, (count, out), seed=seed, limits=Limits(seconds=60, threads=threads))
    assert out.tolist() == list(range(grid * block))
    return int(count[0])


@pytest.mark.parametrize("branch", ["", "@%p1 bra done;"])
@pytest.mark.parametrize(("grid", "block"), [(1, 96), (3, 32), (2, 80)])
def test_the_updates_of_two_warps_come_in_turn(grid: int, block: int, branch: str) -> None:
    """In turn, all warps read before the first of them stores; one after the other, each sees the one before."""
    warps = grid * -(-block // 32)
    assert counted(0, grid=grid, block=block, branch=branch) == warps
    assert counted(1, grid=grid, block=block, branch=branch) == warps
    assert counted(2, grid=grid, block=block, branch=branch) < warps


def test_a_seed_replays_the_accesses_of_all_warps() -> None:
    seen = {seed: {counted(seed, grid=9, block=64, threads=8) for _ in range(3)} for seed in range(3, 15)}
    assert all(len(one) == 1 for one in seen.values())
    assert len(set.union(*seen.values())) > 2


def test_a_lock_excludes_warps_that_give_way() -> None:
    """A correct lock, with 40 blocks: more than may be in progress where none waits for another."""
    text = UPDATE.format(branch="", space="global", at="%rd1").replace(
        "ld.volatile",
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra done;\nL: atom.acquire.gpu.global.cas.b32 %r5, [%rd1+8], 0, 1; "
        "setp.ne.u32 %p1, %r5, 0; @%p1 bra L;\nld.volatile",
    )
    text = text.replace("done:", "atom.release.gpu.global.exch.b32 %r5, [%rd1+8], 0;\ndone:")
    for seed in (None, *range(5)):
        count = np.zeros(3, np.uint32)
        out = np.zeros(40 * 64, np.uint32)
        launch(Program.from_ptx(text), 40, 64, (count, out), seed=seed, limits=Limits(seconds=60))
        assert count.tolist() == [40, 0, 0]
