"""The sources' tables as data: cells, units, and the errors of our figures."""

from __future__ import annotations

import pytest

from tilewright.ladder import select
from tilewright.multiply.kernels import catalogue
from tilewright.show.rates.plan import Asked, points
from tilewright.show.rates.record import Point, Rate
from tilewright.show.rates.tables import SourceTable, agreement, table, tables


def cell(source: SourceTable, width: int, value: int) -> Point:
    found = points(Asked(table=source.source, devices=("v100",)))
    return next(p for p in found if p.m == width and source.column(p) == value)


def rate(point: Point, gflops: float) -> Rate:
    seconds = point.operations / gflops / 1e9
    return Rate(point, "predicted", seconds, seconds, seconds)


@pytest.mark.parametrize(
    ("source", "width", "value", "gflops"),
    [("S8", 256, 32, 1511.790), ("S8", 8, 8, 0.197), ("S10", 4096, 8, 875.712), ("S12", 1024, 8, 6772.0)],
)
def test_figures_belong_to_their_points(source: str, width: int, value: int, gflops: float) -> None:
    found = table(source)
    assert found.figure(cell(found, width, value)) == pytest.approx(gflops)


def test_cells_that_the_source_leaves_empty_are_none() -> None:
    assert not any(p.m == 8 and p.block == 16 for p in points(Asked(table="S8", devices=("v100",))))


@pytest.mark.parametrize("name", tables())
def test_tables_name_existing_kernels_and_units(name: str) -> None:
    source = table(name.lower())
    assert select(catalogue.records(), source.kernels)
    assert all(len(source.values) >= sum(w == width for w, _ in source.figures) for width in source.widths)


def test_a_common_factor_is_removed_before_errors_are_computed() -> None:
    source = table("S12")
    cells = [cell(source, 1024, value) for value in source.values]
    exact = [rate(point, 2 * (source.figure(point) or 0)) for point in cells]
    found = agreement(source, exact)
    assert found is not None
    assert (found.factor, found.worst) == pytest.approx((0.5, 0.0))
    off = [*exact[:-1], rate(cells[-1], exact[-1].gflops * 2)]
    found = agreement(source, off)
    assert found is not None
    assert found.worst == pytest.approx(2 * 2 ** (-1 / 6) - 1)
    assert agreement(table("S13"), [rate(p, 1) for p in points(Asked(table="S13", devices=("v100",)))]) is None
