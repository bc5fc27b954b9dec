"""Linear programs: against every basic solution, and infeasible ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tilewright.errors import CompileError, LimitError
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.linear import least

pytest.importorskip("highspy", reason="the gpu extra brings the solver")


@pytest.mark.parametrize("seed", range(20))
def test_the_least_is_that_of_the_best_basic_solution(seed: int) -> None:
    """Oracle: a bounded linear program has its least value at a basic solution."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (3, 6)).astype(float)
    sums, costs = rows @ rng.integers(0, 5, 6), rng.integers(1, 9, 6).astype(float)
    best = np.inf
    for chosen in itertools.combinations(range(6), 3):
        square = rows[:, chosen]
        if abs(np.linalg.det(square)) > 1e-9 and (x := np.linalg.solve(square, sums)).min() >= -1e-9:
            best = min(best, float(costs[list(chosen)] @ x))
    found = least(
        costs.tolist(), [(dict(enumerate(row)), total) for row, total in zip(rows, sums, strict=True)], Deadline()
    )
    assert found.min() >= -1e-9
    assert rows @ found == pytest.approx(sums)
    assert costs @ found == pytest.approx(best)


def test_an_infeasible_program_is_refused() -> None:
    with pytest.raises(CompileError, match="must end"):
        least([1.0], [({0: 1.0}, -1.0)], Deadline())


def test_a_deadline_that_has_passed_ends_it() -> None:
    with pytest.raises(LimitError, match="within 1e-09 s"):
        least([1.0], [({0: 1.0}, 1.0)], Deadline(1e-9))
