"""Plans of products larger than memory: they fit in memory, state what they read, and come near the lower bound."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ArgumentValueError
from tilewright.multiply.blocks.planning import (
    PANELS,
    BlockPlan,
    Rates,
    Shapes,
    Sizes,
    _fitting,
    _read_bytes,
    _seconds,
    plan,
)

EXTENTS = st.integers(1, 3000)
CHUNKS = st.sampled_from([1, 7, 64, 100, 5000])


@given(
    extents=st.tuples(EXTENTS, EXTENTS, st.integers(0, 3000)),
    chunks=st.tuples(*[st.tuples(CHUNKS, CHUNKS)] * 3),
    memory=st.integers(1 << 18, 1 << 26),
    splits=st.booleans(),
)
def test_a_plan_fits_and_covers_c_once(
    extents: tuple[int, int, int], chunks: tuple[tuple[int, int], ...], memory: int, splits: bool
) -> None:
    sizes = Sizes(extents, (4, 8), 8, 4, chunks, splits_k=splits, batch=2)  # type: ignore[arg-type]
    try:
        found = plan(sizes, memory)
    except ArgumentValueError as error:
        shown = re.fullmatch(r"`memory` must be at least ([\d,]+) MB: .*", str(error))
        assert shown and plan(sizes, int(shown[1].replace(",", "")) * 10**6)
        return
    assert found.held_bytes <= memory
    assert splits or found.grid[2] == 1
    tiles = [found.place(tile) for tile in found.order()]
    assert len(tiles) == len(set(tiles)) == found.tiles
    for axis, (extent, parts) in enumerate(zip(extents, found.grid, strict=True)):
        places = [i for part in (found.part(axis, i) for i in range(parts)) for i in range(part.start, part.stop)]
        assert places == list(range(extent))


@pytest.mark.parametrize(("m", "n", "batch"), [(0, 5, 1), (5, 0, 1), (5, 7, 0), (0, 0, 0)])
@pytest.mark.parametrize("k", [0, 9])
def test_a_product_without_elements_has_a_plan_without_tiles(m: int, n: int, k: int, batch: int) -> None:
    found = plan(Sizes((m, n, k), (4, 8), 8, 4, ((3, 2),) * 3, batch=batch), 1 << 18)
    assert list(found.order()) == [] and found.tiles == 0
    assert (found.held_bytes, found.read_bytes, found.written_bytes, found.least_bytes, found.seconds) == (0,) * 5
    assert f"{m} x {k} by {k} x {n}" in str(found) and "nan" not in str(found)


def test_the_reported_memory_is_enough_if_larger_steps_take_more() -> None:
    sizes = Sizes((4000, 4000, 4000), (4, 4), 4, 4, extra_bytes=lambda *extents: 1000 * max(extents))
    with pytest.raises(ArgumentValueError, match=r"must be at least 4 MB: 3\.101 MB for one tile"):
        plan(sizes, 3_100_000)
    assert plan(sizes, 3_102_000).held_bytes <= 3_102_000


def test_tiles_follow_each_other_side_by_side() -> None:
    found = plan(Sizes((1000, 1000, 1000), (8, 8), 8, 8), 4 << 20)
    tiles = [found.place(tile) for tile in found.order()]
    assert found.tiles > 4
    for (_, row, column), (_, next_row, next_column) in itertools.pairwise(tiles):
        assert abs(row - next_row) + abs(column - next_column) == 1


def test_tiles_go_down_columns_if_that_reads_less() -> None:
    found = plan(Sizes((3000, 3000, 900), (4, 4), 4, 4), 16 << 20)
    row_by_row = dataclasses.replace(found, by_columns=False)
    assert found.by_columns and sum(read_by_parts(found, 1)) == found.read_bytes < sum(read_by_parts(row_by_row, 1))


@pytest.mark.parametrize("memory_mib", [64, 512, 2048])
def test_traffic_comes_near_the_bound(memory_mib: int) -> None:
    found = plan(Sizes((30_000,) * 3, (4, 4), 4, 4), memory_mib << 20, Rates(1e12, 1e10, 1e10))
    assert 1 <= (found.read_bytes + found.written_bytes) / found.least_bytes < 1.6


def test_panels_and_tiles_are_whole_chunks() -> None:
    sizes = Sizes((4096, 4096, 4096), (8, 8), 8, 8, ((512, 256), (512, 1024), (128, 1024)))
    found = plan(sizes, 96 << 20)
    assert found.rows % 512 == found.columns % 1024 == found.depth % 512 == 0
    assert found.strip_rows % 128 == 0


def test_operands_in_memory_take_none_and_are_not_read() -> None:
    sizes = Sizes((2000, 2000, 2000), (8, 8), 8, 8, resident=(True, True))
    assert plan(sizes, 32 << 20).read_bytes == 0


def test_the_tile_of_an_unfinished_product_is_kept() -> None:
    sizes = Sizes((2000, 2000, 2000), (8, 8), 8, 8)
    found = plan(sizes, 64 << 20, tile=(100, 300))
    assert (found.rows, found.columns) == (100, 300)
    with pytest.raises(ArgumentValueError, match="one tile of C"):
        plan(sizes, 1 << 18, tile=(1000, 1000))


def test_a_slow_disk_writes_during_the_sums() -> None:
    sizes = Sizes((20_000, 20_000, 200), (4, 4), 4, 4)
    assert plan(sizes, 256 << 20, Rates(1e11, 1e9, 2e8)).tiles_held == 2


def test_the_plan_reports_its_steps() -> None:
    found: BlockPlan = plan(Sizes((4096,) * 3, (4, 4), 4, 4, batch=3), 64 << 20)
    text = str(found)
    assert text.startswith("product  3 of 4,096 x 4,096 by 4,096 x 4,096\ntiles    ")
    assert all(len(line) <= 80 for line in text.splitlines()), text
    assert dataclasses.replace(found, read_bytes=0).facts["reads"] == "0 B"


def read_by_parts(found: BlockPlan, workers: int) -> list[int]:
    """Bytes of A's and of B's panels if each worker makes its part of the tiles and keeps the last panels."""
    order, panels, read = list(found.order()), found.grid[2], [0, 0]
    ends = [len(order) * i // workers for i in range(workers + 1)]
    for i, j in itertools.pairwise(ends):
        kept: tuple[list[object], list[object]] = ([], [])
        for tile, panel in itertools.product(order[i:j], range(panels)):
            entry, *at = found.place(tile)
            for axis, held in enumerate(kept):
                place = entry, at[axis], panel
                side, depth = found.part(axis, at[axis]), found.part(2, panel)
                if place in held:
                    held.remove(place)
                else:
                    elements = (side.stop - side.start) * (depth.stop - depth.start)
                    read[axis] += elements * found.sizes.operand_bytes[axis]
                held[:] = [*held, place][-PANELS:]
    return read


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("tile", [(100, 240), (200, 120), (600, 180), (300, 720), (60, 60)])
@pytest.mark.parametrize("memory", [40 << 20, 14 << 20, 7 << 20])
def test_workers_read_the_panels_of_their_part(workers: int, tile: tuple[int, int], memory: int) -> None:
    found = plan(Sizes((600, 720, 4096), (4, 2), 4, 4, workers=workers), memory, tile=tile)
    down, across, panels = found.grid
    counted, whole = read_by_parts(found, workers), (600 * 4096 * 4 * across, 720 * 4096 * 2 * down)
    if panels > PANELS:
        assert counted == list(whole)
    assert all(x <= y for x, y in zip(counted, whole, strict=True)) and sum(whole) == found.read_bytes


@pytest.mark.parametrize("off", [1 / 3, 1, 3])
@pytest.mark.parametrize(("flops", "storage"), [(3e11, 1e9), (3e11, 3e8), (1e12, 1e9)])
def test_storage_that_is_slower_than_measured_costs_little(flops: float, storage: float, off: float) -> None:
    sizes = Sizes((4096,) * 3, (4, 4), 4, 4)

    def planned(read: float) -> BlockPlan:
        return plan(sizes, 16 << 20, Rates(flops, read, read))

    def seconds(shapes: Shapes, read: Any) -> Any:
        return _seconds(sizes, shapes, read, Rates(flops, off * storage, off * storage))

    every, found = _fitting(sizes, 16 << 20, None, 1), planned(storage)
    one = Shapes(*(np.array([x]) for x in (*found.shape, found.tiles_held, found.by_columns)))
    assert seconds(one, found.read_bytes) < 1.2 * seconds(every, _read_bytes(sizes, every)).min()


def test_workers_share_steps_and_storage() -> None:
    def planned(workers: int, rates: Rates) -> BlockPlan:
        sizes = Sizes((4096, 4096, 4096), (4, 4), 4, 4, workers=workers)
        return plan(sizes, 256 << 20, rates, least_tiles=16)

    quick, slow = Rates(read_bytes=1e10, write_bytes=1e10), Rates(read_bytes=1e8, write_bytes=1e10)
    assert 3.5 < planned(1, quick).seconds / planned(4, quick).seconds < 4
    found = planned(4, slow)
    assert found.seconds == pytest.approx(found.read_bytes / 1e8, rel=0.05)  # all wait for the storage


@pytest.mark.parametrize("workers", [2, 3, 4, 5])
def test_no_worker_makes_a_tile_more_than_others(workers: int) -> None:
    sizes = Sizes((16384, 16384, 16384), (4, 4), 4, 4, workers=workers)
    found = plan(sizes, 900 << 20, Rates(1.6e11, 1e9, 1e9), least_tiles=4 * workers)
    assert found.tiles % workers == 0


@pytest.mark.parametrize("batch", [1, 3])
def test_there_are_as_many_tiles_as_requested_if_c_has_room(batch: int) -> None:
    for least in (1, 2, 7, 40):
        assert plan(Sizes((3000, 2000, 500), (4, 4), 4, 4, batch=batch), 1 << 30, least_tiles=least).tiles >= least
    assert plan(Sizes((3, 5, 500), (4, 4), 4, 4), 1 << 30, least_tiles=40).tiles == 1
