"""The page of a program's launches: the longest that fit, and no more work than finding them takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright import machine
from tilewright.show.report.html import page, report

GPU = machine.gpu("h100")
SECONDS = [3, 9, 1, 7, 5, 8, 2, 6, 4, 10, 12, 11, 16, 15, 14, 13]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Pages of 100 letters a launch; the list gets the launches of each page that is put together."""
    pages: list[tuple[int, ...]] = []

    def together(_name: str, launches: Any, made: dict[int, str]) -> str:
        pages.append(tuple(sorted(made)))
        return "".join(made[at] for at in sorted(made))

    monkeypatch.setattr(report, "of_launch", lambda kept, gpu, time: f"{kept.profile.least_seconds:100}")
    monkeypatch.setattr(report, "_together", together)
    return pages


def launches(count: int) -> list[Any]:
    return [(SimpleNamespace(profile=SimpleNamespace(least_seconds=one)), None) for one in SECONDS[:count]]


@pytest.mark.parametrize("count", [1, 2, 16])
def test_all_that_fit_are_put_together_once(made: list[tuple[int, ...]], count: int) -> None:
    text, shown = report.of_program("p", launches(count), GPU)
    assert (shown, len(text), made) == (count, 100 * count, [tuple(range(count))])


@pytest.mark.parametrize("room", [1, 99, 100, 200, 250, 799, 800, 1500, 1599])
def test_the_longest_that_fit(made: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(page, "MOST_BYTES", room)
    text, shown = report.of_program("p", launches(16), GPU)
    fit = max(room // 100, 1)
    assert (shown, len(text)) == (fit, 100 * fit)
    assert sorted(map(int, text.split())) == sorted(SECONDS)[-fit:]
    assert len(made) <= 6
