import random

import numpy as np
import pytest

from tilewright.instruments import Coalescing
from tilewright.simulate.events import EventKind, Site

from .handlers import FULL, LANES, NO_ACCESS, Harness, site, watched


@pytest.fixture(scope="module", params=[True, False], ids=["host", "baseline"])
def harness(request):
    return Harness(Coalescing(), native=request.param)


def brute_force(addresses, mask, size):
    """Byte by byte, with a set."""
    touched = {address + byte for lane, address in enumerate(addresses) if mask >> lane & 1 for byte in range(size)}
    if not mask:
        return [0, 0, 0, 0, 0]
    return [1, mask.bit_count(), len({byte // 32 for byte in touched}), len(touched), -(-len(touched) // 32)]


@pytest.mark.parametrize(
    ("addresses", "size", "sectors"),
    [
        ([4096] * LANES, 4, 1),  # S7: one element of A for all lanes
        ([4096 + 4 * lane for lane in range(LANES)], 4, 4),  # S7: 32 neighbours of B
        ([4096 + 8 * lane for lane in range(LANES)], 8, 8),
        ([4096 + 16 * lane for lane in range(LANES)], 16, 16),
        ([4096 + lane for lane in range(LANES)], 1, 1),
        ([4100 + 4 * lane for lane in range(LANES)], 4, 5),  # shifted by one element
        ([4096 + 128 * lane for lane in range(LANES)], 4, 32),  # a column
        ([4096 + 32 * lane for lane in range(LANES)], 32, 32),
    ],
)
def test_known_patterns(harness, addresses, size, sectors):
    counted = harness.access(addresses, FULL, size)
    assert counted[2] == sectors
    assert counted == brute_force(addresses, FULL, size)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32])
def test_agrees_with_brute_force(harness, size):
    rng = random.Random(size)
    for trial in range(300):
        spread = rng.choice([1, 40, 300, 5000, 1 << 30])
        base = rng.randrange(1 << rng.choice([4, 20, 44]))
        addresses = [(base + rng.randrange(spread)) * size for _ in range(LANES)]
        if trial % 2:
            addresses.sort()  # ascending addresses are counted in another way
        mask = rng.choice([FULL, 0, 1, 1 << 31, rng.getrandbits(32), rng.getrandbits(32) & rng.getrandbits(32)])
        assert harness.access(addresses, mask, size) == brute_force(addresses, mask, size), trial


def test_inactive_lanes_do_not_count(harness):
    assert harness.access([1 << (lane + 10) for lane in range(LANES)], 0b1001, 4) == [1, 2, 2, 8, 1]


def test_counters_add_up():
    harness = Harness(Coalescing())
    for _ in range(3):
        harness.access([4 * lane for lane in range(LANES)], FULL, 4)
    assert harness.counters.tolist() == [[3, 96, 12, 384, 12]]


def test_s7_totals():
    """Width 32, block (32, 32): 32 warps; 32 steps of a broadcast and a row each, then one row stored."""
    harness = Harness(Coalescing())
    for row in range(32):
        for step in range(32):
            harness.access([4 * (32 * row + step)] * LANES, FULL, 4)
            harness.access([8192 + 4 * (32 * step + lane) for lane in range(LANES)], FULL, 4)
    loads = harness.counters.copy()
    harness.counters[:] = 0
    for row in range(32):
        harness.access([16384 + 4 * (32 * row + lane) for lane in range(LANES)], FULL, 4)
    result = Coalescing().collect([site(), site(access="store")], np.vstack([loads, harness.counters]))
    assert result.total("load", "sectors") == 5120
    assert result.total("store", "sectors") == 128
    assert result.rows[0].lanes == 2 * 32**3
    assert result.rows[1].lanes == 32**2


def test_which_sites():
    assert watched(Coalescing(), site("global"), site("global", "store")) == [True, True]
    assert watched(Coalescing(), site("shared"), site("local"), NO_ACCESS) == [False, False, False]


@pytest.mark.parametrize("opcode", ["ld.const.f32", "ld.param.u64", "ld.param::entry.u64"])
def test_constants_are_read_through_another_cache(opcode):
    assert Coalescing().handler(Site(EventKind.ACCESS, 1, "", opcode, 1, "global", "load", 4)) is None


def test_totals_keep_kinds_of_access_separate():
    sites = [site(), site(), site(access="store"), site(access="atomic")]
    counters = np.array([[1, 32, 4, 128, 4], [2, 64, 16, 256, 8], [3, 96, 5, 30, 3], [7, 7, 8, 28, 7]], np.uint64)
    result = Coalescing().collect(sites, counters)
    assert (result.total("load", "requests"), result.total("load", "sectors")) == (3, 20)
    assert (result.total("store", "requests"), result.total("store", "sectors")) == (3, 5)
    assert (result.total("atomic", "requests"), result.total("atomic", "sectors")) == (7, 8)
    assert result.rows[1].efficiency == 0.5
    assert result.rows[1].sectors_per_request == 8


def test_nothing_ran():
    result = Coalescing().collect([site()], np.zeros((1, 5), np.uint64))
    assert result.total("load", "sectors") == 0
    assert result.rows[0].efficiency == 0.0
    assert result.rows[0].sectors_per_request == 0.0
    assert Coalescing().collect([], np.zeros((0, 5), np.uint64)).rows == ()
