"""Who gets which tile: every tile once, neighbours first, two for each worker."""

from __future__ import annotations

import random

from tilewright.blocks.dealing import AHEAD, Deal


def test_each_tile_is_dealt_once_in_order_and_no_worker_has_more_than_it_may() -> None:
    pick, deal = random.Random(3), Deal(range(100, 200))
    held: dict[int, list[int]] = {worker: [] for worker in range(7)}
    seen: list[int] = []
    while deal.goes_on:
        for worker, tiles in held.items():
            new = list(deal.to(worker))
            seen += new
            tiles.extend(new)
            assert len(tiles) == AHEAD or not deal.waiting
        worker = pick.choice([x for x, tiles in held.items() if tiles])
        deal.ended(held[worker].pop(0))
    assert seen == list(range(100, 200)) and not any(held.values())


def test_tiles_of_the_dead_stay_their_load_until_others_made_them() -> None:
    deal = Deal(range(5))
    assert list(deal.to("dead")) == [0, 1] and list(deal.to("alive")) == [2, 3]
    deal.ended(2)
    assert list(deal.to("dead")) == [] and list(deal.to("alive")) == [4]
    for tile in (0, 1, 3):
        assert deal.goes_on
        deal.ended(tile)
    assert deal.goes_on
    deal.ended(4)
    assert not deal.goes_on
