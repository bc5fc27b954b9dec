"""`tilewright predict`: times of kernels of the catalogue as a table, alone, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")

Run = Callable[..., Any]


def test_a_table_of_kernels(tilewright: Run) -> None:
    done = tilewright("predict", "--kernels", "results_4,results_8", "--size", 128, "--gpu", "a6000")
    assert (done.status, done.err) == (0, "")
    assert "predicted, nothing was measured" in done.out
    names = [line.split()[0] for line in done.out.splitlines() if line.startswith("results")]
    assert names[:2] == ["results_4", "results_8"]  # where the table is cut in two, they stand twice
    assert max(map(len, done.out.splitlines())) <= 100


def test_one_kernel_with_its_shares(tilewright: Run) -> None:
    done = tilewright("predict", "--kernels", "results_8", "--size", 128, "--gpu", "a6000", "--clock", 1000)
    assert done.status == 0
    assert "1,000 MHz" in done.out
    assert "the time goes to" in done.out


def test_json_has_shape_time_and_shares(tilewright: Run) -> None:
    done = tilewright("predict", "--kernels", "results_8", "--shape", "64,96,128", "--gpu", "v100", "--json")
    (found,) = json.loads(done.out)["predictions"]
    assert (found["name"], found["shape"], found["dtype"]) == ("results_8", [64, 96, 128], "float32")
    assert found["gflops"] == pytest.approx(2 * 64 * 96 * 128 / found["seconds"] / 1e9)
    assert {"limiter", "shares", "changes", "least_seconds"} <= set(found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--size", 64, "--shape", "1,2,3"), "--size and --shape exclude each other"),
        (("--kernels", "nonsense"), "must name records of the catalogue"),
        (("--kernels", "tiled_published", "--dtype", "float64"), "no kernel takes"),
        (("--kernels", "three_loops"), "must name kernels that GPUs run"),
        (("--clock", "fast"), "--clock"),
    ],
)
def test_wrong_use(tilewright: Run, words: tuple[Any, ...], said: str) -> None:
    done = tilewright("predict", *words)
    assert done.status == 2
    assert said in done.err
