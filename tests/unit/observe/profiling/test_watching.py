"""Pictures of a launch: they show what the instruments counted."""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from tilewright import catalogue, machine
from tilewright.errors import ArgumentValueError
from tilewright.instruments import Banks
from tilewright.observe.instruments.addresses import AddressesResult
from tilewright.observe.instruments.banks import counts
from tilewright.observe.profiling import lanes
from tilewright.observe.profiling.steps import rectangles, steps
from tilewright.observe.profiling.watching import Watched, usual_extents, watch
from tilewright.simulate.events import EventKind
from tilewright.simulate.run.launch import launch

#: Kernels of each form, and a product: rows and columns that are no multiples of the tile, too.
WATCHED = {
    "block_partitioned_16": (40, 48, 64),
    "naive": (16, 32, 10),
    "shared_memory_8": (24, 24, 16),
    "results_8": (33, 40, 64),
    "uncoalesced": (32, 32, 8),
    "thread_tile_2d": (128, 130, 16),
    "vectorised": (128, 128, 16),
}


@functools.cache
def seen(name: str) -> Watched:
    record = catalogue.find(name)
    return watch(record, *WATCHED[name], record.dtypes[0], machine.gpu("a100"))


#: The cost of one request with these addresses, mask and width.
COUNTS: dict[str, Callable[[list[int], int, int], int]] = {
    "requests": lambda at, mask, size: 1,
    "wavefronts": lambda at, mask, size: max(x for x in lanes.wavefronts(at, mask, size) if x is not None) + 1,
    "ideal_wavefronts": lambda at, mask, size: lanes.ideal_wavefronts(mask, size),
    "sectors": lambda at, mask, size: lanes.sectors(at, mask, size)[0],
    "ideal_sectors": lambda at, mask, size: lanes.sectors(at, mask, size)[1],
}


def by_line(kept: AddressesResult, count: str) -> dict[int, int]:
    """The cost of all kept requests, by line of the PTX."""
    found: defaultdict[int, int] = defaultdict(int)
    for record in kept.records:
        site = kept.sites[record["row"]]
        if site.kind is EventKind.ACCESS:
            found[site.ptx_line] += COUNTS[count](
                record["addresses"].tolist(), int(record["mask"]), site.bytes_per_lane
            )
    return dict(found)


@pytest.mark.parametrize("count", ["requests", "sectors", "ideal_sectors"])
@pytest.mark.parametrize("name", WATCHED)
def test_sectors_of_the_picture_are_those_of_the_profile(name: str, count: str) -> None:
    found = seen(name)
    of_profile = {
        site.ptx_line: getattr(site.counts.in_global, count)
        for site in found.kept.profile.sites
        if site.counts.in_global.requests
    }
    assert by_line(found.kept.from_global, count) == of_profile


@pytest.mark.parametrize("name", [name for name in WATCHED if name not in ("naive", "uncoalesced")])
def test_wavefronts_of_the_picture_are_those_of_the_instrument(name: str) -> None:
    """A grid has one block here, because only the first block's accesses to shared memory are kept."""
    record = catalogue.find(name)
    m, n = record.tile
    found = watch(record, m, n, WATCHED[name][2], record.dtypes[0], machine.gpu("a100"))
    assert found.kept.profile.grid == (1, 1, 1)
    for count in ("requests", "wavefronts", "ideal_wavefronts"):
        of_profile = {
            site.ptx_line: getattr(site.counts.in_shared, count)
            for site in found.kept.profile.sites
            if site.counts.in_shared.requests
        }
        assert by_line(found.kept.from_shared, count) == of_profile


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_each_wavefront_serves_one_word_of_a_bank(size: int) -> None:
    chance = random.Random(size)
    for _ in range(200):
        spread, mask = chance.choice((64, 256, 4096)), chance.getrandbits(32) | 1
        at = [size * chance.randrange(spread) for _ in range(32)]
        served = lanes.wavefronts(at, mask, size)
        words = defaultdict(set)
        for lane, wavefront in enumerate(served):
            assert (wavefront is not None) == bool(mask >> lane & 1)
            for byte in range(size) if wavefront is not None else ():
                word = (at[lane] + byte) // 4
                words[wavefront, word % lanes.BANKS].add(word)
        assert {len(found) for found in words.values()} == {1}
        if mask == 2**32 - 1:
            assert max(x for x in served if x is not None) + 1 == counts(at, size)[2]


def test_every_element_is_loaded_in_the_step_that_needs_it() -> None:
    found = steps(seen("block_partitioned_16"))
    assert found.by_barriers and [one.block for one in found.blocks[:3]] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    for one in found.blocks:
        x, y, _ = one.block
        rows = min(16, 40 - 16 * y)
        assert len(one.loaded) == 4
        for step, (a, b) in enumerate(one.loaded):
            assert a.rectangles == ((16 * y, 16 * step, rows, 16),)
            assert b.rectangles == ((16 * step, 16 * x, 16, 16),)
            assert (a.elements, a.asked) == (rows * 16, rows * 16)
        assert one.stored.rectangles == ((16 * y, 16 * x, rows, 16),)


def test_without_barriers_a_step_is_a_turn_of_the_loop() -> None:
    found = steps(seen("uncoalesced"))
    assert not found.by_barriers
    (one,) = found.blocks
    columns = [a.rectangles for a, _ in one.loaded]
    width = columns[0][0][3]
    assert columns == [((0, width * step, 32, width),) for step in range(8 // width)]
    a, b = one.loaded[0]
    assert (a.elements, a.asked, b.asked) == (32 * width, 32 * 32 * width, 32 * 32 * width)


@pytest.mark.parametrize("name", WATCHED)
def test_steps_load_all_that_a_product_needs(name: str) -> None:
    m, n, k = WATCHED[name]
    found = steps(seen(name))
    a, b, c = np.zeros((m, k), int), np.zeros((k, n), int), np.zeros((m, n), int)
    for one in found.blocks:
        for pair in one.loaded:
            for matrix, touched in zip((a, b), pair, strict=True):
                for row, column, high, wide in touched.rectangles:
                    matrix[row : row + high, column : column + wide] += 1
                assert touched.elements == sum(high * wide for _, _, high, wide in touched.rectangles)
        for row, column, high, wide in one.stored.rectangles:
            c[row : row + high, column : column + wide] += 1
    grid = found.blocks[-1].block
    assert a.min() == a.max() == grid[0] + 1 and b.min() == b.max() == grid[1] + 1
    assert c.min() == c.max() == 1


def test_rectangles_hold_each_element_once() -> None:
    chance = np.random.default_rng(1)
    for share in (0.1, 0.5, 0.9):
        grid = chance.random((9, 11)) < share
        again = np.zeros(grid.shape, int)
        for row, column, high, wide in rectangles(grid):
            again[row : row + high, column : column + wide] += 1
        assert (again == grid).all()


def test_a_kernel_that_cannot_be_watched_is_refused() -> None:
    with pytest.raises(ArgumentValueError, match="takes float32 only"):
        watch(catalogue.find("warp_tiled"), 8, 8, 8, "int32", machine.gpu("a100"))
    with pytest.raises(ArgumentValueError, match=r"at most 4,194,304 elements \(got m, n, k = 4096, 4096, 8\)"):
        watch(catalogue.find("naive"), 4096, 4096, 8, "float32", machine.gpu("a100"))
    with pytest.raises(ArgumentValueError, match="runs on no GPU"):
        watch(catalogue.find("three_loops"), 8, 8, 8, "float32", machine.gpu("a100"))
    assert usual_extents(catalogue.find("warp_tiled")) == (384, 384, 64)


def test_watching_changes_no_count() -> None:
    found, record = seen("block_partitioned_16"), catalogue.find("block_partitioned_16")
    m, n, k = found.extents
    a, b, c = (np.ones(extents, "float32") for extents in ((m, k), (k, n), (m, n)))
    shape = record.launch_rule(m, n, k)
    run = launch(
        record.program("float32", (8, 0)), shape.grid, shape.block, record.arguments(a, b, c), instruments=[Banks()]
    )
    rows = run.results["banks"].rows
    assert sum(row.wavefronts for row in rows) == found.kept.profile.totals.in_shared.wavefronts
