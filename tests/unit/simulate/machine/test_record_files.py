"""Records of GPUs as JSON: a written record is read as the same, and an invalid one is refused with the broken rule."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright import machine
from tilewright.errors import ArgumentValueError
from tilewright.simulate.machine.record_files import document


def written(tmp_path: Path, data: object) -> str:
    path = tmp_path / "mine.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", machine.names())
def test_a_written_record_is_read_as_the_same(tmp_path: Path, name: str) -> None:
    record, path = machine.gpu(name), written(tmp_path, document(machine.gpu(name)))
    assert machine.gpu(path) == replace(record, key=path)
    assert hash(machine.gpu(path)) == hash(replace(record, key=path))


def test_one_that_is_like_another_and_a_file_that_changes(tmp_path: Path) -> None:
    path = written(tmp_path, {"like": "h100", "name": "mine", "multiprocessors": 4})
    assert machine.gpu(path) == replace(machine.gpu("h100"), key=path, name="mine", multiprocessors=4)
    written(tmp_path, {"like": "h100", "name": "mine", "multiprocessors": 5})
    os.utime(path, ns=(1, 1))
    assert machine.gpu(path).multiprocessors == 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "must be JSON (Expecting property name"),
        ("[" * 100_000, "must be JSON (maximum recursion depth"),
        ('{"like": "h100", "multiprocessors": ' + "9" * 5000 + "}", "must be JSON (Exceeds the limit"),
        (
            {"like": "h100", "multiprocessors": 10**30},
            "'multiprocessors' must be a whole number from 1 to 1e15 (got 10",
        ),
        ({"like": "h100", "peak_fp32_tflops": 10**400}, "'peak_fp32_tflops' must be a number above 0, at most 1e15"),
        ([], "must have one record, an object (got list)"),
        ({"like": "h100", "multiprocesors": 4}, "no field 'multiprocesors'; did you mean multiprocessors?"),
        ({"like": "h100", "launch": 1024}, "no field 'launch'"),
        ({"like": "h1000"}, "'like': a GPU must be one of v100"),
        ({"like": 3}, "'like' must name a GPU of `tilewright gpus` (got 3)"),
        ({"name": "mine"}, "must state every field (without blocks_per_multiprocessor, boost_mhz, "),
        ({"like": "h100", "multiprocessors": "4"}, "'multiprocessors' must be a whole number from 1 to 1e15 (got '4')"),
        ({"like": "h100", "multiprocessors": True}, "'multiprocessors' must be a whole number from 1 to 1e15"),
        ({"like": "h100", "l2_bytes": 0}, "'l2_bytes' must be a whole number from 1 to 1e15 (got 0)"),
        (
            {"like": "h100", "peak_fp32_tflops": -1},
            "'peak_fp32_tflops' must be a number above 0, at most 1e15 (got -1)",
        ),
        (
            {"like": "h100", "peak_fp32_tflops": math.nan},
            "'peak_fp32_tflops' must be a number above 0, at most 1e15 (got nan)",
        ),
        ({"like": "h100", "peak_fp32_tflops": math.inf}, "must be a number above 0, at most 1e15 (got inf)"),
        ({"like": "h100", "compute_capability": "3.5"}, "'compute_capability' must be one of '7.0', "),
        ({"like": "h100", "compute_capability": [9, 0]}, "'compute_capability' must be one of '7.0', "),
        ({"like": "h100", "name": ""}, "'name' must be printable text (got '')"),
        ('{"like": "h100", "name": "\\ud800"}', "'name' must be printable text (got '\\ud800')"),
        ({"like": "h100", "shared_steps_kib": [8, 0]}, "'shared_steps_kib' must be a list of whole numbers, the least"),
        ({"like": "h100", "tensor_per_clock": {"f16": 0.5}}, "'tensor_per_clock' must be an object of formats"),
    ],
)
def test_an_invalid_record_is_refused(tmp_path: Path, data: object, message: str) -> None:
    with pytest.raises(ArgumentValueError) as error:
        machine.gpu(written(tmp_path, data))
    assert message in str(error.value) and "mine.json" in str(error.value)


def test_a_path_that_the_system_cannot_have() -> None:
    with pytest.raises(ArgumentValueError, match="must be a file that can be read"):
        machine.gpu("a\0b.json")


def test_a_missing_file() -> None:
    with pytest.raises(ArgumentValueError, match=r"nowhere\.json must be a file that is there \(got no such file"):
        machine.gpu("nowhere.json")
