"""Random flow graphs, irreducible ones among them, against one thread at a time in plain Python."""

from __future__ import annotations

import pytest
from random_graphs import wrong_threads


@pytest.mark.parametrize("first", range(0, 60, 6))
def test_random_graphs(first):
    found = [line for seed in range(first, first + 6) for line in wrong_threads(seed)[:1]]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("first", range(100, 115, 5))
def test_warps_that_yield_all_the_time(first, monkeypatch):
    """With almost no fuel a warp saves and restores its registers at every back edge."""
    monkeypatch.setattr("tilewright.simulate.run.execution.QUANTUM", 3)
    found = [line for seed in range(first, first + 5) for line in wrong_threads(seed)[:1]]
    assert not found, "\n".join(found)


@pytest.mark.volume
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_many_random_graphs(first):
    found = [line for seed in range(first, first + 100) for line in wrong_threads(seed, block=40)[:1]]
    assert not found, "\n".join(found)
