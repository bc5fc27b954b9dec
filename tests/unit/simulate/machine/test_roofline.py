"""Rooflines against points calculated by hand."""

from __future__ import annotations

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.simulate.machine import gpu
from tilewright.simulate.machine.roofline import roofline

A100 = gpu("a100")  # 108 multiprocessors at 1410 MHz: 19,491.84 GFLOPS; L2 5120 B a clock: 7219.2 GB/s; DRAM 2039 GB/s


def test_below_and_above_the_ridge():
    h100 = gpu("h100")
    low = roofline(h100, operations=1, bytes_moved={"dram": 1})
    high = roofline(h100, operations=1000, bytes_moved={"dram": 1})
    assert (low.bound, low.gflops) == ("dram", 3350.0)
    assert (high.bound, high.gflops) == ("arithmetic", h100.peak_gflops())
    ridge = low.levels[0].ridge
    assert roofline(h100, operations=ridge, bytes_moved={"dram": 1}).gflops == pytest.approx(ridge * 3350)
    assert roofline(h100, operations=1000, bytes_moved={"dram": 1}, dtype="float64").gflops == high.gflops / 2


@pytest.mark.parametrize(
    ("bytes_moved", "bound", "gflops"),
    [
        # 2 * 1024^3 operations of a product; DRAM moves each matrix once, 12.58 MB: 170.7 operations a byte.
        ({"dram": 3 * 4 * 1024**2}, "arithmetic", 19491.84),
        # Tiles of 32: the first level delivers 2 * 4 * 1024^3 / 32 bytes, 8 operations a byte; 106.8 B a clock each.
        ({"l1": 2 * 4 * 1024**3 // 32, "dram": 3 * 4 * 1024**2}, "arithmetic", 19491.84),
        # Shared memory gives every multiply-add two operands: 0.25 operations a byte of 128 * 108 * 1.41 GB/s.
        ({"shared": 8 * 1024**3, "dram": 3 * 4 * 1024**2}, "shared", 0.25 * 128 * 108 * 1.41),
        # No tiles and no first level: 0.25 operations a byte of the second.
        ({"l2": 8 * 1024**3, "dram": 3 * 4 * 1024**2}, "l2", 0.25 * 7219.2),
        # The slower of two.
        ({"l2": 8 * 1024**3, "dram": 8 * 1024**3}, "dram", 0.25 * 2039),
        ({}, "arithmetic", 19491.84),
        ({"dram": 0}, "arithmetic", 19491.84),
    ],
)
def test_points_by_hand(bytes_moved, bound, gflops):
    found = roofline(A100, operations=2 * 1024**3, bytes_moved=bytes_moved)
    assert (found.bound, found.peak_gflops) == (bound, pytest.approx(19491.84))
    assert found.gflops == pytest.approx(gflops)


def test_levels_are_in_order_from_the_nearest():
    sizes = {"dram": 8, "shared": 1, "l2": 4, "l1": 2}
    found = roofline(A100, operations=16, bytes_moved=sizes)
    assert [(level.name, level.intensity) for level in found.levels] == [
        ("shared", 16.0), ("l1", 8.0), ("l2", 4.0), ("dram", 2.0),
    ]  # fmt: skip
    assert found.levels[1].gflops == pytest.approx(8 * 106.8 * 108 * 1.41)
    assert found.levels[1].ridge == pytest.approx(2 * 64 / 106.8)  # multiply-adds a clock to bytes a clock


def test_a_rate_that_no_source_states_bounds_nothing():
    t4 = gpu("t4")
    found = roofline(t4, operations=1, bytes_moved={"l2": 10**9})
    assert (found.bound, found.gflops) == ("arithmetic", t4.peak_gflops())
    assert (found.levels[0].gb_per_s, found.levels[0].gflops, found.levels[0].ridge) == (None, None, None)


def test_wrong_use():
    with pytest.raises(ArgumentValueError, match=r"`operations` must not be negative \(got -1\)"):
        roofline(A100, operations=-1, bytes_moved={})
    with pytest.raises(ArgumentValueError, match=r"`bytes_moved` must not be negative \(got -8\)"):
        roofline(A100, operations=1, bytes_moved={"l1": -8})
    with pytest.raises(ArgumentValueError, match=r"levels of shared, l1, l2, dram \(got L3\)"):
        roofline(A100, operations=1, bytes_moved={"L3": 1})
    with pytest.raises(ArgumentValueError, match=r"is known for .* \(got 'int4'\)"):
        roofline(A100, operations=1, bytes_moved={}, dtype="int4")
