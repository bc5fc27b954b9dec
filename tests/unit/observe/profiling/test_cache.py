"""The cache model, against a plain one and against results calculated by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.machine import gpus
from tilewright.observe.profiling import cache
from tilewright.observe.profiling.cache import Caches, Traffic, simulate
from tilewright.simulate.machine import gpu

from .plain_cache import Plain, Request

KINDS = ("LOAD", "LOAD_L2", "STORE", "ATOMIC")
Warps = Sequence[Sequence[list[Request]]]


@pytest.fixture(autouse=True, params=[0, cache._PRESENT_BYTES, 1 << 30], ids=["ordered", "as it is", "roomy"])
def first_levels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """First levels that always record the order of use, and those that begin without it."""
    monkeypatch.setattr(cache, "_PRESENT_BYTES", request.param)


def words(sectors: Sequence[int]) -> list[int]:
    """A request's words: a line and its sectors for each run of neighbours within one line."""
    runs = [(line, list(run)) for line, run in itertools.groupby(sectors, lambda sector: sector // 4)]
    return [line << 4 | sum(1 << sector % 4 for sector in run) for line, run in runs]


def buffers(warps: Warps, rng: random.Random, many: int = 1) -> list[np.ndarray]:
    """Requests as handlers leave them: whole blocks in any buffer; warps of a block mixed, each in its own order."""
    found: list[list[int]] = [[] for _ in range(many)]
    order = list(range(len(warps)))
    rng.shuffle(order)
    for block in order:
        buffer, left = rng.choice(found), [(w, list(reversed(requests))) for w, requests in enumerate(warps[block])]
        while any(requests for _, requests in left):
            number, requests = rng.choice([one for one in left if one[1]])
            site, sectors = requests.pop()
            runs = words(sectors)
            buffer += [(block * len(left) + number) << 24 | site << 8 | len(runs), *runs]
    return [np.array(buffer, np.uint64) for buffer in found]


def modelled(warps: Warps, kinds: Sequence[str], caches: Caches, resident: int, *, seed: int = 0) -> Traffic:
    given = buffers(warps, random.Random(seed), 3)
    numbers = [getattr(cache, kind) for kind in kinds]
    width = len(warps[0]) if warps else 1
    return simulate(given, numbers, caches, blocks=len(warps), warps_per_block=width, resident_blocks=resident)


def random_launch(rng: random.Random, sites: int, spread: int) -> Warps:
    """Blocks of warps that access random places of some memory; some warps are idle."""
    bases = [rng.randrange(1 << 43), 0, rng.randrange(1 << 20)]
    many = rng.randrange(1, 5)

    def request() -> Request:
        start = rng.choice(bases) + rng.randrange(spread)
        sectors = rng.sample(range(start, start + 40), rng.randrange(1, 33))
        return rng.randrange(sites), sorted(sectors) if rng.random() < 0.5 else sectors

    def warp() -> list[Request]:
        return [request() for _ in range(rng.choice([0, 5, 30]))]

    return [[warp() for _ in range(many)] for _ in range(rng.randrange(1, 14))]


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_the_plain_model(seed: int) -> None:
    rng = random.Random(seed)
    kinds = [rng.choice(KINDS) for _ in range(5)]
    warps = random_launch(rng, len(kinds), rng.choice([50, 500, 5000]))
    # the last second level has room for all
    l1, l2 = (rng.choice([(4, 2), (4, 7), (1, 16)])), rng.choice([(8, 16), (5, 4), (37, 2), (1 << 13, 16)])
    multiprocessors, resident = rng.randrange(1, 5), rng.randrange(1, 6)
    plain = Plain(multiprocessors, l1, l2)
    plain.run(warps, kinds, resident)
    caches = Caches(multiprocessors, 128 * l1[0] * l1[1], 128 * l2[0] * l2[1], l1[0], l2[1])
    found = modelled(warps, kinds, caches, resident, seed=seed)
    wanted = [[plain.counts[site, outcome] for outcome in cache.OUTCOMES] for site in range(len(kinds))]
    assert found.counts.tolist() == wanted
    assert (found.written_sectors, found.dirty_sectors) == (plain.second.written, plain.second.dirty())
    assert (found.counts[:, 2:].sum(1) == found.counts[:, 1]).all()


def one_warp(
    *sectors: int, kinds: Sequence[str] = ("LOAD",), sites: Sequence[int] | None = None, **sizes: Any
) -> Traffic:
    caches = Caches(1, sizes.get("l1", 4 * 128), sizes.get("l2", 16 * 128))
    requests = [(site, [sector]) for site, sector in zip(sites or [0] * len(sectors), sectors, strict=True)]
    return modelled([[requests]], kinds, caches, 1)


def shown(traffic: Traffic) -> dict[str, int]:
    return {name: traffic.total(name) for name in cache.OUTCOMES[2:] if traffic.total(name)}


def test_a_line_is_filled_by_sectors() -> None:
    assert shown(one_warp(0, 1, 2, 3, 0, 3)) == {"dram_compulsory": 4, "l1_hits": 2}


def test_the_least_recently_used_line_is_evicted() -> None:
    # One line a set; lines 0 and 4 share a set, line 1 does not.
    assert shown(one_warp(0, 16, 0, 4)) == {"dram_compulsory": 3, "l2_hits": 1}
    assert shown(one_warp(0, 4, 0, 4)) == {"dram_compulsory": 2, "l1_hits": 2}


def test_capacity_and_conflict() -> None:
    # 32 lines in two sets of 16. Twenty even lines do not fit one set, but would fit the whole: conflicts.
    even = [8 * line for line in range(20)]
    assert shown(one_warp(*even, *even, l2=32 * 128)) == {"dram_compulsory": 20, "dram_conflict": 20}
    # Forty lines fit neither way.
    every = [4 * line for line in range(40)]
    assert shown(one_warp(*every, *every, l2=32 * 128)) == {"dram_compulsory": 40, "dram_capacity": 40}


def test_stores_write_through_and_back() -> None:
    stores = ("LOAD", "STORE")
    # A store allocates nothing in the first level; a later load hits in the second.
    found = one_warp(0, 0, 0, kinds=stores, sites=[1, 0, 0])
    assert shown(found) == {"l2_allocated": 1, "l2_hits": 1, "l1_hits": 1}
    assert (found.written_sectors, found.dirty_sectors, found.dram_read_bytes) == (0, 1, 0)
    # Seventeen lines are written; sixteen fit.
    found = one_warp(*range(0, 68, 4), kinds=stores, sites=[1] * 17)
    assert (found.written_sectors, found.dirty_sectors) == (1, 16)


def test_atomics_execute_at_the_second_level() -> None:
    found = one_warp(0, 0, 0, 0, kinds=("LOAD", "ATOMIC"), sites=[0, 1, 0, 0])
    assert shown(found) == {"dram_compulsory": 1, "l2_hits": 2, "l1_hits": 1}
    assert (found.of(1, "l2_hits"), found.dirty_sectors) == (1, 1)


def test_loads_that_bypass_the_first_level() -> None:
    assert shown(one_warp(0, 0, kinds=("LOAD_L2",))) == {"dram_compulsory": 1, "l2_hits": 1}


def test_warps_of_a_block_advance_together() -> None:
    """In the naive product every warp reads the same long column; only the first of each step misses."""
    column = [(0, [4 * step]) for step in range(1000)]
    found = modelled([[column] * 8], ["LOAD"], Caches(1, 4096, 65536), 1)
    assert shown(found) == {"dram_compulsory": 1000, "l1_hits": 7000}
    # Warps that ran one after the other would not share it.
    found = modelled([[column]] * 8, ["LOAD"], Caches(1, 4096, 65536), 1)
    assert found.total("l1_hits") == 0


def test_blocks_are_dealt_to_multiprocessors_in_turn() -> None:
    """Even blocks read one sector, odd ones another; each of two multiprocessors gets one kind."""
    warps = [[[(0, [4 * (block % 2)])] * 5] for block in range(8)]
    assert shown(modelled(warps, ["LOAD"], Caches(2, 512, 4096), 1)) == {"dram_compulsory": 2, "l1_hits": 38}
    assert modelled(warps, ["LOAD"], Caches(3, 512, 4096), 1).total("l2_hits") == 4


def test_a_warp_may_continue_in_the_next_buffer() -> None:
    asked = ((0, 4), (1, 4), (0, 8), (0, 4))
    given = np.array([word for warp, sector in asked for word in (warp << 24 | 1, *words([sector]))], np.uint64)
    pieces = [given[:2], given[2:6], given[6:]]
    found = [
        simulate(buffers, [cache.LOAD], Caches(1, 512, 4096), blocks=2, warps_per_block=1, resident_blocks=1)
        for buffers in ([given], pieces)
    ]
    assert shown(found[0]) == shown(found[1])
    assert (found[0].counts == found[1].counts).all()


def test_no_requests() -> None:
    assert shown(simulate([], [], Caches(4, 512, 4096), blocks=0, warps_per_block=1, resident_blocks=1)) == {}
    found = modelled([[[], []], [[], []]], ["LOAD"], Caches(4, 512, 4096), 2)
    assert (found.total("sectors"), found.dram_read_bytes) == (0, 0)


def test_memory_far_apart() -> None:
    """More regions than the directory's first size: a sector every 4 MiB."""
    sectors = [region << 17 for region in range(5000)]
    assert shown(one_warp(*sectors, *sectors[-1:])) == {"dram_compulsory": 5000, "l1_hits": 1}


def test_caches_of_a_gpu() -> None:
    h100 = gpu("h100")
    assert Caches.of(h100, shared_bytes=0, resident_blocks=8) == Caches(132, (256 - 8) << 10, h100.l2_bytes)
    assert Caches.of(h100, shared_bytes=100 << 10, resident_blocks=2).l1_bytes == 28 << 10
    t4 = gpu("t4")
    assert Caches.of(t4, shared_bytes=0, resident_blocks=4).l1_bytes == 64 << 10
    assert Caches.of(t4, shared_bytes=48 << 10, resident_blocks=1).l1_bytes == 32 << 10


@pytest.mark.parametrize("record", gpus().values(), ids=lambda record: record.key)
def test_every_gpu_has_caches(record: Any) -> None:
    found = Caches.of(record, shared_bytes=0, resident_blocks=1)
    assert found.l1_bytes % (cache.LINE_BYTES * cache.L1_SETS) == 0
    assert found.l2_bytes % (cache.LINE_BYTES * cache.L2_WAYS) == 0
    given = [np.array([1, *words([7])] * 2, np.uint64)]
    traffic = simulate(given, [cache.LOAD], found, blocks=1, warps_per_block=1, resident_blocks=1)
    assert shown(traffic) == {"dram_compulsory": 1, "l1_hits": 1}


WORDS = np.array([1, *words([7])], np.uint64)
WRONG = [
    ({"buffers": [np.array([1, 7])]}, r"one-dimensional arrays of uint64 \(got int64 of shape \(2,\)\)"),
    ({"buffers": [[1, 7]]}, r"arrays of uint64 \(got list\)"),
    ({"buffers": [np.array([2, 7], np.uint64)]}, "each with its lines"),
    ({"buffers": [np.array([0], np.uint64)]}, "each with its lines"),
    ({"buffers": [np.array([1 << 8 | 1, 7], np.uint64)]}, "of 1 warps and 1 sites"),
    ({"buffers": [WORDS, np.array([1 << 24 | 1, 7], np.uint64)]}, "of 1 warps and 1 sites"),
    ({"kinds": [4]}, "must be LOAD, LOAD_L2, STORE or ATOMIC"),
    ({"kinds": [[0]]}, r"shape \(1, 1\)"),
    ({"resident_blocks": 65}, r"must be 1 to 64 warps.*\(got 65 of 1, and 1\)"),
    ({"resident_blocks": 0}, "must be 1 to 64 warps"),
    ({"blocks": -1}, "0 or more `blocks`"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_use(wrong: dict[str, Any], message: str) -> None:
    plain = {"buffers": [WORDS], "kinds": [0], "blocks": 1, "warps_per_block": 1, "resident_blocks": 1} | wrong
    given, kinds = plain.pop("buffers"), plain.pop("kinds")
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match=message):
        simulate(given, kinds, Caches(1, 512, 4096), **plain)


def test_caches_too_small() -> None:
    with pytest.raises(ArgumentValueError, match=r"`l1_bytes` must hold a line of 128 bytes .*\(got 3 lines, and 4\)"):
        Caches(1, 384, 4096)


def test_caches_of_more_sets_than_a_line_can_name() -> None:
    with pytest.raises(ArgumentValueError, match=r"fewer than 16,777,216 sets in all \(got 16,777,216\)"):
        Caches(1, 512, (1 << 24) * 128, l2_ways=1)
