"""`tilewright compare`: its table, JSON, exit status, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tilewright.show.rates import store
from tilewright.show.rates.record import Point, Rate

Run = Callable[..., Any]
POINT = Point("matmul", "cpu", "float32", 64, 64, 64)
SAMPLES = tuple(1e-6 * (1 + i / 1000) for i in range(15))


def rate(factor: float = 1.0, point: Point = POINT, samples: Sequence[float] = SAMPLES) -> Rate:
    taken = tuple(factor * x for x in samples)
    return Rate(point, "measured", taken[2], taken[1], taken[3], taken, "exact")


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[Path]]:
    def write(*sweeps: Sequence[Rate]) -> list[Path]:
        paths = [tmp_path / f"{len(list(tmp_path.iterdir())) + i}.jsonl" for i in range(len(sweeps))]
        for path, rates in zip(paths, sweeps, strict=True):
            with store.kept(path, {}, {"processor": "one"}) as file:
                file.add(rates)
        return paths

    return write


def test_an_unchanged_sweep(tilewright: Run, files: Run) -> None:
    done = tilewright("compare", *files([rate()], [rate(1.001)]))
    assert (done.status, done.err) == (0, "")
    assert "1 same of 1 point" in done.out


def test_a_slower_one_is_status_1(tilewright: Run, files: Run) -> None:
    paths = files([rate()], [rate(1.2)])
    done = tilewright("compare", *paths)
    assert done.status == 1
    assert "1 slower of 1 point" in done.out
    assert "1.20" in done.out
    assert tilewright("compare", *paths, "--threshold", "30 %").status == 0
    assert tilewright("compare", *reversed(paths)).status == 0


def test_json(tilewright: Run, files: Run) -> None:
    found = json.loads(tilewright("compare", *files([rate()], [rate(1.2)]), "--json").out)
    (one,) = found["points"]
    assert (one["verdict"], one["contender"], found["threshold"]) == ("slower", "matmul", 0.05)
    assert one["ratio"] == pytest.approx(1.2)
    assert one["least"] < one["ratio"] < one["most"]
    few = json.loads(
        tilewright("compare", *files([rate(1, POINT, SAMPLES[:4])], [rate(2, POINT, SAMPLES[:4])]), "--json").out
    )
    assert (few["points"][0]["verdict"], few["points"][0]["most"]) == ("unclear", None)


@pytest.mark.parametrize("text", ["5", "five%", "-5%", "", "5%%"])
def test_a_threshold_is_a_percentage(tilewright: Run, files: Run, text: str) -> None:
    done = tilewright("compare", *files([rate()], [rate()]), f"--threshold={text}")
    assert done.status == 2
    assert "--threshold must be a percentage" in done.err


def test_files_that_are_no_sweeps(tilewright: Run, files: Run, tmp_path: Path) -> None:
    (path,) = files([rate()])
    done = tilewright("compare", path, tmp_path / "no.jsonl")
    assert (done.status, "no such file" in done.err) == (2, True)
    (tmp_path / "a.csv").write_text("1,2\n")
    done = tilewright("compare", path, tmp_path / "a.csv")
    assert (done.status, "must be a line of a file by" in done.err) == (2, True)


def test_sweeps_without_a_common_point(tilewright: Run, files: Run) -> None:
    other = Point("matmul", "cpu", "int8", 8, 8, 8)
    done = tilewright("compare", *files([rate()], [rate(1.0, other)]))
    assert (done.status, "must have points in common" in done.err) == (2, True)
    done = tilewright("compare", *files([rate(), rate(1.0, other)], [rate()]))
    assert (done.status, "1 point only in the old sweep" in done.out) == (0, True)
