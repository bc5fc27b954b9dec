"""`tilewright profile`, on a typical program of a user."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import MissingExtraError
from tilewright.show.report import figures
from tilewright.simulate.programs import disassembler

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

Run = Callable[..., Any]
PROGRAM = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def transpose(a, b):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        b[j, i] = a[i, j]

@cuda.jit
def scale(a, f):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= f

n = 32
a = cuda.to_device(np.ones((n, n), np.float32))
b = cuda.device_array((n, n), np.float32)
for factor in sys.argv[1:]:
    scale[1, n](a[0], float(factor))
transpose[(2, 2), (16, 16)](a, b)
print("first", b.copy_to_host()[0, 0])
raise SystemExit(3)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    return "program.py"


def test_the_programs_output_its_status_and_its_source_with_counts(
    tilewright: Run, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = tilewright("profile", program, "2", "3")
    assert done.status == 3
    shown = done.out.splitlines()
    assert shown[0] == "first 6.0"
    launches = [line.split()[:4] for line in shown if line.split()[:1] in (["scale"], ["transpose"])]
    assert sorted(launches[:2]) == [["scale", "1x1x1", "32x1x1", "2"], ["transpose", "2x2x1", "16x16x1", "1"]]
    row = next(line for line in shown if "b[j, i] = a[i, j]" in line and line.split()[0] == "10")
    # a warp of a (16, 16) block reads 2 elements of each of 16 rows, 16 sectors, and writes 2 pieces of 64 bytes, 4
    assert row.split()[:3] == ["10", "10", "(4)"]
    assert "TW702 at program.py:10: 16 sectors a request where 4 would do" in done.out
    assert len(re.findall(r"^predicted: [\d.]+ us \([\d.]+ us to [\d.]+ us\) at [\d,]+ MHz$", done.out, re.M)) == 2


def test_without_a_disassembler_nothing_is_predicted(
    tilewright: Run, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise MissingExtraError("no disassembler", "gpu")

    monkeypatch.setattr(disassembler, "find_disassembler", missing)
    done = tilewright("profile", program)
    assert done.status == 3
    assert "predicted: " not in done.out
    (found,) = json.loads(tilewright("profile", "--json", program).out)["profiles"]
    assert found["predicted"] is None
    assert tilewright("predict", program).err.startswith("error: transpose: its launch has no prediction: no disassem")


def test_json_alone_on_standard_output(tilewright: Run, program: str) -> None:
    done = tilewright("profile", "--json", "--kernels", "transpose", "--gpu", "t4", program, "2")
    (found,) = json.loads(done.out)["profiles"]
    assert (found["kernel"], found["launch"], found["gpu"]) == ("transpose", 1, "NVIDIA T4")
    assert found["totals"]["global_loads"]["sectors"] == 4 * 8 * 16
    assert "first 2.0" in done.err


def test_json_has_each_launch_s_predicted_time_with_its_band_as_the_text_has(
    tilewright: Run, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # the text's line is one
    words = ("profile", "--gpu", "t4", "--kernels", "transpose")
    (found,) = json.loads(tilewright(*words, "--json", program).out)["profiles"]
    time = found["predicted"]
    assert (time["kind"], set(time)) == (
        "predicted", {"kind", "seconds", "least_seconds", "most_seconds", "clock_mhz", "limiter"},
    )  # fmt: skip
    assert time["least_seconds"] < time["seconds"] < time["most_seconds"]
    seconds, least, most = (figures.seconds(time[f"{name}seconds"]) for name in ("", "least_", "most_"))
    line = f"predicted: {seconds} ({least} to {most}) at {time['clock_mhz']:,} MHz"
    assert line in tilewright(*words, program).out.splitlines()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--kernels", "nothing"),
            "must name kernels that SCRIPT launches (got 'nothing'); it launches scale, transpose",
        ),
        (("--launch", "9"), "must be the number of a launch of SCRIPT (got 9); there are 2, from 0"),
        (("--launch", "0", "--kernels", "transpose"), "must be the number of a launch of SCRIPT of transpose (got 0)"),
        (("--gpu", "nothing"), "a GPU must be one of v100"),
        (("--launch", "x"), "--launch must be a whole number"),
    ],
)
def test_unknown_launches_and_gpus_are_refused(
    tilewright: Run, program: str, options: tuple[str, ...], words: str
) -> None:
    done = tilewright("profile", *options, program, "2")
    assert done.status == 2
    assert words in " ".join(done.err.split())


@pytest.mark.parametrize(("rest", "status"), [("", 0), ("raise SystemExit(7)\n", 7)])
def test_a_program_without_kernels(tilewright: Run, tmp_path: Path, rest: str, status: int) -> None:
    file = tmp_path / "empty.py"
    file.write_text(f"print(1)\n{rest}")
    done = tilewright("profile", str(file))
    assert (done.status, done.out) == (status, "1\n")
    assert done.err == "note: nothing to profile: the program launched no kernel\n"
    done = tilewright("profile", "--json", str(file))
    assert (done.status, json.loads(done.out)["profiles"]) == (status, [])
    assert json.loads(done.out)["program"] == {
        "status": status,
        "interrupted": False,
        "children_launched": False,
        "exception": None,
    }
    done = tilewright("profile", "--json", "--kernels", "k", str(file))
    assert (done.status, done.out) == (2, "")
    assert "(got 'k'); it launches none" in done.err


@pytest.mark.parametrize(
    ("options", "wanted"),
    [((), "a kernel"), (("--kernels", "k"), "k"), (("--launch", "3", "--kernels", "k"), "launch 3 of k")],
)
def test_a_program_that_raises_before_it_launches(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], wanted: str
) -> None:
    monkeypatch.setattr("sys.__excepthook__", lambda *_: None)
    file = tmp_path / "raises.py"
    file.write_text("def f():\n    raise FileNotFoundError('no data')\nf()\n")
    done = tilewright("profile", *options, "--json", str(file))
    assert done.status == 1
    assert done.err == f"note: nothing to profile: the program ended before it launched {wanted}\n"
    assert json.loads(done.out)["program"] == {
        "status": 1,
        "interrupted": False,
        "children_launched": False,
        "exception": {"type": "FileNotFoundError", "message": "no data", "file": str(file), "line": 2},
    }


def values_of(text: str, name: str = "lanes") -> Any:
    """What the script of a part of a page draws: at first the lanes."""
    (found,) = re.findall(rf'id="values-{name}">(.*?)</script>', text)
    return json.loads(found)


def test_a_page_of_both_launches(tilewright: Run, program: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = tilewright("profile", "--html", page, "--gpu", "a100", program, "2")
    assert done.status == 3 and "transpose" in done.out
    held = values_of(page.read_text(encoding="utf-8"), "launches")
    scale, transpose = [(label, held["before"] + own + held["after"]) for label, own in held["pages"]]
    for number, kernel, extents, (label, text) in (
        (0, "scale", ("1x1x1", "32x1x1"), scale),
        (1, "transpose", ("2x2x1", "16x16x1"), transpose),
    ):
        grid, block = extents
        (time,) = re.findall(r"<dt>predicted time</dt><dd>([^<]+)<", text)
        assert label == f"{number}: {kernel}, grid {grid}, {time} predicted"
        assert f"<h1>{kernel}</h1>" in text
        assert f"Launch {number}: grid {grid}, block {block}, launched at program.py:" in text
    values = values_of(transpose[1])
    assert [(one[0], one[2], one[3]) for one in values["operands"]] == [
        ("a", [32, 32], [128, 4]),
        ("b", [32, 32], [128, 4]),
    ]
    (load,) = [site for site in values["sites"] if site["access"] == "load"]
    # A warp has 16 threads in i and 2 in j; x is the index of rows, so each row has a sector, which two lanes share.
    assert load["all"] == [32, 32 * 16, 32 * 4]
    a = values["operands"][0]
    warps = {run[0]: run[1] - a[1] for run in load["runs"]}
    assert warps == {warp: 4 * 2 * warp for warp in range(8)}


def test_a_page_of_one_launch(tilewright: Run, program: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert tilewright("profile", "--html", page, "--kernels", "scale", "--launch", 1, program, "2", "3").status == 3
    text = page.read_text(encoding="utf-8")
    assert "<h1>scale</h1>" in text
    assert [one[:1] + one[2:] for one in values_of(text)["operands"]] == [["a", [32], [4], 4]]


def test_a_page_that_exists_is_refused_before_the_program_runs(tilewright: Run, program: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    done = tilewright("profile", "--html", page, program)
    assert done.status == 2 and "--force replaces it" in done.err
    assert (done.out, page.read_text()) == ("", "mine")
    assert tilewright("profile", "--html", page, "--force", program).status == 3
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_page_that_cannot_be_written_loses_no_profile(
    tilewright: Run, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.show.report.html.page.MOST_BYTES", 1000)
    done = tilewright("profile", "--html", tmp_path / "page.html", program)
    assert done.status == 2 and "at most 1,000 bytes" in done.err
    assert "b[j, i] = a[i, j]" in done.out and not (tmp_path / "page.html").exists()


def test_without_a_launch_there_is_no_page(tilewright: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = tilewright("profile", "--html", page, "-c", "print(1)")
    assert "nothing to profile" in done.err and not page.exists()
