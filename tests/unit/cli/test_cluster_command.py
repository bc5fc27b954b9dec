"""`tilewright cluster`: one cluster in detail, several as rows, both as JSON; wrong words are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw

Run = Callable[..., Any]
SMALL = ("--sizes", "20000x30000x10000", "--memory", "1GB")


def test_several_clusters_are_rows(tilewright: Run) -> None:
    done = tilewright("cluster", *SMALL, "--workers", "1,4", "--layers", "1,2")
    assert (done.status, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines() if line.strip()[:1].isdigit()]
    assert [row[:2] for row in rows[1:]] == [["1", "1"], ["1", "2"], ["4", "1"], ["4", "2"]]
    assert all(row[-1] == "arithmetic" for row in rows[1:]) and "of the least: bytes over" in done.out


def test_one_cluster_is_reported_as_in_python(tilewright: Run) -> None:
    done = tilewright("cluster", *SMALL, "--workers", 4, "--gflops", 100, "--link", "100MB/s", "--spread", "5%")
    shown = tw.simulated_cluster(
        (20000, 30000, 10000), 4, "1GB", flops_per_s=1e11, link_bytes_per_s=1e8, spread=0.05
    )  # fmt: skip
    assert done.out.split() == str(shown).split() and shown.limit == "arithmetic"


def test_json_has_every_field(tilewright: Run) -> None:
    words = ("cluster", *SMALL, "--workers", "2,3", "--failures", "0.05", "--seed", 5, "--task", "2.5", "--json")
    two, three = json.loads(tilewright(*words).out)["clusters"]
    shown = tw.simulated_cluster((20000, 30000, 10000), 2, "1GB", failure_s=180.0, seed=5, task_s=2.5e-3)
    assert (two["seconds"], two["deaths"], two["limit"]) == (shown.seconds, shown.deaths, shown.limit)
    assert two["world"]["failure_s"] == 180.0 and two["plan"]["grid"] == list(shown.plan.grid)
    assert two["worker_bytes"]["most"] == max(shown.worker_bytes) and three["world"]["workers"] == 3
    (calm,) = json.loads(tilewright("cluster", *SMALL, "--json", "--workers", 1).out)["clusters"]
    assert calm["world"]["failure_s"] is None and calm["deaths"] == 0


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--workers", "many"), "--workers must be a whole number from 1 to 100,000 (got 'many'); try 1,10,100"),
        (("--workers", "0"), "--workers must be a whole number"),
        (("--storage", "quick"), "--storage must be a positive number of bytes (got 'quick')"),
        (("--link", "-1GB/s"), "--link must be a positive number of bytes"),
        (("--gflops", "1e3"), "--gflops must be a number in plain digits (got '1e3'); try 300"),
        (("--gflops", "0"), "--gflops must be finite and more than 0"),
        (("--sizes", "100,200"), "--sizes must name one here"),
        (("--dtypes", "decimal"), "--dtypes must be one of"),
        (("--memory", "1KB"), "--memory must be at least "),
        (("--layers", "20000"), "--layers must be from 1 to k, 10,000 (got 20000); try 1"),
        (("--workers", ",".join(map(str, range(1, 35)))), "--workers and --layers must name at most 32 clusters"),
    ],
    ids=lambda value: "-".join(value).strip("-")[:20] if isinstance(value, tuple) else "",
)
def test_wrong_words_are_reported_in_a_line(tilewright: Run, words: tuple[str, ...], shown: str) -> None:
    done = tilewright("cluster", *SMALL, *words)
    assert done.status == 2 and shown in done.err and len(done.err.splitlines()) == 1


def test_workers_that_die_too_often_are_reported(tilewright: Run) -> None:
    done = tilewright("cluster", "--workers", 2, "--failures", "0.001")
    assert done.status == 2 and "workers must live longer than tiles take" in done.err
