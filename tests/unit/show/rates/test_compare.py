"""Comparisons of two sweeps: intervals that hold, yardsticks, predicted times, and which points count as slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentValueError
from tilewright.show.rates.compare import Comparison, compare, interval
from tilewright.show.rates.record import Point, Rate, Sweep

POINT = Point("matmul", "cpu", "float32", 256, 256, 256)
COUNT = 15


def times(median: float, seed: int, spread: float = 0.03, count: int = COUNT) -> tuple[float, ...]:
    """Samples with a long tail, as measured times have."""
    random = np.random.default_rng(seed)
    return tuple(float(x) for x in median * (1 + spread * random.gamma(1.0, 1.0, count)))


def measured(samples: Sequence[float], contender: str = "matmul", **changes: Any) -> Rate:
    low, median, high = (float(x) for x in np.quantile(samples, (0.25, 0.5, 0.75)))
    point = replace(POINT, contender=contender, **changes)
    return Rate(point, "measured", median, low, high, tuple(samples), "exact")


def predicted(seconds: float, **changes: Any) -> Rate:
    point = replace(POINT, contender="results_8", device="a6000", caches="cold", **changes)
    return Rate(point, "predicted", seconds, 0.75 * seconds, 1.35 * seconds, verified="exact at 64 x 64 x 256")


def sweep(*rates: Rate, **conditions: Any) -> Sweep:
    return Sweep({}, {"processor": "one", "versions": {"numpy": "2"}, **conditions}, rates)


def verdicts(found: Comparison) -> list[str]:
    return [one.verdict for one in found.points]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.3, "slower"), (0.7, "faster"), (1.05, "unclear")])
def test_a_measured_change_is_judged_by_its_interval(factor: float, verdict: str) -> None:
    found = compare(sweep(measured(times(1.0, 1))), sweep(measured(times(factor, 2))))
    assert verdicts(found) == [verdict]
    (one,) = found.points
    assert one.least < one.ratio < one.most
    assert one.ratio == pytest.approx(factor, rel=0.03)
    assert bool(found.regressed) == (verdict == "slower")


def test_a_change_counts_from_the_threshold_on() -> None:
    old, new = sweep(measured(times(1.0, 1))), sweep(measured(times(1.3, 2)))
    assert verdicts(compare(old, new, 0.2)) == ["slower"]
    assert verdicts(compare(old, new, 0.5)) == ["same"]


def test_a_host_that_is_slower_is_no_slower_contender() -> None:
    host = np.linspace(1.0, 1.4, COUNT)
    old = sweep(measured(times(1.0, 1, 0.01)), measured(times(2.0, 2, 0.01), "numpy"))
    new = sweep(measured(host * times(1.4, 3, 0.01)), measured(host * times(2.8, 4, 0.01), "numpy"))
    (one,) = compare(old, new).points
    assert (one.verdict, one.yardstick) == ("same", "numpy")
    assert verdicts(compare(sweep(old.rates[0]), sweep(new.rates[0]))) == ["slower"]  # without a yardstick


def test_a_slower_contender_on_a_slower_host_is_seen() -> None:
    old = sweep(measured(times(1.0, 1)), measured(times(2.0, 2), "numpy"))
    new = sweep(measured(times(1.4 * 1.3, 3)), measured(times(2.8, 4), "numpy"))
    assert verdicts(compare(old, new)) == ["slower"]


def test_a_disturbed_yardstick_makes_no_contender_slower() -> None:
    old = sweep(measured(times(1.0, 1)), measured(times(20.0, 2), "numpy"))
    new = sweep(measured(times(1.0, 3)), measured(times(2.0, 4), "numpy"))
    assert verdicts(compare(old, new)) == ["unclear"]
    assert verdicts(compare(new, old)) == ["unclear"]


def test_a_noisy_yardstick_measures_nothing() -> None:
    noisy = replace(measured(times(20.0, 2), "numpy"), flags=("noisy",))
    old = sweep(measured(times(1.0, 1)), noisy)
    for factor, verdict in ((1.0, "same"), (1.5, "slower")):
        (one,) = compare(old, sweep(measured(times(factor, 3)), measured(times(2.0, 4), "numpy"))).points
        assert (one.verdict, one.yardstick) == (verdict, "")


def test_of_disturbed_times_the_quicker_half_counts_from_a_quarter_on() -> None:
    def disturbed(median: float, seed: int) -> Rate:
        samples = times(median, seed, count=31)
        return replace(measured([x * (1 + 3 * (i % 5 > 2)) for i, x in enumerate(samples)]), flags=("disturbed",))

    found = [compare(sweep(disturbed(1.0, 1)), sweep(disturbed(factor, 2))) for factor in (1.0, 1.15, 1.5, 0.5)]
    assert [verdicts(one) for one in found] == [["same"], ["same"], ["slower"], ["faster"]]
    assert verdicts(compare(sweep(disturbed(1.0, 1)), sweep(disturbed(1.5, 2)), 0.6)) == ["same"]


def test_with_a_yardstick_too_a_disturbed_change_counts_from_a_quarter_on() -> None:
    old = sweep(measured(times(1.0, 1)), measured(times(2.0, 2), "numpy"))

    def new(factor: float, *flags: str) -> Sweep:
        return sweep(replace(measured(times(factor, 3)), flags=flags), measured(times(2.0, 4), "numpy"))

    assert verdicts(compare(old, new(1.15))) == ["slower"]
    assert verdicts(compare(old, new(1.15, "disturbed"))) == ["same"]
    assert verdicts(compare(old, new(1.5, "disturbed"))) == ["slower"]


def test_sweeps_with_different_numbers_of_samples_are_compared() -> None:
    old = sweep(measured(times(1.0, 1)), measured(times(2.0, 2), "numpy"))
    new = sweep(measured(times(1.0, 3, count=30)), measured(times(2.0, 4, count=30), "numpy"))
    (one,) = compare(old, new).points
    assert (one.verdict, one.yardstick) == ("same", "numpy")


def test_few_samples_are_never_sure() -> None:
    (one,) = compare(sweep(measured(times(1.0, 1, count=3))), sweep(measured(times(9.0, 2, count=3)))).points
    assert (one.verdict, one.most) == ("unclear", float("inf"))


def test_predicted_times_are_compared_exactly() -> None:
    old = sweep(*(predicted(1e-3, m=m) for m in (1, 2, 3)))
    new = sweep(predicted(1e-3, m=1), predicted(1.0001e-3, m=2), predicted(0.9999e-3, m=3))
    found = compare(old, new, 0.5)
    assert verdicts(found) == ["same", "slower", "faster"]
    assert [one.new.point.m for one in found.regressed] == [2]


def test_a_product_that_became_wrong_counts() -> None:
    old, new = measured(times(1.0, 1)), replace(measured(times(0.5, 2)), verified="wrong: 3 elements")
    assert verdicts(compare(sweep(old), sweep(new))) == ["wrong"]
    assert compare(sweep(old), sweep(new)).regressed
    assert verdicts(compare(sweep(new), sweep(new))) == ["same"]


def test_points_of_only_one_sweep_are_reported() -> None:
    found = compare(sweep(predicted(1, m=1), predicted(1, m=2)), sweep(predicted(1, m=2), predicted(1, m=3)))
    assert [point.m for point in (*found.only_old, *found.only_new)] == [1, 3]
    with pytest.raises(ArgumentValueError, match="must have points in common"):
        compare(sweep(predicted(1, m=1)), sweep(predicted(1, m=3)))


def test_a_peer_is_judged_only_alone() -> None:
    both = sweep(measured(times(1.0, 1)), measured(times(1.0, 2), "numpy"))
    assert [one.new.point.contender for one in compare(both, both).points] == ["matmul"]
    peer = sweep(measured(times(1.0, 2), "numpy"))
    assert [one.new.point.contender for one in compare(peer, peer).points] == ["numpy"]


def test_other_hosts_and_versions_are_reported_for_measured_times() -> None:
    old = sweep(measured(times(1.0, 1)))
    new = sweep(measured(times(1.0, 2)), processor="two", versions={"numpy": "3", "torch": "2"})
    assert compare(old, new).differing == ("processor: one -> two", "numpy: 2 -> 3", "torch: None -> 2")
    exact = sweep(predicted(1.0)), sweep(predicted(1.0), processor="two")
    assert compare(*exact).differing == ()


def test_intervals_miss_as_rarely_as_they_promise() -> None:
    random = np.random.default_rng(0)
    missed = 0
    for _ in range(2000):
        x, y = (list(np.exp(random.normal(0, 0.1, COUNT))) for _ in range(2))
        _, least, most = interval(x, y, 0.05)
        missed += not least <= 1 <= most
    assert 60 < missed < 130


def test_many_unchanged_points_are_not_called_slower() -> None:
    """100 points with a threshold of 0: in 99 % of all sweeps no point is called slower or faster."""
    flagged = 0
    for run in range(30):
        pairs = [(times(1.0, 1000 * run + m, 0.1), times(1.0, 10**6 + 1000 * run + m, 0.1)) for m in range(1, 101)]
        old = sweep(*(measured(x, m=m) for m, (x, _) in enumerate(pairs, 1)))
        new = sweep(*(measured(y, m=m) for m, (_, y) in enumerate(pairs, 1)))
        flagged += bool({"slower", "faster"} & set(verdicts(compare(old, new, 0.0))))
    assert flagged <= 2


def test_a_failure_counts_where_it_is_new_and_is_no_yardstick() -> None:
    good, stick = measured(times(1.0, 1)), measured(times(2.0, 2), "numpy")
    bad, broken = (Rate.failure(rate.point, "measured", ValueError("no room")) for rate in (good, stick))
    for old, new, regressed in ((good, bad, 1), (bad, good, 0), (bad, bad, 0)):
        found = compare(sweep(old), sweep(new))
        assert (verdicts(found), len(found.regressed)) == (["failed"], regressed)
    for found in (compare(sweep(good, stick), sweep(good, broken)), compare(sweep(good, broken), sweep(good, stick))):
        assert [(one.verdict, one.yardstick) for one in found.points] == [("same", "")]
