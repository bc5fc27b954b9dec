"""A cluster's simulation: closed forms, a second simulation step by step, failures, layers of k."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from step_by_step import StepByStep

from tilewright.blocks.planning import BlockPlan, Rates, Sizes, plan
from tilewright.blocks.simulation.bandwidth import SharedBandwidth
from tilewright.blocks.simulation.clusters import planned, simulated_cluster, simulated_time
from tilewright.blocks.simulation.events import simulate
from tilewright.blocks.simulation.records import SimulatedCluster, SimulatedProduct
from tilewright.engine.partial import Partial
from tilewright.engine.request import Request
from tilewright.errors import ArgumentTypeError, ArgumentValueError, DeviceError

#: Costs that are zero by default.
FREE: dict[str, Any] = {
    "flops_per_s": 1e30, "storage_bytes_per_s": 1e30, "link_bytes_per_s": 1e30, "task_s": 0.0, "step_s": 0.0,
    "flush_s": 0.0,
}  # fmt: skip


def product(*extents: int, workers: int = 1) -> Sizes:
    m, n, k = extents
    return Sizes((m, n, k), (4, 4), 4, 4, workers=workers)


def tiles(workers: int, *, extents: tuple[int, int, int] = (3000, 2500, 2100), memory: int = 8 << 20) -> BlockPlan:
    """A plan of so many panels that none is still in memory when a neighbouring tile needs it."""
    found = plan(product(*extents, workers=workers), memory, least_tiles=4 * workers)
    return replace(found, depth=min(found.depth, extents[2] // 3))


def edges(found: BlockPlan, tile: int) -> tuple[int, int]:
    """Rows and columns of a tile."""
    _, row, column = found.place(tile)
    rows, columns = found.part(0, row), found.part(1, column)
    return rows.stop - rows.start, columns.stop - columns.start


@pytest.mark.parametrize("held", [1, 2])
def test_one_worker_limited_by_its_steps(held: int) -> None:
    """It waits for its first panels and its last write; with memory for the sums of one tile, for each write."""
    found = replace(tiles(1), tiles_held=held)
    assert found.grid[2] > 2 and found.tiles > 4
    world = SimulatedCluster(1, flops_per_s=1e9, link_bytes_per_s=2e9, task_s=0.05, step_s=1e-3, flush_s=0.1)
    expected = world.task_s + 4 * found.depth * sum(edges(found, 0)) / world.link_bytes_per_s
    expected += found.sizes.flops / world.flops_per_s + found.tiles * found.grid[2] * world.step_s
    order = list(found.order())
    for tile in order if held == 1 else order[-1:]:
        expected += 4 * math.prod(edges(found, tile)) / world.link_bytes_per_s + world.flush_s
    assert simulate(found, world).seconds == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("workers", [1, 5, 40])
def test_storage_that_limits_is_never_idle(workers: int) -> None:
    found = tiles(workers)
    world = SimulatedCluster(workers, **FREE | {"storage_bytes_per_s": 1e9, "write_cost": 3.0})
    shown = simulate(found, world)
    assert shown.read_bytes == found.read_bytes and shown.written_bytes == found.written_bytes
    assert shown.seconds == pytest.approx((found.read_bytes + 3 * found.written_bytes) / 1e9, rel=1e-9)
    assert shown.limit == "storage" and shown.busy > 0.75


def test_a_slow_scheduler_assigns_tiles_one_by_one() -> None:
    found = tiles(50)
    shown = simulate(found, SimulatedCluster(50, **FREE | {"task_s": 0.02}))
    assert shown.seconds == pytest.approx(found.tiles * 0.02, rel=1e-9) and shown.limit == "scheduler"


def test_slow_links_are_each_workers_own() -> None:
    """Equal tiles, a whole number a worker: all reads at its link's rate, and the last write; others overlap."""
    found = tiles(4, extents=(2048, 2048, 2048), memory=64 << 20)
    assert found.grid[:2] == (4, 4) and 2048 % found.rows == 0
    shown = simulate(found, SimulatedCluster(4, **FREE | {"link_bytes_per_s": 1e8}))
    assert shown.seconds == pytest.approx((found.read_bytes / 4 + found.written_bytes / 16) / 1e8, rel=1e-9)
    assert shown.worker_bytes == ((found.read_bytes + found.written_bytes) // 4,) * 4 and shown.limit == "links"


def small(pick: random.Random, *, shared: bool) -> tuple[BlockPlan, SimulatedCluster, int]:
    """A product, a world of which no two workers end at the same moment, and layers."""
    workers, layers = pick.randint(1, 6), pick.choice([1, 1, 1, 2, 3])
    link = 10 ** pick.uniform(6, 9)
    world = SimulatedCluster(
        workers, pick.randint(1 << 21, 1 << 24), flops_per_s=10 ** pick.uniform(8, 10), link_bytes_per_s=link,
        storage_bytes_per_s=10 ** pick.uniform(6, 9) if shared else 2 * workers * link, spread=0.1,
        write_cost=pick.choice([1.0, 2.5]), task_s=pick.choice([1e-4, 1e-3, 1e-2]), step_s=pick.choice([0, 1e-4]),
        flush_s=pick.choice([1e-5, 1e-2]), byte_s=pick.choice([0, 1e-9]),
    )  # fmt: skip
    m, n, k = pick.randint(200, 3000), pick.randint(200, 3000), pick.randint(200, 9000)
    return planned(product(m, n, k), world, layers), world, layers


@pytest.mark.parametrize("seed", range(20))
def test_constant_rates_agree_with_every_step(seed: int) -> None:
    found, world, layers = small(random.Random(seed), shared=False)
    each = StepByStep(found, world, layers)
    assert simulate(found, world, layers).seconds == pytest.approx(each.seconds(), rel=1e-9)


def test_shared_storage_nearly_agrees_with_every_step() -> None:
    """Steps read in bursts, the simulation continuously: the same bytes, at slightly other times."""
    apart = []
    for seed in range(40):
        found, world, layers = small(random.Random(1000 + seed), shared=True)
        each, shown = StepByStep(found, world, layers), simulate(found, world, layers)
        apart.append(abs(shown.seconds / each.seconds() - 1))
        assert shown.read_bytes + shown.written_bytes * world.write_cost == pytest.approx(each.moved)
    assert sorted(apart)[36] < 0.01 and max(apart) < 0.06


def test_a_seed_gives_the_same_again_and_another_seed_another() -> None:
    found = tiles(9)

    def shown(seed: int) -> SimulatedProduct:
        world = SimulatedCluster(9, flops_per_s=1e9, failure_s=60.0, return_s=1.0, spread=0.1, seed=seed)
        return simulate(found, world)

    assert shown(1) == shown(1) and shown(1).seconds != shown(2).seconds
    assert shown(1).all_flops_per_s == pytest.approx(9e9, rel=0.2) and shown(1).all_flops_per_s != 9e9


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_workers_that_die_leave_no_tile_out(layers: int, seed: int) -> None:
    world = SimulatedCluster(
        6, 4 << 20, flops_per_s=1e9, storage_bytes_per_s=2e8, return_s=2.0, failure_s=8.0, seed=seed
    )
    found = planned(product(3000, 2500, 2100), world, layers)
    shown = simulate(found, world, layers)
    calm = simulate(found, SimulatedCluster(6, 4 << 20, flops_per_s=1e9, storage_bytes_per_s=2e8), layers)
    assert shown.tiles_made == calm.tiles_made == found.tiles
    assert shown.deaths > 0 and shown.tiles_remade > 0 and calm.deaths == calm.tiles_remade == 0
    assert shown.seconds > calm.seconds and shown.read_bytes > calm.read_bytes
    assert (
        shown.written_bytes >= calm.written_bytes and sum(shown.worker_bytes) == shown.read_bytes + shown.written_bytes
    )


def test_a_worker_that_adds_layers_does_not_wait_for_one_that_waits_for_it() -> None:
    """The layer of a worker that dies while it writes may be sent to the one that waits to add it."""
    rates = {"flops_per_s": 1e9, "storage_bytes_per_s": 1e7, "write_cost": 8.0}
    for seed in (145, 157, 269, 736, *range(100)):
        world = SimulatedCluster(2, 4 << 20, **rates, failure_s=60.0, return_s=1.0, seed=seed)
        found = planned(product(900, 900, 900), world, 2)
        shown = simulate(found, world, 2)
        assert shown.tiles_made == found.tiles and shown.seconds < 9 + 3 * shown.deaths


def test_a_lone_worker_continues_when_it_is_back() -> None:
    found = tiles(1)
    seconds = {
        after: SimulatedCluster(1, flops_per_s=1e9, failure_s=8.0, return_s=after, seed=1) for after in (1.0, 5.0)
    }
    short, long = (simulate(found, world) for world in seconds.values())
    assert short.tiles_made == found.tiles and short.deaths > 0
    assert long.seconds - short.seconds == pytest.approx(4.0 * short.deaths)


def test_a_tile_that_ends_every_worker_is_given_up() -> None:
    world = SimulatedCluster(3, 4 << 20, flops_per_s=1e6, failure_s=1.0, return_s=0.1)
    with pytest.raises(DeviceError, match="one was lost with 4"):
        simulate(tiles(3), world)


def test_layers_read_less_and_pass_their_sums_on() -> None:
    world = SimulatedCluster(64, 1 << 30)
    one, four = (simulate(planned(product(20_000, 20_000, 20_000), world, c), world, c) for c in (1, 4))
    c_bytes = 20_000 * 20_000 * 4
    assert one.written_bytes == c_bytes and four.written_bytes == 4 * c_bytes
    panels, sums = four.plan.read_bytes, 3 * c_bytes
    assert 0.5 * panels < four.read_bytes - sums <= panels < 0.6 * one.plan.read_bytes
    assert four.tiles_made == four.plan.tiles <= one.plan.tiles // 3


@pytest.mark.parametrize("panels", [1, 2, 3])
def test_panels_that_a_neighbour_left_in_memory_are_not_read_again(panels: int) -> None:
    """With two panels kept, as in a single process, which takes the same path; with one panel also the second-last."""
    alone, shape = (plan(product(3000, 2500, 2100, workers=x), 64 << 20, tile=(500, 500)) for x in (0, 1))
    assert alone.grid == (6, 5, 1) and alone.read_bytes < 0.8 * shape.read_bytes
    found = replace(alone, depth=-(-2100 // panels))
    shown = simulate(found, SimulatedCluster(1, flops_per_s=1e8)).read_bytes
    if panels == 1:
        assert 0.8 * alone.read_bytes < shown < alone.read_bytes
    else:
        assert shown == (alone.read_bytes if panels == 2 else shape.read_bytes)


def test_one_worker_is_never_slower_for_a_quicker_link() -> None:
    """With several workers, a quicker one may take a tile that another would have finished earlier."""
    found, seconds = tiles(1), []
    for rate in (1e6, 1e7, 3e7, 1e8, 1e9):
        seconds.append(simulate(found, SimulatedCluster(1, flops_per_s=3e9, link_bytes_per_s=rate)).seconds)
    assert seconds == sorted(seconds, reverse=True) and len(set(seconds)) == 5


@pytest.mark.volume
def test_ten_thousand_workers_and_a_million_cubed_take_few_events() -> None:
    shown = simulated_cluster((10**6,) * 3, 10_000, "16GB", storage_bytes_per_s=1e13, spread=0.05)
    assert shown.tiles_made == shown.plan.tiles >= 40_000 and shown.events <= 9 * shown.plan.tiles
    assert shown.read_bytes == shown.plan.read_bytes and len(shown.worker_bytes) == 10_000
    assert shown.seconds >= max(shown.bounds_s.values()) > 0.8 * shown.seconds
    assert shown.read_bytes + shown.written_bytes > shown.least_bytes


def test_an_existing_cluster_is_reported_at_its_measured_rates() -> None:
    """Rates of one process; all workers together get no more of the storage."""
    rates = Rates(flops=1e9, read_bytes=2e8, write_bytes=1e8)
    found = plan(product(3000, 2500, 2100, workers=4), 8 << 20, rates, least_tiles=16)
    one = simulated_time(found, 4)
    assert one.bounds_s["storage"] == pytest.approx((one.read_bytes + 2 * one.written_bytes) / 2e8)
    assert one.limit == "arithmetic" and one.seconds == pytest.approx(found.sizes.flops / 4e9, rel=0.15)


def test_the_bound_of_bytes_is_that_of_a_workers_memory_and_of_its_share() -> None:
    alone = simulated_cluster((10**6,) * 3, 1, "16GB")
    memory = 16e9 / 4
    assert alone.least_bytes == pytest.approx(4 * (2e18 / math.sqrt(memory) - 2 * memory), rel=1e-9)
    many = simulated_cluster((10**5,) * 3, 1000, "16GB")
    assert many.least_bytes == pytest.approx(4 * 1000 * 3 * (1e15 / 1000) ** (2 / 3), rel=1e-6)


def test_the_sums_of_a_dtype_are_kept_as_wide_as_products_keep_them() -> None:
    for name in ("float32", "float64", "float16", "int8", "int32", "uint64"):
        sizes = simulated_cluster((64, 64, 64), dtype=name).plan.sizes
        partial = Partial.of(np.dtype(name), np.dtype(name), (64, 64), Request())
        assert (sizes.sum_bytes, sizes.out_bytes) == (partial.sums.itemsize, partial.out.itemsize)


def test_its_report_is_readable() -> None:
    text = str(simulated_cluster((10**5,) * 3, 16, failure_s=3e3, seed=3))
    lines = {words[:16].strip(): words[16:] for words in text.splitlines()}
    assert lines["workers"] == "16 of 300 GFLOPS" and lines["limit"].startswith(
        "arithmetic (arithmetic 6 min, storage "
    )
    assert lines["deaths"].endswith("made again") and max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"workers": 0}, ArgumentValueError, "`workers` must be finite and at least 1"),
        ({"workers": 2.5}, ArgumentTypeError, "`workers` must be a whole number"),
        ({"flops_per_s": 0}, ArgumentValueError, "`flops_per_s` must be finite and more than 0"),
        ({"link_bytes_per_s": math.inf}, ArgumentValueError, "`link_bytes_per_s` must be finite"),
        ({"task_s": math.nan}, ArgumentValueError, "`task_s`"),
        ({"spread": "wide"}, ArgumentTypeError, "`spread` must be a number"),
        ({"layers": 0}, ArgumentValueError, "`layers` must be from 1 to k"),
        ({"layers": 101}, ArgumentValueError, "`layers` must be from 1 to k"),
        ({"memory": "1KB"}, ArgumentValueError, "`memory` must be at least "),
        ({"memory": "much"}, ArgumentValueError, "`memory` must be a positive number of bytes"),
        ({"layers": 1.5}, ArgumentTypeError, "`layers` must be a whole number"),
        ({"extents": 5}, ArgumentTypeError, "`extents` must be m, n and k"),
        ({"spread": 1e4}, ArgumentValueError, "`spread` must be at most 3"),
        ({"extents": (100, 100)}, ArgumentValueError, "`extents` must be m, n and k"),
        ({"extents": (100, 0, 100)}, ArgumentValueError, "`extents` must be m, n and k"),
        ({"dtype": "decimal"}, ArgumentTypeError, "decimal"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_products_that_do_not_fit_are_refused(wrong: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        simulated_cluster(**{"extents": (100, 100, 100), **wrong})


def test_transfers_share_a_link() -> None:
    """Three at the same time, one dropped, one later: against rates that are calculated by hand."""
    disk, ended = SharedBandwidth(90.0, 60.0), []
    disk.begin(0.0, 90.0, lambda: ended.append("a"))
    dropped = disk.begin(0.0, 900.0, lambda: ended.append("never"))
    disk.begin(1.0, 30.0, lambda: ended.append("b"))  # 45 a second each until then, 30 from then on
    assert disk.next_s == 2.0
    disk.pop()()
    disk.drop(2.1, dropped)  # 15 bytes of the first were left, 10.5 are, at 60
    assert disk.next_s == pytest.approx(2.275)
    disk.pop()()
    assert ended == ["b", "a"] and disk.next_s == math.inf
