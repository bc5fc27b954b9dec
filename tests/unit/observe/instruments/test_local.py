import random

import numpy as np
import pytest

from tilewright import simt
from tilewright.instruments import Coalescing
from tilewright.programs import Program

from .handlers import FULL, LANES, Harness


@pytest.fixture(scope="module", params=[True, False], ids=["host", "baseline"])
def harness(request):
    return Harness(Coalescing(("local",)), native=request.param)


def brute_force(addresses, mask, size):
    """Byte by byte: the same word of 32 lanes makes a row of 128 bytes."""
    touched = set()
    for lane, address in enumerate(addresses):
        if mask >> lane & 1:
            for byte in range(address, address + size):
                word, within = divmod(byte, 4)
                touched.add(128 * word + 4 * lane + within)
    if not touched:
        return [0, 0, 0, 0, 0]
    return [1, mask.bit_count(), len({byte // 32 for byte in touched}), len(touched), -(-len(touched) // 32)]


@pytest.mark.parametrize(
    ("addresses", "size", "sectors"),
    [
        ([0] * LANES, 4, 4),  # the same word of all lanes: coalesced
        ([1] * LANES, 1, 4),  # one byte of it moves as much
        ([64] * LANES, 8, 8),
        ([16] * LANES, 16, 16),
        ([4 * lane for lane in range(LANES)], 4, 32),  # a different word in each lane
        ([4 * (lane // 8) for lane in range(LANES)], 4, 4),  # by eights, which share a sector
    ],
)
def test_known_patterns(harness, addresses, size, sectors):
    assert harness.access(addresses, FULL, size)[2] == sectors
    assert harness.access(addresses, FULL, size) == brute_force(addresses, FULL, size)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32])
def test_agrees_with_brute_force(harness, size):
    rng = random.Random(size)
    for trial in range(200):
        spread = rng.choice([1, 2, 8, 100])
        start = rng.randrange(100)
        addresses = [size * (start + rng.randrange(spread)) for _ in range(LANES)]
        mask = rng.choice([FULL, 0, 1, 1 << 31, rng.getrandbits(32), rng.getrandbits(32) & rng.getrandbits(32)])
        assert harness.access(addresses, mask, size) == brute_force(addresses, mask, size), trial


TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry spill(.param .u64 x) {
  .local .align 8 .b8 room[256];
  .reg .b32 %r<9>; .reg .b64 %d<9>;
  mov.u32 %r1, %tid.x; mov.u64 %d1, room; shl.b32 %r2, %r1, 2; cvt.u64.u32 %d2, %r2; add.u64 %d3, %d1, %d2;
  st.local.u32 [room+8], %r1;
  st.local.u32 [%d3], %r1;
  ld.local.u64 %d4, [room+16];
  ret;
}"""


def test_at_launch():
    run = simt.launch(Program.from_ptx(TEXT), 2, 48, (np.zeros(1),), instruments=[Coalescing(("local",))])
    rows = [(r.site.access, r.requests, r.lanes, r.sectors, r.bytes_used) for r in run.results["coalescing"].rows]
    # two blocks, each a full warp and one of 16 lanes
    assert rows == [
        ("store", 4, 96, 2 * (4 + 2), 4 * 96),
        ("store", 4, 96, 2 * (32 + 16), 4 * 96),
        ("load", 4, 96, 2 * (8 + 4), 8 * 96),
    ]
