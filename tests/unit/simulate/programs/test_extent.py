from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import LaunchError
from tilewright.simulate.programs.launch_rules import checked_extents


@pytest.mark.parametrize(
    ("given", "full"), [(3, (3, 1, 1)), ((3,), (3, 1, 1)), ([3, 2], (3, 2, 1)), ((np.int64(3), 2, 4), (3, 2, 4))]
)
def test_missing_extents_are_one(given: Any, full: tuple[int, int, int]) -> None:
    assert checked_extents("k", given, given) == (full, full)


def test_the_largest_launch() -> None:
    assert checked_extents("k", (2**31 - 1, 65_535, 65_535), (4, 4, 64))


@pytest.mark.parametrize(
    ("grid", "block", "text"),
    [
        (1, 1025, r"at most 1,024 threads \(got 1,025: 1,025 x 1 x 1\)"),
        (1, (32, 33), r"at most 1,024 threads \(got 1,056: 32 x 33 x 1\)"),
        (1, (1, 1, 65), "at most 64 threads in z"),
        ((1, 65_536), 1, r"`grid` must have at most 65,535 blocks in y \(got 65,536\)"),
        ((2**31, 1), 1, "in x"),
        (0, 1, r"`grid` must have at least 1 .*got 0"),
        (1, (16, -1), "`block` must have at least 1"),
        ((1, 1, 1, 1), 1, "`grid` must be an integer or 1 to 3"),
        ((), 1, "`grid` must be an integer or 1 to 3"),
        (1.0, 1, "`grid` must be an integer"),
        ((2, True), 1, "`grid` must be an integer"),
        ("12", 1, "`grid` must be an integer"),
    ],
)
def test_extents_that_no_gpu_accepts(grid: Any, block: Any, text: str) -> None:
    with pytest.raises(LaunchError, match=f"^k: .*{text}"):
        checked_extents("k", grid, block)
