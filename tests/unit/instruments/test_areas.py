"""Memory that launches use one after the other."""

from __future__ import annotations

from tilewright.instruments.areas import Areas

KEPT = 8 << 20


def test_an_area_is_used_again_when_the_last_array_over_it_is_gone() -> None:
    areas = Areas()
    area = areas.take(5000)
    part, where = area[100:200].view("u4"), area.ctypes.data
    area[:] = 7
    del area
    assert areas.take(5000).ctypes.data != where  # the part is still there
    del part
    again = areas.take(4000)
    assert (again.ctypes.data, again.size, again.any()) == (where, 4000, False)


def test_what_need_not_be_cleared_is_not() -> None:
    areas = Areas()
    areas.take(5000)[:] = 7
    assert areas.take(5000, clear=False).all()


def test_a_large_area_is_zeros_though_its_pages_were_used() -> None:
    areas = Areas()
    area = areas.take(3 * KEPT)
    where = area.ctypes.data
    area[:] = 7
    del area
    again = areas.take(3 * KEPT)
    assert (again.ctypes.data, bool(again.any())) == (where, False)


def waiting(areas: Areas) -> int:
    return len(areas._waiting)


def test_no_more_wait_than_are_kept() -> None:
    areas = Areas()
    many = [areas.take(1000) for _ in range(12)]
    assert len({area.ctypes.data for area in many}) == 12
    del many
    assert waiting(areas) == 8
    many = [areas.take(3 << 20 << i) for i in range(10) for _ in range(2)]
    del many
    assert waiting(areas) == 8


def test_what_is_very_large_does_not_wait() -> None:
    areas = Areas()
    area = areas.take(5 << 30)
    assert area.size == 5 << 30 and not area[:5].any()
    del area
    assert waiting(areas) == 0
