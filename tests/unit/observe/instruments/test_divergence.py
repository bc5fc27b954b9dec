import random

import numpy as np
import pytest

from tilewright import simt
from tilewright.instruments import Divergence
from tilewright.programs import Program

from .handlers import FULL, Harness

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry part(.param .u32 limit, .param .u32 every) {
  .reg .b32 %r<9>; .reg .pred %p<5>;
  ld.param.u32 %r2, [limit]; ld.param.u32 %r3, [every];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, %r2;
  @%p1 bra low;
  mov.u32 %r4, 0;
low:
  and.b32 %r5, %r1, %r3;
again:
  setp.eq.u32 %p2, %r5, 0;
  @%p2 bra done;
  sub.u32 %r5, %r5, 1;
  bra again;
done:
  ret;
}"""


def test_handler_counts_divergent_branches():
    harness = Harness(Divergence())
    rng = random.Random(1)
    for _ in range(200):
        mask = rng.choice([FULL, 1, 0xFFFF, rng.getrandbits(32) | 1])
        taken = mask & rng.choice([0, FULL, rng.getrandbits(32)])
        parts = len({taken >> lane & 1 for lane in range(32) if mask >> lane & 1}) > 1
        assert harness.branch(mask, taken) == [1, int(parts), mask.bit_count(), taken.bit_count()]


@pytest.mark.parametrize(("limit", "every"), [(0, 0), (100, 0), (40, 0), (32, 7), (5, 3)])
def test_branches_against_a_walk_of_every_warp(limit, every):
    threads = 80
    run = simt.launch(
        Program.from_ptx(TEXT), 1, threads, (np.uint32(limit), np.uint32(every)), instruments=[Divergence()]
    )
    first, loop = run.results["divergence"].rows
    warps = [range(start, min(start + 32, threads)) for start in range(0, threads, 32)]
    assert first.branches == len(warps)
    assert first.divergent == sum(len({t < limit for t in warp}) > 1 for warp in warps)
    # each lane leaves the loop when its count is 0; the others continue together
    walk = [[{t & every for t in warp}] for warp in warps]
    assert loop.branches == sum(max(counts[0]) + 1 for counts in walk)
    assert loop.divergent == sum(len(counts[0]) - 1 for counts in walk)
    assert loop.lanes == sum((t & every) + 1 for t in range(threads))
    assert loop.taken == threads
