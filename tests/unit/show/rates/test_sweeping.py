"""A running sweep: its progress, the file it continues from, and the caches it can empty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fakes import IDLE

from tilewright.errors import ArgumentValueError, LimitError, MissingExtraError
from tilewright.ground import progress
from tilewright.ground.progress import Activity
from tilewright.show.rates import sweeping
from tilewright.show.rates.plan import Asked
from tilewright.show.rates.record import Point, Rate
from tilewright.show.rates.sweeping import Sweeping

SIZES = ((4, 4, 4), (5, 5, 5), (6, 6, 6))


class Watching:
    """Records each piece of work, and how much of it was done when the next began."""

    def __init__(self) -> None:
        self.works: list[Activity] = []

    def started(self, work: Activity) -> None:
        self.works.append(work)

    def ended(self, work: Activity) -> None:
        pass


def test_progress_counts_points_and_those_that_are_kept() -> None:
    asked = Asked(sizes=SIZES, against=("numpy",), samples=1)
    watching, done = Watching(), []
    with progress.watched(watching):
        for _ in Sweeping(asked, IDLE).rates(2):
            timing = next(work for work in watching.works if work.doing == "timing")
            assert timing.done is not None
            done.append(timing.done())
    assert (timing.parts, done, timing.done()) == (6, [2, 4], 6)


def test_a_file_s_rates_must_be_of_the_sweep_s_points() -> None:
    sweep = Sweeping(Asked(sizes=SIZES, against=("numpy",)), IDLE)
    rates = [Rate(point, "measured", 1.0, 1.0, 1.0, (1.0,)) for point in sweep.points]
    assert [sweep.whole(rates[:count]) for count in range(7)] == [0, 0, 2, 2, 4, 4, 6]
    assert sweep.whole([*rates, rates[0]]) == 6
    with pytest.raises(ArgumentValueError, match="must be of this sweep"):
        sweep.whole([rates[1]])


def test_operands_of_a_measured_product_are_random_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(sweeping, "matmul", lambda a, b: (seen.append((a, b)), a @ b)[1])
    lefts = []
    for seed in (0, 0, 1):
        list(Sweeping(Asked(sizes=SIZES[:1], samples=1, dtypes=("int32",), seed=seed), IDLE).rates())
        lefts.append(seen[-1][0])
    first, again, other = lefts
    assert first.std() > 100
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_each_sample_is_of_its_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sweeping.turns([], 0).__class__(((3.0, 1.0, 2.0), (30.0, 10.0, 20.0)), disturbed=True)
    monkeypatch.setattr(sweeping, "turns", lambda *_, **__: taken)
    ((ours, peer),) = Sweeping(Asked(sizes=SIZES[:1], against=("numpy",), samples=3), IDLE).rates()
    assert (ours.point.contender, ours.seconds, ours.samples) == ("matmul", 2.0, (3.0, 1.0, 2.0))
    assert (peer.point.contender, peer.seconds, peer.least_seconds) == ("numpy", 20.0, 15.0)
    assert ours.flags == ("noisy", "disturbed")
    assert 0 <= ours.stolen <= 1


def test_only_a_processor_s_caches_can_be_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.multiply.backends.protocol import Device

    monkeypatch.setattr(
        sweeping.inventory, "devices", lambda: [Device("cpu", "", "processor"), Device("opencl:0", "", "gpu")]
    )
    asked = Asked(sizes=SIZES[:1], caches=("cold",))
    assert Sweeping(asked, IDLE).points == (Point("matmul", "cpu", "float32", 4, 4, 4, caches="cold"),)
    with pytest.raises(ArgumentValueError, match="cold must be of the processor"):
        Sweeping(replace(asked, devices=("opencl",)), IDLE)


@pytest.mark.parametrize("names", [(), ("numpy",), ("numpy", "torch")], ids=" ".join)
def test_a_failure_is_kept_and_the_others_take_turns(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    def broken(a: object, b: object) -> None:
        raise LimitError("matmul: over the limit\nof all")

    def unknown(*_: object) -> None:
        raise RuntimeError("no such dtype")

    monkeypatch.setattr(sweeping, "matmul", broken)
    monkeypatch.setitem(sweeping.PEERS, "torch", replace(sweeping.PEERS["torch"], module="json", prepare=unknown))
    found = [rate for group in Sweeping(Asked(sizes=SIZES, against=names, samples=1), IDLE).rates() for rate in group]
    assert [rate.point.contender for rate in found] == ["matmul", *names] * 3
    said = {"matmul": "matmul: over the limit", "torch": "no such dtype", "numpy": ""}
    assert all(rate.failed == said[rate.point.contender] for rate in found)
    assert all(bool(rate.samples) == (not rate.failed) for rate in found)


def test_a_missing_library_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingExtraError("the gpu extra is needed", "gpu")

    monkeypatch.setattr(sweeping.products, "predict_product", missing)
    with pytest.raises(MissingExtraError):
        list(Sweeping(Asked(kernels=("results_8",), devices=("a6000",))).rates())
