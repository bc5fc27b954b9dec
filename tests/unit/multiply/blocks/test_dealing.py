"""Assignment of tiles to workers: every tile once, neighbours to the same worker, two for each at a time."""

from __future__ import annotations

import itertools
import random

import pytest

from tilewright.multiply.blocks.dealing import AHEAD, Deal


@pytest.mark.parametrize("parts", [1, 3, 7, 200])
def test_each_tile_is_assigned_once_and_no_worker_has_more_than_it_may(parts: int) -> None:
    pick, deal = random.Random(parts), Deal(range(100, 200), parts)
    held: dict[int, list[int]] = {worker: [] for worker in range(7)}
    seen: dict[int, list[int]] = {worker: [] for worker in held}
    while deal.goes_on:
        for worker, tiles in held.items():
            new = list(deal.to(worker))
            seen[worker] += new
            tiles.extend(new)
            assert len(tiles) == AHEAD or not deal.waiting
        worker = pick.choice([x for x, tiles in held.items() if tiles])
        deal.ended(held[worker].pop(0))
    assert sorted(itertools.chain(*seen.values())) == list(range(100, 200)) and not any(held.values())


def test_equal_workers_make_their_own_part() -> None:
    deal, turns = Deal(range(40), parts=4), 10
    seen: dict[int, list[int]] = {worker: list(deal.to(worker)) for worker in range(4)}
    for turn in range(turns):
        for tiles in seen.values():
            deal.ended(tiles[turn])
        for worker, tiles in seen.items():
            tiles.extend(deal.to(worker))
    assert seen == {worker: list(range(10 * worker, 10 * worker + 10)) for worker in range(4)}
    assert not deal.goes_on


def test_an_idle_worker_takes_the_later_half_of_the_longest_part() -> None:
    deal = Deal(range(24), parts=2)
    assert [*deal.to("slow"), *deal.to("quick")] == [0, 1, 12, 13]
    for tile in range(12, 24):
        deal.ended(tile)
        got = list(deal.to("quick"))
        assert got == ([tile + 2] if tile < 22 else [7 + tile - 22])  # of 2 to 11, those from 7
    assert list(deal.to("slow")) == []
    assert list(deal.to("joins")) == [4, 5]  # of 2 to 6, and 9 to 11


def test_tiles_of_dead_workers_stay_their_load_until_others_have_made_them() -> None:
    deal = Deal(range(5))
    assert list(deal.to("dead")) == [0, 1] and list(deal.to("alive")) == [3, 4]
    deal.ended(3)
    assert list(deal.to("dead")) == [] and list(deal.to("alive")) == [2]
    for tile in (0, 1, 4):
        assert deal.goes_on
        deal.ended(tile)
    assert deal.goes_on
    deal.ended(2)
    assert not deal.goes_on
