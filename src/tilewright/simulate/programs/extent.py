"""Grid and block of a launch: the forms that a caller may use, and the limits of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.simulate.machine import launch_limits
from tilewright.simulate.programs.launch_rules import broken_extents

Extent = tuple[int, int, int]


def checked(kernel: str, grid: int | Sequence[int], block: int | Sequence[int]) -> tuple[Extent, Extent]:
    """Return the grid and the block of a launch as (x, y, z) each.

    Missing extents are 1; `kernel` is the kernel's name, for messages.

    Raises LaunchError: no GPU would accept them.

    >>> checked("k", 5, (16, 16))
    ((5, 1, 1), (16, 16, 1))
    """
    blocks, threads = _extent(kernel, "grid", grid), _extent(kernel, "block", block)
    for wrong in broken_extents(launch_limits(), blocks, threads):
        raise LaunchError(f"{kernel}: {wrong.sentence}")
    return blocks, threads


def given(kernel: str, grid: int | Sequence[int], block: int | Sequence[int]) -> tuple[Extent, Extent]:
    """Grid and block with extents from 0, even those that no GPU accepts; negative ones are refused.

    >>> given("k", 0, (2048, 2))
    ((0, 1, 1), (2048, 2, 1))
    """
    blocks, threads = _extent(kernel, "grid", grid), _extent(kernel, "block", block)
    return (blocks, threads) if min(*blocks, *threads) >= 0 else checked(kernel, grid, block)


def cluster(kernel: str, value: int | Sequence[int] | None) -> Extent | None:
    """Blocks of a cluster as (x, y, z); None if the launch gives none.

    Raises LaunchError: `value` is no extent.

    >>> cluster("k", (2, 2))
    (2, 2, 1)
    """
    if value is None:
        return None
    extents, most = _extent(kernel, "cluster", value), launch_limits().cluster_blocks
    for axis, extent in zip("xyz", extents, strict=True):
        if not 1 <= extent <= most:
            raise LaunchError(f"{kernel}: `cluster` must be between 1 and {most} in {axis} (got {extent:,})")
    return extents


def _extent(kernel: str, name: str, value: Any) -> Extent:
    parts = (value,) if isinstance(value, int | np.integer) else value
    if (
        not isinstance(parts, Sequence)
        or not 1 <= len(parts) <= 3
        or not all(isinstance(part, int | np.integer) and not isinstance(part, bool) for part in parts)
    ):
        raise LaunchError(f"{kernel}: `{name}` must be an integer or 1 to 3 of them, x first (got {value!r})")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    return x, y, z
