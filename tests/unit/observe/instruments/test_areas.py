"""Memory areas that launches reuse."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from tilewright.observe.instruments.areas import Areas

KEPT = 96 << 20
MIB = 1 << 20


def test_an_area_is_reused_after_its_last_array_is_freed() -> None:
    areas = Areas()
    area = areas.take(5000)
    part, where = area[100:200].view("u4"), area.ctypes.data
    area[:] = 7
    del area
    assert areas.take(5000).ctypes.data != where  # the part still exists
    del part
    again = areas.take(4000)
    assert (again.ctypes.data, again.size, again.any()) == (where, 4000, False)


def test_areas_are_cleared_only_if_needed() -> None:
    areas = Areas()
    areas.take(5000)[:] = 7
    assert areas.take(5000, clear=False).all()


def test_a_large_area_is_zero_although_its_pages_were_used() -> None:
    areas = Areas()
    area = areas.take(KEPT + 8 * MIB)
    where = area.ctypes.data
    area[:] = 7
    del area
    again = areas.take(KEPT + 8 * MIB)
    assert (again.ctypes.data, bool(again.any())) == (where, False)


def waiting(areas: Areas) -> int:
    return len(areas._waiting)


def test_only_a_limited_number_of_areas_is_kept() -> None:
    areas = Areas()
    many = [areas.take(1000) for _ in range(12)]
    assert len({area.ctypes.data for area in many}) == 12
    del many
    assert waiting(areas) == 8
    many = [areas.take(3 << 20 << i) for i in range(10) for _ in range(2)]
    del many
    assert waiting(areas) == 8


def test_very_large_areas_are_not_kept() -> None:
    areas = Areas()
    area = areas.take(5 << 30)
    assert area.size == 5 << 30 and not area[:5].any()
    del area
    assert waiting(areas) == 0


def resident_bytes(area: np.ndarray) -> int:
    """Bytes of an area in memory, by Linux's own table: a list of mappings may count its neighbours with it."""
    first, page = area.ctypes.data // mmap.PAGESIZE, mmap.PAGESIZE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        file.seek(8 * first)
        entries = np.frombuffer(file.read(8 * (area.size // page)), np.uint64)
    return int((entries >> np.uint64(63)).sum()) * page


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="pages are counted as Linux counts them")
@pytest.mark.parametrize(("part_bytes", "kept"), [(4 * MIB, True), (40 * MIB, False)])
def test_distant_pages_are_kept_as_zeros_if_they_are_few(part_bytes: int, kept: bool) -> None:
    areas = Areas()
    area = areas.take(400 * MIB)
    for start in (0, 100 * MIB, 300 * MIB):
        area[start : start + part_bytes] = 7
    where = area.ctypes.data
    del area
    again = areas.take(400 * MIB)
    held = resident_bytes(again)
    assert again.ctypes.data == where
    assert held >= 3 * part_bytes if kept else held < 8 * MIB
    assert not any(again[start : start + part_bytes].any() for start in (0, 100 * MIB, 300 * MIB))
