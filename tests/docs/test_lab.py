"""The lab sheet: its judge passes the solutions, and neither the starters nor wrong kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples import ROOT
from judge import EXERCISES, judged, main

SHEET, SOLUTIONS = ROOT / "docs" / "lab", Path(__file__).parent / "lab"
STEP, SUM = "        cuda.syncthreads()\n", "    total = float32(0)\n"
RESULTS = "    for result in range(4):\n"
#: What students get wrong: the exercise, what its solution has, what stands there instead, and what the judge says.
WRONG = {
    "the grid does not follow": ("one_rows", "-(-n // 32), -(-m // 8)", "-(-m // 32), -(-n // 8)", "TW501 "),
    "rows and columns swapped": ("one_rows", "a[row, k] * b[k, column]", "a[column, k] * b[k, row]", "wrong"),
    "float64 by accident": ("one_rows", "float32(0)", "0.0", "TW601 "),
    "guard one too far": ("two_edges", "row < c.shape[0]", "row <= c.shape[0]", "TW101 "),
    "columns without a guard": ("two_edges", " and column < c.shape[1]", "", "TW107 "),
    "last row left out": ("two_edges", "row < c.shape[0]", "row < c.shape[0] - 1", "wrong"),
    "the first product missing": ("two_edges", "range(a.shape[1])", "range(1, a.shape[1])", "wrong"),
    "no second barrier": ("three_tiles", f"{STEP}    if row", "    if row", "TW30"),
    "edges not filled": ("three_tiles", " if row < a.shape[0] and k + x < a.shape[1] else float32(0)", "", "TW10"),
    "leaves before a barrier": ("three_tiles", SUM, f"{SUM}    if row >= c.shape[0]:\n        return\n", "TW402 "),
    "barrier in a branch": ("four_race", STEP, f"        if x < half:\n    {STEP}", "TW40"),
    "two barriers a step": ("four_race", STEP, 2 * STEP, "arrivals at barriers, above"),
    "never ends": ("four_race", "        half //= 2\n", "", "LimitError"),
    "half of the results": ("five_results", f"{RESULTS}        if top", f"{RESULTS[:-4]}2):\n        if top", "wrong"),
    "does not compile": ("five_results", "kept = tile_b", "kept = tile", "Error"),
}


@pytest.mark.parametrize("name", EXERCISES)
def test_a_solution_is_done_and_its_starter_is_open(name: str) -> None:
    done, words = judged(SOLUTIONS / f"{name}.py")
    assert done, words
    done, words = judged(SHEET / f"{name}.py")
    assert not done, words


@pytest.mark.parametrize(("name", "before", "after", "verdict"), WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_is_open(name: str, before: str, after: str, verdict: str, tmp_path: Path) -> None:
    solution = (SOLUTIONS / f"{name}.py").read_text(encoding="utf-8")
    assert before in solution
    (tmp_path / f"{name}.py").write_text(solution.replace(before, after), encoding="utf-8")
    done, words = judged(tmp_path / f"{name}.py")
    assert not done
    assert verdict in words


def test_a_folder_is_judged_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solution = (SOLUTIONS / "two_edges.py").read_text(encoding="utf-8")
    (tmp_path / "two_edges.py").write_text(solution, encoding="utf-8")
    (tmp_path / "one_rows.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    assert main([tmp_path]) == 1
    lines = [line.split(None, 2) for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["open", "done", "open", "open", "open"]
    assert lines[0][2].startswith("SystemExit") and lines[2][2] == "not handed in"


def test_the_command_s_status_says_whether_all_is_done() -> None:
    for folder, status in ((SOLUTIONS, 0), (SHEET, 1)):
        command = [sys.executable, SHEET / "judge.py", folder / "two_edges.py"]
        assert subprocess.run(command, check=False, capture_output=True).returncode == status
