"""`tilewright predict`: times of the catalogue's kernels as a table, for one kernel, and as JSON."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")

Run = Callable[..., Any]


def test_a_table_of_kernels(tilewright: Run) -> None:
    done = tilewright("predict", "--kernels", "results_4,results_8", "--sizes", 128, "--gpu", "a6000")
    assert (done.status, done.err) == (0, "")
    assert "predicted, nothing was measured" in done.out
    names = [line.split()[0] for line in done.out.splitlines() if line.startswith("results")]
    assert names[:2] == ["results_4", "results_8"]  # if the table is split in two, they appear twice
    assert max(map(len, done.out.splitlines())) <= 100


def test_one_kernel_with_its_shares(tilewright: Run) -> None:
    done = tilewright("predict", "--kernels", "results_8", "--sizes", 128, "--gpu", "a6000", "--clock", 1000)
    assert done.status == 0
    assert "1,000 MHz" in done.out
    assert "the time goes to" in done.out


@pytest.mark.parametrize(
    ("shape", "said"), [("33x33x33", "out of bounds global store"), ("33x5x7", "is predicted where k equals m")]
)
def test_after_a_failed_specimen_the_others_have_times(tilewright: Run, shape: str, said: str) -> None:
    done = tilewright("predict", "--kernels", "tiled*", "--sizes", shape, "--json")
    assert done.status == 0
    assert done.err.startswith("note: tiled_published has no prediction: ") and said in done.err
    assert [one["name"] for one in json.loads(done.out)["predictions"]] == ["tiled"]
    alone = tilewright("predict", "--kernels", "tiled_published", "--sizes", shape)
    assert (alone.status, alone.out) == (2, "") and said in alone.err


def test_after_a_kernel_of_unknown_rate_the_others_have_times(tilewright: Run) -> None:
    done = tilewright("predict", "--kernels", "tensor_core_bits,results_8", "--sizes", 256, "--gpu", "h100", "--json")
    assert (done.status, [one["name"] for one in json.loads(done.out)["predictions"]]) == (0, ["results_8"])
    assert done.err.startswith("note: tensor_core_bits has no prediction: ") and "whose rate is known" in done.err


def test_json_has_shape_time_and_shares(tilewright: Run) -> None:
    done = tilewright("predict", "--kernels", "results_8", "--sizes", "64x96x128", "--gpu", "v100", "--json")
    (found,) = json.loads(done.out)["predictions"]
    assert (found["name"], found["shape"], found["dtype"]) == ("results_8", [64, 96, 128], "float32")
    assert found["gflops"] == pytest.approx(2 * 64 * 96 * 128 / found["seconds"] / 1e9)
    assert {"limiter", "shares", "changes", "least_seconds"} <= set(found)
    assert found["kind"] == "predicted"


PROGRAM = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

@cuda.jit
def triple(x):
    x[cuda.grid(1)] *= 3

x = cuda.to_device(np.ones(4096, np.float32))
for _ in range(2):
    double[16, 256](x)
triple[32, 128](x)
print("ended with", x.copy_to_host()[0], sys.argv[1:])
sys.exit(4)
"""


def test_each_launch_of_a_program(tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a row is a line
    (tmp_path / "program.py").write_text(PROGRAM)
    done = tilewright("predict", "--gpu", "a6000", tmp_path / "program.py", "--own")
    assert done.status == 4
    assert "ended with 12.0 ['--own']" in done.out
    rows = [line.split()[:4] for line in done.out.splitlines() if "program.py:" in line and line.split()[0].isdigit()]
    assert rows == [
        ["0", "double", "16x1x1", "256x1x1"],
        ["1", "double", "16x1x1", "256x1x1"],
        ["2", "triple", "32x1x1", "128x1x1"],
    ]
    assert "double on NVIDIA RTX A6000, predicted" in done.out
    assert "2 of 3 launches were counted" in done.out


def test_a_program_s_predictions_as_json(tilewright: Run, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = tilewright("predict", "--gpu", "a6000", "--kernels", "double", "--json", tmp_path / "program.py")
    document = json.loads(done.out)
    first, second = document["predictions"]
    assert (first["kind"], first["launch"], second["launch"]) == ("predicted", 0, 1)
    assert first["launched_at"].endswith("program.py:18")
    assert first["seconds"] == second["seconds"]
    assert (first["counted_in"], second["counted_in"]) == (0, 0)
    assert document["program"]["status"] == 4


def test_launches_with_other_numbers_are_counted_separately(tilewright: Run, tmp_path: Path) -> None:
    """One kernel and grid, but more rounds of the loop."""
    text = PROGRAM.replace("def double(x):", "def double(x, turns=1):").replace(
        "x[i] *= 2", "for _ in range(turns):\n            x[i] *= 2"
    )
    text = text.replace(
        "for _ in range(2):\n    double[16, 256](x)", "for turns in (1, 40, 1):\n    double[16, 256](x, turns)"
    )
    (tmp_path / "program.py").write_text(text)
    done = tilewright("predict", "--gpu", "a6000", "--kernels", "double", "--json", tmp_path / "program.py")
    found = json.loads(done.out)["predictions"]
    assert [one["counted_in"] for one in found] == [0, 1, 0]
    assert found[1]["seconds"] > found[0]["seconds"] == found[2]["seconds"]


def test_a_large_launch_is_counted_in_some_blocks_and_runs_whole(tilewright: Run, tmp_path: Path) -> None:
    text = PROGRAM.replace("4096", "300_000").replace("[16, 256]", "[1172, 256]").replace("[32, 128]", "[2343, 128]")
    (tmp_path / "program.py").write_text(text.replace("sys.exit(4)", "assert (x.copy_to_host()[:299_904] == 12).all()"))
    done = tilewright("predict", "--gpu", "a6000", "--json", tmp_path / "program.py")
    assert done.status == 0
    some = json.loads(done.out)["predictions"]
    assert [one["counted_in"] for one in some] == [0, 0, 2]
    assert all(one["counted_blocks"] < 100 for one in some)
    assert "of 1,172 blocks, which represent the others" in some[0]["notes"][0]
    shown = tilewright("predict", "--gpu", "a6000", "--kernels", "double", tmp_path / "program.py").out
    assert "--all-blocks counts all" in " ".join(shown.split())
    whole = json.loads(tilewright("predict", "--gpu", "a6000", "--json", "--all-blocks", tmp_path / "program.py").out)[
        "predictions"
    ]
    assert [one["counted_blocks"] for one in whole] == [1172, 1172, 2343]
    assert [one["seconds"] for one in some] == pytest.approx([one["seconds"] for one in whole], rel=0.03)


def test_a_program_that_launches_no_such_kernel(tilewright: Run, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.replace("sys.exit(4)", ""))
    done = tilewright("predict", "--kernels", "halve", tmp_path / "program.py")
    assert done.status == 2
    assert "it launches double, triple" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sizes", 64, "--sizes", "1x2"), "--sizes must be N or MxNxK"),
        (("--kernels", "nonsense"), "must name records of the catalogue"),
        (("--kernels", "tiled_published", "--dtypes", "float64"), "must be one that a kernel takes"),
        (("--kernels", "three_loops"), "must name kernels that GPUs run"),
        (("--clock", "fast"), "--clock"),
        (("--sizes", 64, "-c", "pass"), "--sizes must come with a product of the catalogue"),
        (("--limit", 4), "--limit must come with a program"),
        (("--all-blocks",), "--all-blocks must come with a program"),
    ],
)
def test_wrong_use(tilewright: Run, words: tuple[Any, ...], said: str) -> None:
    done = tilewright("predict", *words)
    assert done.status == 2
    assert said in done.err


OLD = """
from numba import cuda
import numpy as np

@cuda.jit
def count(x):
    cuda.atomic.add(x, cuda.grid(1) % 7, 1)

x = np.zeros(7, np.int32)
count[4, 64](x)
device = cuda.get_current_device()
print(x.sum(), device.compute_capability, device.COMPUTE_CAPABILITY_MAJOR)
"""


def test_a_program_on_a_gpu_older_than_the_compilers_know(tilewright: Run, tmp_path: Path) -> None:
    """Its kernels are compiled and linked for the oldest GPU that the compilers support."""
    (tmp_path / "old.py").write_text(OLD)
    for command in ("predict", "profile", "check", "run"):
        done = tilewright(command, "--gpu", "v100", tmp_path / "old.py")
        assert done.status == 0
        assert "256 (7, 5) 7" in done.out
    assert "on NVIDIA V100" in tilewright("predict", "--gpu", "v100", tmp_path / "old.py").out


@pytest.mark.parametrize("command", ["predict", "profile", "occupancy"])
def test_a_program_on_several_gpus(tmp_path: Path, command: str) -> None:
    """Each GPU gets a run of its own, whose rows are in one document; texts have a line between them."""
    (tmp_path / "program.py").write_text(PROGRAM.replace("sys.exit(4)", ""))

    def said(*options: str) -> str:
        words = [sys.executable, "-m", "tilewright", command, "--gpu=t4", "--gpu", "a100", *options]
        return subprocess.run(
            [*words, "program.py", "--gpu", "7"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    made = json.loads(said("--json"))
    rows = next(made[name] for name in ("predictions", "profiles", "rows") if name in made)
    gpus = [one["gpu"] if isinstance(one["gpu"], str) else one["gpu"]["name"] for one in rows]
    half = len(gpus) // 2
    assert gpus == ["NVIDIA T4"] * half + ["NVIDIA A100 SXM4 80GB"] * half
    begin = "ended with 12.0 ['--gpu', '7']\n"
    empty, first, second = said().split(begin)
    assert (empty, first[-2:]) == ("", "\n\n")
    assert "NVIDIA T4" in " ".join(first.split()) and "NVIDIA A100 SXM4 80GB" in " ".join(second.split())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("predict --gpu t4,h100 -", "SCRIPT - must come with one GPU (got t4, h100)"),
        ("profile --html p.html --gpu t4,h100 program.py", "--html must come with one GPU (got t4, h100)"),
        ("check --gpu t4,h100 program.py", "--gpu must name one here (got 't4,h100')"),
        ("run --gpu t4,h100 program.py", "--gpu must name one here (got 't4,h100')"),
    ],
)
def test_where_several_gpus_make_no_sense(tilewright: Run, tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "program.py").write_text("print('ran')")
    with contextlib.chdir(tmp_path):
        done = tilewright(*line.split())
    assert (done.status, done.out) == (2, "")
    assert said in done.err


def test_gpus_have_a_line_between_them(tilewright: Run) -> None:
    lines = tilewright("predict", "--kernels", "coalesced", "--sizes", 64, "--gpu", "t4,h100").out.splitlines()
    second = next(at for at, text in enumerate(lines) if "NVIDIA H100" in text)
    assert "NVIDIA T4" in lines[0] and lines[second - 1] == ""
