"""Sweeps in files: they are read as they were written, and torn or foreign files are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import ArgumentValueError, TilewrightWarning
from tilewright.show.rates.record import Point, Rate
from tilewright.show.rates.store import document, kept, read

PLAN = {"sizes": [8, 16], "devices": ["cpu"]}
CONDITIONS = {"processor": "one", "cores": 2, "threads": 2, "python": "3", "versions": {"numpy": "2"}, "load": 1.5}
RATE = Rate(Point("matmul", "cpu", "int32", 8, 8, 8), "measured", 2e-6, 1e-6, 3e-6, (2e-6, 1e-6, 3e-6), "exact")
RATES = [
    RATE,
    replace(RATE, point=replace(RATE.point, contender="numpy"), flags=("noisy",), stolen=0.25, mhz=2500),
    Rate(Point("results_8", "v100", "float32", 8, 8, 8, 32, 8, "cold"), "predicted", 2e-6, 1e-6, 3e-6, limiter="FMA"),
]


def write(path: Path, rates: Sequence[Rate] = RATES, **conditions: Any) -> None:
    with kept(path, PLAN, CONDITIONS | conditions) as file:
        file.add(rates)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    sweep = read(tmp_path / "a.jsonl")
    assert (sweep.plan, sweep.conditions, list(sweep.rates)) == (PLAN, CONDITIONS, RATES)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines[0]["format"] == "tilewright-rates"
    assert lines[1:] == [json.loads(json.dumps(document(rate))) for rate in RATES]
    assert lines[1]["operations"] == 1024


def test_a_stopped_sweep_continues_after_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, RATES[:1])
    first = path.read_bytes()
    with kept(path, PLAN, CONDITIONS | {"load": 3.0}) as file:
        assert file.sweep.rates == (RATE,)
        file.add(RATES[1:])
    assert path.read_bytes().startswith(first)
    assert list(read(path).rates) == RATES


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_last_line_is_dropped_and_written_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.jsonl"
    write(path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.warns(TilewrightWarning, match="the last line is not whole"):
        assert list(read(path).rates) == RATES[:2]
    with pytest.warns(TilewrightWarning, match="not whole"), kept(path, PLAN, CONDITIONS) as file:
        assert list(file.sweep.rates) == RATES[:2]
        file.add(RATES[2:])
    assert list(read(path).rates) == RATES


def test_rates_of_an_unfinished_round_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path)
    with kept(path, PLAN, CONDITIONS, whole=lambda rates: 2 * (len(rates) // 2)) as file:
        assert list(file.sweep.rates) == RATES[:2]
    assert list(read(path).rates) == RATES[:2]


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    write(tmp_path / "a.jsonl")
    assert list(read(tmp_path / "a.jsonl").rates) == RATES


@pytest.mark.parametrize(
    ("plan", "conditions", "said"),
    [
        (PLAN | {"sizes": [8]}, CONDITIONS, r"the same plan \(sizes: \[8, 16\] there, \[8\] now\); name another"),
        (PLAN | {"samples": 3}, CONDITIONS, r"samples: None there, 3 now"),
        (PLAN, CONDITIONS | {"processor": "two"}, r"the same host \(processor: one there, two now\)"),
    ],
)
def test_a_file_of_another_plan_or_host_is_refused_and_left(
    tmp_path: Path, plan: dict[str, Any], conditions: dict[str, Any], said: str
) -> None:
    path = tmp_path / "a.jsonl"
    write(path)
    before = path.read_bytes()
    with pytest.raises(ArgumentValueError, match=said), kept(path, plan, conditions):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"1,2,3\n", "1: must be a line of a file by"),
        (b"\xff\xfe\n", "bytes that are no text"),
        (b"\n", "no JSON object"),
        (b"half a line", "no JSON object"),
        (b'{"format": "another"}\n', "no header of one"),
        (b'{"format": "tilewright-rates", "version": 2}\n', "reads version 1 of the format"),
        (b'{"format": "tilewright-rates", "version": 1, "plan": []}\n', "without plan"),
        (b"[" * 10_000 + b"\n", "no JSON object"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(ArgumentValueError, match=said):
        read(path)
    with pytest.raises(ArgumentValueError, match=said), kept(path, PLAN, CONDITIONS):
        pass
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", 0), ("seconds", "1"), ("seconds", 5e-324), ("seconds", 10**400), ("seconds", float("nan")),
        ("m", 0), ("m", 10**300), ("mhz", 2**63), ("samples", [None]), ("kind", "guessed"), ("stolen", 2), ("more", 1),
        ("contender", "\x1b[31m"), ("device", "\ud800"), ("verified", "\u202e"), ("flags", ["x" * 1001]),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_line_with_a_wrong_value_is_named(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "a.jsonl"
    write(path)
    lines = path.read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | {name: value})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ArgumentValueError, match=f":3: .*a wrong '{name}'"):
        read(path)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"samples": []}, "0 samples of what is measured"),
        ({"kind": "predicted"}, "3 samples of what is predicted"),
        ({"least_seconds": 9e-6}, "not between the least and the most"),
    ],
)
def test_a_line_whose_values_contradict_each_other_is_refused(
    tmp_path: Path, values: dict[str, Any], said: str
) -> None:
    path = tmp_path / "a.jsonl"
    write(path, [])
    path.write_text(path.read_text() + json.dumps(document(RATE) | values) + "\n")
    with pytest.raises(ArgumentValueError, match=said):
        read(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("versions", 5), ("versions", {"numpy": 2}), ("processor", "\x1b"), ("cores", "x"), ("load", "")],
)
def test_a_header_with_a_wrong_condition_is_named(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "a.jsonl"
    header = {"format": "tilewright-rates", "version": 1, "plan": PLAN, "conditions": CONDITIONS | {name: value}}
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(ArgumentValueError, match=f":1: .*a wrong '{name}'"):
        read(path)


def test_a_line_that_lacks_a_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, [])
    path.write_text(path.read_text() + '{"contender": "matmul"}\n')
    with pytest.raises(ArgumentValueError, match="a wrong 'device': 'nothing'"):
        read(path)


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    with (
        kept(tmp_path / "a.jsonl", PLAN, CONDITIONS),
        pytest.raises(ArgumentValueError, match="another `tilewright bench` has open"),
        kept(tmp_path / "a.jsonl", PLAN, CONDITIONS),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "said"), [("no/a.jsonl", "must go to a file that can be written .got: No such file"), ("", "got a folder")]
)
def test_a_file_that_cannot_be_made(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ArgumentValueError, match=said):
        write(tmp_path / name)
    with pytest.raises(ArgumentValueError, match=r"must be a file (of rates|that is there)"):
        read(tmp_path / name)


def test_a_rate_says_its_rate() -> None:
    assert RATE.gflops == pytest.approx(1024 / 2e-6 / 1e9)


FAILURE = Rate.failure(RATE.point, "measured", ValueError("no\u202e room\nfor it"))


def test_a_rate_that_failed_is_kept_with_its_reason_and_without_a_time(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [RATE, FAILURE])
    assert list(read(tmp_path / "a.jsonl").rates) == [RATE, FAILURE]
    line = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[-1])
    assert (line["failed"], line["seconds"], line["most_seconds"]) == ("no  room", None, None)


def test_a_line_of_an_older_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, [])
    values = document(RATE)
    del values["failed"]
    path.write_text(path.read_text() + json.dumps(values) + "\n")
    assert read(path).rates == (RATE,)


@pytest.mark.parametrize("values", [{"seconds": 1.0}, {"samples": [1.0]}, {"failed": ""}, {"failed": 1}], ids=range(4))
def test_a_rate_that_failed_has_no_time_and_one_that_did_not_has(tmp_path: Path, values: dict[str, Any]) -> None:
    path = tmp_path / "a.jsonl"
    write(path, [])
    path.write_text(path.read_text() + json.dumps(document(FAILURE) | values) + "\n")
    with pytest.raises(ArgumentValueError, match="a wrong"):
        read(path)
