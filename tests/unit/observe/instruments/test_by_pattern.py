"""Accesses of a known pattern have the same counts as by their addresses, and as by brute force."""

from __future__ import annotations

import random

import pytest

from tilewright.instruments import Banks, Coalescing

from .handlers import FULL, LANES, Harness

PATTERNS = {
    "same": lambda lane, rng: 0,
    "unit": lambda lane, rng: lane,
    "column": lambda lane, rng: 33 * lane,
    "tile": lambda lane, rng: lane % 16 + 40 * (lane // 16),
    "turned": lambda lane, rng: 16 * (lane % 16) + lane // 16,
    "back": lambda lane, rng: -lane,
    "any": lambda lane, rng: rng.randrange(-500, 500),
}


@pytest.fixture(scope="module", params=["global", "local", "shared"])
def harness(request: pytest.FixtureRequest) -> Harness:
    return Harness(Banks() if request.param == "shared" else Coalescing((request.param,)))


SIZES = (1, 2, 4, 8, 16)


# Each is a handler to be compiled: `make test` has every pattern in 4 bytes, and in one or two of the other sizes.
@pytest.mark.parametrize(("name", "size"), [
    pytest.param(name, size, marks=[] if size == 4 or (i + j) % 3 == 0 else [pytest.mark.volume])
    for i, name in enumerate(PATTERNS) for j, size in enumerate(SIZES)
])  # fmt: skip
def test_a_pattern_counts_as_its_addresses_do(harness: Harness, name: str, size: int) -> None:
    rng = random.Random(f"{name} {size}")
    for shift in (0, 3) if size == 4 else (3,):  # each has its own code; at 0 the pattern starts at its base
        offsets = tuple(size * (PATTERNS[name](lane, rng) + shift) for lane in range(LANES))
        for _ in range(12):
            base = 1 << 20 | size * rng.randrange(1 << 10)
            for mask in (FULL, FULL >> 8, rng.getrandbits(32), 0):
                counted = harness.pattern(base, offsets, mask, size)
                assert counted == harness.access([base + offset for offset in offsets], mask, size)


def test_a_pattern_of_all_lanes_is_one_request(harness: Harness) -> None:
    offsets = tuple(4 * lane for lane in range(LANES))
    assert harness.pattern(1 << 20, offsets, FULL, 4)[:2] == [1, 32]
    assert harness.pattern(1 << 20, offsets, 0b1011, 4)[:2] == [1, 3]
    assert harness.pattern(1 << 20, offsets, 0, 4)[:2] == [0, 0]
