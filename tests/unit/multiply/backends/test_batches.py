"""How batches become launches, for arrays of the host and of a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright import machine
from tilewright.machine import launch_limits
from tilewright.multiply.backends import batches, estimates, ranking
from tilewright.multiply.backends.inventory import opened
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import same_bits

Array = npt.NDArray[Any]
SINGLE = Kind(*["float32"] * 4)


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype("f4")


def views() -> Iterator[Array]:
    """Batches of 2 x 3 x 4 matrices of 2 x 5, in all orders of their axes, descending, broadcast, with gaps."""
    for order in itertools.permutations(range(3)):
        shape = [(2, 3, 4)[at] for at in order]
        x = drawn(*shape, 2, 5).transpose(*np.argsort(order), 3, 4)
        yield x
        yield x[:, ::-1]
    for shape in ((1, 3, 4), (2, 1, 1), (1, 1, 4), (1, 1, 1)):
        yield np.broadcast_to(drawn(*shape, 2, 5), (2, 3, 4, 2, 5))
    yield drawn(4, 3, 9, 3, 7)[::2, :, 1::2, :2, :5]


@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_dtypes_that_numpy_lacks_are_split_too(kind: Any) -> None:
    x = drawn(2, 3, 2, 5).astype(kind)
    ((found,),) = batches.split([x[:, ::-1]], 99)
    assert found.dtype == kind and same_bits(found.copy(), x[:, ::-1].copy())


@pytest.mark.parametrize("most", [1, 2, 5, 6, 11, 24, 65_535])
def test_each_matrix_is_in_one_launch_with_its_partners(most: int) -> None:
    number = np.arange(24.0).reshape(2, 3, 4, 1, 1)
    every = [np.stack([number[i].repeat(2, 0).repeat(5, 1) for i in np.ndindex(2, 3, 4)]).reshape(2, 3, 4, 2, 5)]
    for x in views():
        seen = {}
        for which, one in batches.split([every[0], x], most):
            assert which.ndim == (2 if most == 1 else 4) and which.shape == one.shape
            matrices = list(zip(which.reshape(-1, 2, 5), one.reshape(-1, 2, 5), strict=True))
            assert len(matrices) <= most
            assert not {int(at[0, 0]) for at, _ in matrices} & seen.keys()
            seen |= {int(at[0, 0]): of for at, of in matrices}
        assert all(np.array_equal(seen[at], of) for at, of in enumerate(x.reshape(-1, 2, 5)))
        assert len(seen) == 24


def test_two_axes_of_any_distances_are_one_launch() -> None:
    heads = np.zeros((5, 7, 8, 6), "f4").swapaxes(1, 2)
    assert [x.shape for x, _ in batches.split([heads, np.zeros((5, 8, 6, 7))], 65_535)] == [(5, 8, 7, 6)]
    assert len(list(batches.split([np.zeros((9, 2, 3, 4)).transpose(1, 0, 2, 3)] * 2, 65_535))) == 1
    three = np.zeros((6, 3, 5, 2, 2)).transpose(2, 1, 0, 3, 4)
    assert [x.shape for x, _ in batches.split([three, np.zeros((5, 3, 6, 2, 2))], 99)] == [(5, 6, 2, 2)] * 3
    assert list(batches.split([np.zeros((3, 0, 2, 2))], 99)) == []


@pytest.mark.parametrize("most", [2**30, 100])
def test_matrices_that_share_b_are_one(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MOST_ELEMENTS", most)
    a, b, c = drawn(6, 4, 3, 5), drawn(5, 7, seed=1), np.zeros((6, 4, 3, 7), "f4")
    row, column, gapped = drawn(7), drawn(6, 4, 3, 1), np.zeros((6, 4, 6, 7), "f4")[:, :, ::2]
    each = np.broadcast_to(drawn(6, 1, 5, 7), (6, 4, 5, 7))
    turned, first = np.zeros((4, 6, 3, 7), "f4").swapaxes(0, 1), np.broadcast_to(each[:1, :1], each.shape)
    for x, y, z, more, expected in (
        (a, b, c, [], (72, 5)),
        (a, b, c, [np.broadcast_to(row, c.shape), np.broadcast_to(column, c.shape)], (72, 5)),
        (a, b, c, [np.broadcast_to(column[0], c.shape)], (6, 12, 5)),
        (a, each, c, [], (6, 12, 5)),
        (a, first, gapped, [], (72, 5)),
        (a[:, ::2], b, c[:, ::2], [], (6, 2, 3, 5)),
        (a[::-1], b, c, [], (6, 12, 5)),
        (a[:, :1], b, c, [], (6, 4, 3, 5)),
        (a[:, :, :1], b, c[:, :, :1], [], (24, 5)),
        (a[:, :, 1:2], each, c[:, :, 1:2], [], (6, 4, 5)),
        (a, b, turned, [], (6, 4, 3, 5)),
        (a[:0], b, c[:0], [], (0, 4, 3, 5)),
        (a[..., :0], b[:0], c, [], (72, 0)),
    ):
        left, right, out, rest = batches.folded(x, y, z, more)
        assert left.shape == expected or most < 2**30
        assert all(one.shape == out.shape for one in rest)
        out[...] = left @ right + sum(rest)
        assert np.array_equal(z, np.broadcast_to(x @ y + sum(more), z.shape))


def launches(a: Array, b: Array, **asked: Any) -> tuple[list[tuple[int, int, int]], Array]:
    """The grids of a product of the host's arrays on a simulated GPU, and the product."""
    grids: list[tuple[int, int, int]] = []
    inner: Any = opened("simulated:a100")

    def counting(program: Any, grid: Any, *rest: Any, **options: Any) -> Any:
        grids.append(grid)
        return inner.launch(program, grid, *rest, **options)

    found = replace(inner, launch=counting, **asked)
    out = np.full((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.nan, "f4")
    found.multiply_into(a, b, out, SINGLE)
    return grids, out


def test_a_batch_of_the_host_is_one_launch() -> None:
    a, b = drawn(3, 20, 4, 8).swapaxes(1, 2), drawn(8, 5, seed=1)
    for left, right in ((a, b), (a, np.broadcast_to(b, (4, 8, 5))), (a[::-1], drawn(4, 8, 5)), (a[:0], b)):
        grids, found = launches(left, right)
        assert [grid[2] for grid in grids] == ([12] if len(left) else [])
        assert same_bits(found, left @ right)


def test_more_matrices_than_a_grid_has_are_launched_in_parts() -> None:
    a, b = drawn(70_001, 1, 2), drawn(70_001, 2, 1, seed=1)
    grids, found = launches(a, b)
    assert [grid[2] for grid in grids] == [65_535, 70_001 - 65_535]
    assert same_bits(found, a @ b)


def test_a_launch_has_half_of_the_memory() -> None:
    little = replace(machine.gpu("a100"), memory_gb=0)
    a, b = drawn(6, 4, 8), drawn(6, 8, 5, seed=1)
    assert len(launches(a, b)[0]) == 1
    grids, found = launches(a, b, gpu=little)
    assert len(grids) == 6
    assert same_bits(found, a @ b)


def test_many_small_products_fill_the_gpu() -> None:
    gpu = machine.gpu("h100")
    one, many = (ranking.chosen(SINGLE, 128, 128, 64, gpu, (9, 0), batch=batch) for batch in (1, 128))
    first, together = one.ranking[0], many.ranking[0]
    assert "batch" in many.best.record.takes
    assert together.seconds < 128 * first.seconds / 10, "one launch, and all multiprocessors work"
    assert together.waves > first.waves
    record = next(x for x in many.candidates if "batch" not in x.record.takes)
    alone = estimates.estimate(record, 128, 128, 64, gpu)
    assert estimates.estimate(record, 128, 128, 64, gpu, 128).seconds == 128 * alone.seconds
    most = launch_limits().grid_extents[2]
    twice, whole = (estimates.estimate(many.best, 1, 1, 1, gpu, count).seconds for count in (2 * most, most))
    assert twice == 2 * whole


def test_the_order_of_sums_does_not_depend_on_the_batch() -> None:
    for kind in (SINGLE, *(Kind(*["float16"] * 3, "float32", order=order) for order in ("fast", "tf32x3"))):
        for name in ("h100", "a6000", "t4"):
            gpu = machine.gpu(name)
            for k in (1, 64, 1000, 9000):
                chains = {
                    ranking.chosen(kind, m, 40, k, gpu, gpu.compute_capability, batch=batch).best.record.chain
                    for m in (1, 128, 3000) for batch in (1, 2, 64, 4000)
                }  # fmt: skip
                assert len(chains) == 1


def test_a_plan_counts_the_batch() -> None:
    one, many = (tw.plan((*batch, 64, 64), (64, 64), "float32", device="simulated:h100") for batch in ((), (8, 16)))
    assert many.flops == 128 * one.flops
    assert many.ranking[0].waves > one.ranking[0].waves


@pytest.mark.parametrize(("shape", "kind", "order", "first"), [
    ((64, 4096, 4096), "float32", "tf32x3", "hopper_tf32x3"), ((64, 4096, 4096), "int32", "canonical", "hopper_digits"),
    ((262_144, 4096), "float32", "tf32x3", "hopper_tf32x3"),
])  # fmt: skip
def test_planes_of_many_elements_are_one_product(shape: Any, kind: str, order: Any, first: str) -> None:
    assert tw.plan(shape, (4096, 4096), kind, device="h100", order=order).path == first
