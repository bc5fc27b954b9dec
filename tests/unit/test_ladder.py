"""The ladder, on fake records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import FakeRecord

from tilewright import catalogue, ladder
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.progress import Activity, watched
from tilewright.show.ladder import climber
from tilewright.show.ladder.rung import Predicted
from tilewright.show.report.climb import _legend


def test_operands_are_the_same_everywhere_and_round_at_every_step() -> None:
    a, b = ladder.operands(3, 5, 4, "float32", 7)
    again = ladder.operands(3, 5, 4, "float32", 7)
    assert a.shape == (3, 4)
    assert b.shape == (4, 5)
    assert np.array_equal(a, again[0])
    assert np.array_equal(b, again[1])
    assert not np.array_equal(a, ladder.operands(3, 5, 4, "float32", 8)[0])
    assert (a < 0).any()
    assert (a != np.round(a)).all()
    assert ladder.operands(50, 50, 50, "int32")[0].min() < 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_are_compared_not_values(dtype: str) -> None:
    c = np.array([0.0, 1.0, np.nan, np.inf], dtype)
    other = c.copy()
    assert climber.mismatches(c, other) == 0
    other[0] = -0.0
    assert climber.mismatches(c, other) == 1
    other[1] = np.nextafter(other[1], other[1] * 2)
    assert climber.mismatches(c, other) == 2
    other[2] = 0
    assert climber.mismatches(c, other) == 3
    other[3] = -np.inf
    assert climber.mismatches(c, other) == 4


def test_a_nan_is_a_nan_and_another_dtype_is_all_wrong() -> None:
    quiet = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    assert climber.mismatches(quiet, np.full(2, np.nan, np.float32)) == 0
    assert climber.mismatches(np.zeros(3, np.float32), np.zeros(3)) == 3
    assert climber.mismatches(np.array([1, 2]), np.array([1, 3])) == 1


def test_records_are_chosen_by_name_source_and_pattern_in_their_own_order() -> None:
    records = [FakeRecord("loops"), FakeRecord("tiled_16", source="S9"), FakeRecord("tiled_8", source="S9")]

    def names(*patterns: str) -> list[str]:
        return [r.name for r in ladder.select(records, patterns)]  # type: ignore[arg-type]

    assert names("tiled_8", "loops") == ["loops", "tiled_8"]
    assert names("s9") == names("S9") == names("tiled*") == ["tiled_16", "tiled_8"]
    with pytest.raises(ArgumentValueError, match="did you mean tiled_16"):
        names("tild_16")


@pytest.mark.parametrize(
    ("a", "b", "error", "words"),
    [
        (np.ones(3), np.ones((3, 3)), ArgumentValueError, "`a` must be a matrix"),
        (np.ones((3, 3)), np.ones((3, 3, 3)), ArgumentValueError, "`b` must be a matrix"),
        (np.ones((2, 48)), np.ones((64, 2)), ArgumentValueError, r"`b.shape\[0\]` must equal .* \(got 64 and 48\)"),
        (np.ones((2, 3)), np.ones((3, 2), int), ArgumentTypeError, "`b.dtype` must equal `a.dtype`"),
        (np.ones((2, 3), complex), np.ones((3, 2), complex), ArgumentTypeError, r"`a.dtype` .* \(got complex128\)"),
        (np.ones((0, 3)), np.ones((3, 2)), ArgumentValueError, "extent of 0"),
    ],
)
def test_operands_that_do_not_fit(a: Any, b: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ladder.climb(a, b)


def test_a_climb_announces_its_rungs(catalogue_of: Callable[..., None]) -> None:
    shown: list[str] = []

    class Watcher:
        def started(self, work: Activity) -> None:
            shown.append(f"{work.doing} {work.share():.0%} of {work.parts} {work.unit}")

        def ended(self, work: Activity) -> None:
            shown.append(f"{work.share():.0%}")

    catalogue_of(FakeRecord("one"), FakeRecord("two"))
    a, b = ladder.operands(2, 2, 2, "int32")
    with watched(Watcher()):
        ladder.climb(a, b)
    assert shown == ["verifying 0% of 2 kernels", "100%"]


def test_counts_come_from_an_instrumented_run_and_seconds_from_a_plain_one(
    catalogue_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import fakes

    launched: list[tuple[list[str], Any]] = []

    def launch(program: Any, *rest: Any, **options: Any) -> fakes.FakeRun:
        launched.append(([i.name for i in options["instruments"]], options["seed"]))
        return fakes.launch(program, *rest, **options)

    catalogue_of(FakeRecord("tiled", backend="gpu"))
    monkeypatch.setattr("tilewright.simt.launch", launch)
    a, b = ladder.operands(4, 4, 4, "float32")
    rung = ladder.climb(a, b, seed=11).rungs[0]
    assert launched == [([], 11), (["mix", "divergence", "coalescing", "banks", "tensor work"], 11)]
    assert rung.counts.warp_instructions == 1000
    assert (rung.seconds, rung.translate_seconds) == (0.25, 0.5)
    assert rung.block == (16, 16, 1)
    assert [(unit.name, unit.seconds) for unit in rung.limits] == [("DRAM", 1e-6)]


def test_a_dtype_that_no_record_takes_is_not_run(catalogue_of: Callable[..., None]) -> None:
    catalogue_of(FakeRecord("loops", dtypes=("int32",)))
    rung = ladder.climb(*ladder.operands(2, 2, 2, "float64")).rungs[0]
    assert rung.verified is None
    assert rung.note == "not run: takes int32, not float64"


def test_a_real_gpu_runs_its_own_code_and_is_compared_with_the_vendor(
    catalogue_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import fakes

    asked: list[tuple[int, int]] = []

    class Asking(FakeRecord):
        def program(self, dtype: str, cc: tuple[int, int]) -> fakes.FakeProgram:
            asked.append(cc)
            return super().program(dtype, cc)

    class Card:
        properties = SimpleNamespace(multiprocessor_count=170)
        name = "A card"
        compute_capability = (12, 0)
        identity = "a card"
        record = None

    catalogue_of(Asking("tiled", backend="gpu"), FakeRecord("loops"))
    monkeypatch.setattr("tilewright.multiply.backends.cuda.device.compute_capability", lambda: (12, 0))
    monkeypatch.setattr("tilewright.multiply.backends.cuda.device.check_available", lambda: None)
    monkeypatch.setattr("tilewright.multiply.backends.cuda.current.device", Card)
    monkeypatch.setattr("tilewright.multiply.backends.cuda.device.launch", fakes.launch)
    monkeypatch.setattr("tilewright.multiply.backends.cuda.cublas.available", lambda: True)
    monkeypatch.setattr("tilewright.multiply.backends.cuda.cublas.multiply", lambda a, b: (a @ b + 1, 0.125))
    done = ladder.climb(*ladder.operands(4, 4, 4, "float32"), device="cuda")
    assert asked == [(12, 0)]
    assert (done.machine.gpu, done.machine.compute_capability) == ("A card", "12.0")
    assert [(r.name, r.device, r.verified, r.seconds) for r in done.rungs if r.name != "loops"] == [
        ("tiled", "cuda", True, 0.25),
        ("cublas", "cuda", False, 0.125),
    ]
    assert done.rungs[0].counts.warp_instructions is None
    assert done.trusted
    assert done.problem.dtypes == ("float32",)


def test_a_rung_has_a_predicted_time_with_its_band() -> None:
    pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")
    a, b = ladder.operands(32, 32, 32, "float32")
    (rung,) = ladder.climb(a, b, records=[catalogue.find("results_8")]).rungs
    found = rung.predicted
    assert found.predicted_seconds and found.predicted_least_seconds and found.predicted_most_seconds
    assert 1e-6 < found.predicted_least_seconds < found.predicted_seconds < found.predicted_most_seconds < 1e-4


def test_a_time_that_the_ladder_cannot_predict_is_explained() -> None:
    a, b = ladder.operands(4, 4, 4, "float32")
    done = ladder.climb(a, b, records=[FakeRecord("loops")])
    counted = replace(done.rungs[0], limits=(object(),), predicted=Predicted(2e-6, 1e-6, 3e-6))
    other = replace(counted, name="hopper", predicted=Predicted())
    assert "No predicted time" not in " ".join(_legend(replace(done, rungs=(counted,))))
    assert "predict --kernels hopper`" in " ".join(_legend(replace(done, rungs=(counted, other))))
