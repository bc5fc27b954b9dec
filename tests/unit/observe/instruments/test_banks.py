import random
from collections import defaultdict

import numpy as np
import pytest

from tilewright.instruments import Banks

from .handlers import FULL, LANES, NO_ACCESS, Harness, site, watched


@pytest.fixture(scope="module", params=[True, False], ids=["host", "baseline"])
def harness(request):
    return Harness(Banks(), native=request.param)


def brute_force(addresses, mask, size):
    """Group by group, word by word, bank by bank."""
    lanes_per_group = {8: 16, 16: 8}.get(size, 32)
    wavefronts = ideal = 0
    for start in range(0, LANES, lanes_per_group):
        words = defaultdict(set)
        for lane in range(start, start + lanes_per_group):
            if mask >> lane & 1:
                for byte in range(size):
                    word = (addresses[lane] + byte) // 4
                    words[word % 32].add(word)
        if words:
            ideal += 1
            wavefronts += max(len(distinct) for distinct in words.values())
    return [int(mask != 0), mask.bit_count(), wavefronts, ideal]


def strided(stride, base=0):
    return [base + stride * lane for lane in range(LANES)]


@pytest.mark.parametrize(
    ("addresses", "size", "wavefronts", "ideal"),
    [
        ([64] * LANES, 4, 1, 1),  # broadcast
        (strided(4), 4, 1, 1),  # neighbours
        (strided(4, 20), 4, 1, 1),  # neighbours, wrapping around the banks
        (strided(1), 1, 1, 1),  # four lanes a word
        (strided(8), 4, 2, 1),  # every other word
        (strided(64), 4, 16, 1),  # a column of a 16-wide float tile
        (strided(128), 4, 32, 1),  # a column of a 32-wide float tile
        (strided(132), 4, 1, 1),  # the same, padded by one
        (strided(8), 8, 2, 2),
        (strided(16), 8, 4, 2),
        (strided(16), 16, 4, 4),
        (strided(32), 16, 8, 4),
        ([0] * LANES, 8, 2, 2),  # a broadcast also goes half warp by half warp
        ([0] * LANES, 16, 4, 4),
        ([4 * (lane // 16 * 16 + lane % 16) for lane in range(LANES)], 4, 1, 1),
        ([256 * (lane // 8) for lane in range(LANES)], 4, 4, 1),  # 8 lanes a word, four words in one bank
    ],
)
def test_known_patterns(harness, addresses, size, wavefronts, ideal):
    assert harness.access(addresses, FULL, size) == [1, 32, wavefronts, ideal]
    assert brute_force(addresses, FULL, size) == [1, 32, wavefronts, ideal]


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_agrees_with_brute_force(harness, size):
    rng = random.Random(size)
    for trial in range(400):
        units = rng.choice([1, 3, 32, 64, 1000, 14000])
        step = rng.choice([1, 1, 2, 8, 32])
        addresses = [size * step * rng.randrange(units) for _ in range(LANES)]
        mask = rng.choice([FULL, 0, 1, 1 << 31, 0xFFFF, 0xFF00, rng.getrandbits(32), 0x0101_0101])
        assert harness.access(addresses, mask, size) == brute_force(addresses, mask, size), trial


def test_groups_without_lanes_cost_nothing(harness):
    assert harness.access(strided(16), 0x0000_00FF, 16) == [1, 8, 1, 1]
    assert harness.access(strided(16), 0x8000_0001, 16) == [1, 2, 2, 2]
    assert harness.access(strided(8), 0xFFFF_0000, 8) == [1, 16, 1, 1]
    assert harness.access(strided(8), 0, 8) == [0, 0, 0, 0]


def test_which_sites():
    assert watched(Banks(), site("shared"), site("shared", "atomic")) == [True, True]
    assert watched(Banks(), site("global"), site("generic"), NO_ACCESS) == [False, False, False]


def test_totals_keep_kinds_of_access_separate():
    sites = [site("shared"), site("shared", "store"), site("shared", "atomic"), site("shared")]
    counters = np.array([[1, 32, 16, 1], [2, 64, 5, 2], [3, 96, 40, 3], [1, 32, 4, 4]], np.uint64)
    result = Banks().collect(sites, counters)
    assert (
        result.total("load", "requests"),
        result.total("load", "wavefronts"),
        result.total("load", "excess_wavefronts"),
    ) == (2, 20, 15)
    assert (
        result.total("store", "requests"),
        result.total("store", "wavefronts"),
        result.total("store", "excess_wavefronts"),
    ) == (2, 5, 3)
    assert (result.total("atomic", "requests"), result.total("atomic", "wavefronts")) == (3, 40)
    assert result.shared_bank_conflicts == 18
    assert [row.excess_wavefronts for row in result.rows] == [15, 3, 37, 0]
