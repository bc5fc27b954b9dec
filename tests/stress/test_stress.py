"""Short runs of the scripts beside this file: `python first_launches.py`, `python interrupts.py`."""

from __future__ import annotations

import first_launches
import interrupts
import pytest


def nothing(_: str) -> None:
    """Print nothing for successes."""


def test_first_launches_of_sixteen_threads_at_the_same_time() -> None:
    assert first_launches.failures(2, 12, shown=nothing) == []


@pytest.mark.parametrize("kind", ["translate", "check"])
def test_ctrl_c_at_a_random_moment(kind: str) -> None:
    assert interrupts.failures(1, seed=len(kind), kind=kind, shown=nothing) == []


@pytest.mark.volume
def test_many_processes_of_sixteen_threads() -> None:
    assert first_launches.failures(10, 200, shown=nothing) == []


@pytest.mark.volume
@pytest.mark.parametrize("kind", interrupts.COMMANDS)
def test_ctrl_c_at_many_random_moments(kind: str) -> None:
    assert interrupts.failures(12, seed=1, kind=kind, shown=nothing) == []
