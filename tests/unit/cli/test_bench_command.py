"""`tilewright bench`: a tiny real sweep, the sources' tables, files, Ctrl-C at any point, wrong use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fakes
import numpy as np
import pytest

from tilewright.show.rates import sweeping, turns
from tilewright.show.rates.record import Point, Rate
from tilewright.show.rates.sweeping import Sweeping

Run = Callable[..., Any]
TINY = ("bench", "--sizes", "8,7x9x5", "--samples", 3)
#: A sweep of four predicted points.
PREDICTED = ("bench", "--kernels", "results_8,results_16", "--sizes", "32,64", "--gpu", "v100")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short samples without rest or repetition, because these tests do not depend on the times."""
    for seconds in ("WARM_SECONDS", "BEFORE_SECONDS", "SAMPLE_SECONDS"):
        monkeypatch.setattr(turns, seconds, 0.0001)
    monkeypatch.setattr(turns, "Host", lambda: fakes.IDLE)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is a line."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def compilers() -> None:
    pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("wide")
def test_matmul_and_numpy_in_turns(tilewright: Run) -> None:
    done = tilewright(*TINY, "--dtypes", "int32,float32")
    assert (done.status, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines() if line.startswith(("matmul", "numpy"))]
    assert [row[:3] for row in rows if "measured" in row][:2] == [["matmul", "cpu", "int32"], ["numpy", "cpu", "int32"]]
    assert "7 x 9 x 5" in done.out
    assert "of numpy" in done.out


def test_json_has_plan_conditions_and_samples(tilewright: Run) -> None:
    found = json.loads(tilewright(*TINY, "--caches", "warm,cold", "--json").out)
    assert found["plan"]["sizes"] == [[8, 8, 8], [7, 9, 5]]
    assert {"processor", "cores", "threads", "versions", "mhz", "load", "date"} <= set(found["conditions"])
    assert found["conditions"]["versions"]["numpy"] == np.__version__
    assert [(r["contender"], r["m"], r["caches"]) for r in found["rates"]] == [
        (name, m, caches) for m in (8, 7) for caches in ("warm", "cold") for name in ("matmul", "numpy")
    ]
    for rate in found["rates"]:
        assert len(rate["samples"]) == 3
        assert rate["seconds"] == sorted(rate["samples"])[1]
        assert rate["verified"] == ("within bound" if rate["contender"] == "numpy" else "exact")
        assert rate["gflops"] == pytest.approx(2 * rate["m"] * rate["n"] * rate["k"] / rate["seconds"] / 1e9)


def test_every_host_kernel_and_no_peer(tilewright: Run) -> None:
    found = json.loads(tilewright(*TINY, "--kernels", "matmul,S5,CPU", "--against", "none", "--json").out)["rates"]
    assert [r["contender"] for r in found if r["m"] == 8] == ["matmul", "three_loops", "cpu_engine"]
    assert {r["verified"] for r in found} == {"exact"}


@pytest.mark.usefixtures("opencl_device")
def test_opencl_kernels_and_the_processor(tilewright: Run) -> None:
    done = tilewright(*TINY, "--kernels", "matmul,opencl_*", "--device", "cpu,opencl", "--dtypes", "int32", "--json")
    found = json.loads(done.out)["rates"]
    names = ["matmul", "matmul", "opencl_naive", "opencl_tiled", "opencl_register_tiled", "numpy"]
    assert [r["contender"] for r in found if r["m"] == 8] == names
    assert {r["verified"] for r in found} == {"exact"}


@pytest.mark.usefixtures("compilers", "wide")
def test_one_table_has_measured_and_predicted_rates(tilewright: Run) -> None:
    done = tilewright(*TINY, "--kernels", "matmul,results_8", "--device", "cpu", "--gpu", "NVIDIA RTX A6000")
    assert done.status == 0
    assert "a6000: NVIDIA RTX A6000: predicted by a model, not measured" in done.out
    (row,) = (line for line in done.out.splitlines() if line.startswith("results_8") and " 8 " in line)
    assert "predicted" in row
    assert "exact at 8 x 8 x 8" in row


@pytest.mark.usefixtures("compilers")
def test_predictions_have_their_own_colour() -> None:
    import io

    from rich.console import Console

    from tilewright.show.rates import plan
    from tilewright.show.rates.record import Sweep
    from tilewright.show.report import rates, terminal

    asked = plan.Asked(kernels=("results_8",), sizes=((32, 32, 32),), devices=("a6000",))
    sweep = Sweep(plan.document(asked), {}, tuple(Sweeping(asked).rates().__next__()))
    coloured = io.StringIO()
    terminal.show(rates.blocks(sweep), Console(file=coloured, force_terminal=True, color_system="truecolor", width=200))
    assert "\x1b[38;2;154;79;196mpredicted" in coloured.getvalue()


@pytest.mark.usefixtures("compilers")
def test_a_source_s_table_has_its_figures_beside_ours(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from tilewright.show.rates import tables

    small = replace(tables.table("S8"), widths=(8, 16, 32))
    monkeypatch.setattr("tilewright.show.rates.plan.table", lambda name: small)
    monkeypatch.setattr("tilewright.show.report.rates.table", lambda name: small)
    done = tilewright("bench", "--table", "s8")
    assert (done.status, done.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line[:5].strip().isdigit()}
    assert rows["16"][1::2] == ["1.890", "1.921"]
    assert rows["8"][1::2] == ["0.197"]
    assert 0.05 < float(rows["32"][0]) / 15.675 < 20
    assert "predicted on v100" in done.out
    assert "The source does not name its GPU" in done.out
    across = tilewright("bench", "--table", "S12", "--json")
    assert [r["block"] for r in json.loads(across.out)["rates"]] == [8, 8, 16, 8, 16, 32]  # the small table's


def test_a_finished_file_is_shown_again_and_not_measured(tilewright: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = tilewright(*TINY, "--output", path, "--json")
    before = path.read_bytes()
    again = tilewright(*TINY, "--output", path, "--json")
    assert path.read_bytes() == before
    assert json.loads(again.out) == json.loads(first.out)  # with the conditions of its measurement


def test_a_page_of_the_sweep_is_that_of_its_file(tilewright: Run, tmp_path: Path) -> None:
    rates, page, again = (tmp_path / name for name in ("a.jsonl", "a.html", "b.html"))
    assert tilewright(*TINY, "--output", rates, "--html", page).status == 0
    assert tilewright("report", rates, "--kernels", "none", "-o", again).status == 0
    assert "<h1>Rates</h1>" in page.read_text(encoding="utf-8")
    assert page.read_bytes() == again.read_bytes()


def test_a_page_that_exists_is_left_and_nothing_measured(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, rates = tmp_path / "a.html", tmp_path / "a.jsonl"
    page.write_text("mine")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 0, AssertionError("the sweep began"))
        done = tilewright(*TINY, "--output", rates, "--html", page)
    assert (done.status, done.out, page.read_text(), rates.exists()) == (2, "", "mine", False)
    assert "the output must be a new file (got one that exists); --force replaces it" in done.err
    assert tilewright(*TINY, "--html", page, "--force").status == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "must be another file than --output" in tilewright(*TINY, "--output", rates, "--html", rates).err


def test_a_stopped_sweep_leaves_no_page_that_the_same_command_would_refuse(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*TINY, "--output", tmp_path / "a.jsonl", "--html", tmp_path / "a.html")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        assert tilewright(*words).status == 130
    assert not (tmp_path / "a.html").exists()
    assert tilewright(*words).status == 0
    assert (tmp_path / "a.html").exists()


def test_a_named_kernel_without_a_row_is_reported(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 0)  # notes come before the first rate
    words = ("bench", "--sizes", "32", "--device", "cpu", "--gpu", "a6000")
    assert tilewright(*words, "--kernels", "S9", "--against", "numpy").err.splitlines()[:-1] == [
        "note: cpu: runs no kernel of S9",
        "note: numpy: no product is measured that it could take turns with",
    ]
    assert tilewright(*words, "--kernels", "S9").err.splitlines()[:-1] == ["note: cpu: runs no kernel of S9"]
    assert tilewright(*words, "--kernels", "S9,S5,matmul", "--against", "numpy").err.splitlines()[:-1] == []


def test_another_plan_s_file_is_left(tilewright: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tilewright(*TINY, "--output", path)
    before = path.read_bytes()
    done = tilewright("bench", "--sizes", "8", "--samples", 3, "--output", path)
    assert done.status == 2
    assert "sizes: [[8, 8, 8], [7, 9, 5]] there, [[8, 8, 8]] now" in done.err
    assert path.read_bytes() == before


def interrupt_at(monkeypatch: pytest.MonkeyPatch, group: int, error: BaseException | None = None) -> None:
    """Let Ctrl-C come while a group is being measured; -1 for never."""
    real, seen = Sweeping._rates, [0]

    def rates(self: Sweeping, points: Any) -> Any:
        if seen[0] == group:
            raise error or KeyboardInterrupt
        seen[0] += 1
        return real(self, points)

    monkeypatch.setattr(Sweeping, "_rates", rates)


@pytest.mark.usefixtures("compilers")
@pytest.mark.parametrize("group", range(4))
def test_interrupted_and_resumed_gives_the_same_rates(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    stopped, whole = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    with monkeypatch.context() as patch:
        interrupt_at(patch, group)
        done = tilewright(*PREDICTED, "--output", stopped)
    assert done.status == 130
    said = f"{group} of 4 rates are kept in {stopped}; the same command goes on"
    assert done.err.splitlines() == [f"interrupted: stopped by Ctrl-C; {said}"]
    assert len(lines(stopped)) == 1 + group
    for path in (stopped, whole):
        assert tilewright(*PREDICTED, "--output", path).status == 0
    assert lines(stopped)[1:] == lines(whole)[1:]
    assert len(lines(whole)) == 5


def test_contenders_that_take_turns_are_kept_together(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        assert tilewright(*TINY, "--output", path).status == 130
    first = path.read_text()
    path.write_text(first.rstrip("\n").rpartition("\n")[0] + "\n")  # as if the host had died in the middle of a line
    done = tilewright(*TINY, "--output", path)
    assert done.status == 0
    assert [(r["contender"], r["m"]) for r in lines(path)[1:]] == [
        ("matmul", 8), ("numpy", 8), ("matmul", 7), ("numpy", 7),
    ]  # fmt: skip


def test_a_torn_line_gives_a_warning_and_is_measured_again(tilewright: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tilewright(*TINY, "--output", path)
    path.write_bytes(path.read_bytes()[:-5])
    done = tilewright(*TINY, "--output", path)
    assert done.status == 0
    assert "the last line is not whole" in done.err
    assert len(lines(path)) == 5


@pytest.mark.parametrize("hidden", [False, True])
def test_ctrl_c_without_a_file_shows_the_rates_so_far(
    tilewright: Run, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    error: BaseException = KeyboardInterrupt()
    if hidden:  # as Python 3.11 raises it while a class is created
        error = RuntimeError("Error calling __set_name__ on 'x'")
        error.__cause__ = KeyboardInterrupt()
    interrupt_at(monkeypatch, 1, error)
    done = tilewright(*TINY)
    assert done.status == 130
    assert done.err.splitlines() == ["interrupted: stopped by Ctrl-C; 2 of 4 rates were known; --output keeps them"]
    assert "matmul" in done.out


def test_a_real_ctrl_c_in_a_real_process(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    words = [sys.executable, "-m", "tilewright", "bench", "--sizes", "8,16,24,32,40,48", "--output", str(path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and not (path.exists() and path.read_bytes().count(b"\n") > 2):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    kept = len(lines(path)) - 1
    assert err.splitlines()[-1] == (
        f"interrupted: stopped by Ctrl-C; {kept} of 12 rates are kept in {path}; the same command goes on"
    )
    assert 2 <= kept < 12
    assert kept % 2 == 0


def test_a_wrong_product_is_reported_with_status_1(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "matmul", lambda a, b: np.full((len(a), b.shape[1]), 3, a.dtype))
    done = tilewright("bench", "--sizes", "8", "--samples", 1)
    assert done.status == 1
    assert "1 product of 2 wrong" in done.out
    assert "wrong: 64 of 64 elements differ" in done.out


def test_a_pipe_is_not_waited_for(tilewright: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = tilewright(*TINY, "--output", tmp_path / "pipe")
    assert done.status == 2
    assert "must be a file of rates (got a folder, device or pipe)" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sizes", "0"), "--sizes must be N or MxNxK, each at least 1 (got '0'); try 256 or 31x33x32"),
        (("--sizes", "8x8"), "--sizes must be N or MxNxK, each at least 1 (got '8x8'); try 256 or 31x33x32"),
        (("--sizes", ","), "--sizes must name at least one"),
        (("--blocks", "a"), "--blocks must be"),
        (("--results", "-1"), "--results must be"),
        (("--dtypes", "float31"), "--dtypes must be one of"),
        (("--device", "gpu"), "--device must be of"),
        (("--device", "cuda"), "cuda"),
        (("--caches", "hot"), "--caches must be one of"),
        (("--samples", "0"), "--samples must be"),
        (("--table", "S9"), "--table must be one of S8, S10, S12, S13"),
        (("--table", "S8", "--sizes", "8", "--dtypes", "int32"), "must come without --sizes and --dtypes"),
        (("--against", "blas"), "--against must be of"),
        (("--output", "no/such/folder/a.jsonl"), "must go to a file that can be written"),
    ],
)
def test_wrong_use(tilewright: Run, words: tuple[str, ...], said: str) -> None:
    if words == ("--device", "cuda") and os.path.exists("/dev/nvidia0"):  # noqa: PTH110
        pytest.skip("a GPU is here")
    done = tilewright("bench", *words)
    assert done.status == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.usefixtures("compilers", "wide")
def test_a_kernel_that_fails_is_a_row_and_the_sweep_continues(tilewright: Run, tmp_path: Path) -> None:
    """The published specimen writes out of bounds if 16 does not divide the size; the corrected kernel does not."""
    path, page = tmp_path / "a.jsonl", tmp_path / "a.html"
    words = ("bench", "--kernels", "tiled*", "--sizes", "32,33", "--gpu", "a6000", "--output", path)
    done = tilewright(*words, "--html", page)
    assert (done.status, done.err) == (1, "")
    rows = [line for line in done.out.splitlines() if line.startswith("tiled") and " 33 " in line]
    assert [("failed" in row, "GFLOPS" in row, "exact" in row) for row in rows] == [
        (True, False, False),
        (False, False, True),
    ]
    reason = "failed: tiled_published, 33, float32 on a6000: tiled_published: out of bounds global store"
    assert done.out.count(reason) == 1
    assert "out of bounds global store" in page.read_text()
    again = tilewright(*words, "--json")
    rates = json.loads(again.out)["rates"]
    assert again.status == 1
    assert [rate["failed"][:30] for rate in rates if rate["failed"]] == ["tiled_published: out of bounds"]
    assert [rate["seconds"] is None for rate in rates] == [rate["gflops"] is None for rate in rates]
    assert [rate["seconds"] is None for rate in rates] == [False, False, True, False]
    assert len(lines(path)) == 5

    unbroken, (head, *found) = tmp_path / "b.jsonl", lines(path)
    found[2] |= {"failed": "", "seconds": 1e-6, "least_seconds": 1e-6, "most_seconds": 1e-6}
    unbroken.write_text("".join(json.dumps(line) + "\n" for line in (head, *found)))
    compared = tilewright("compare", unbroken, path)
    assert compared.status == 1
    assert "1 failed, 3 same of 4 points" in compared.out
    assert reason in compared.out
    assert tilewright("compare", path, path).status == 0


@pytest.mark.usefixtures("compilers", "wide")
def test_points_left_out_are_reported_once_below_the_table(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sweeping, "_predicted", lambda self, point: Rate(point, "predicted", 1.0, 1.0, 1.0))
    words = ("bench", "--kernels", "tiled*,uncoalesced", "--sizes", "32", "--gpu", "a6000,v100", "--dtypes")
    done = tilewright(*words, "int32,float32")
    assert done.status == 0
    assert done.out.splitlines()[-1] == "left out: tiled_published, uncoalesced: each takes float32 only, not int32"
    found = json.loads(tilewright(*words, "int32", "--json").out)["left_out"]
    assert [(one["contender"], one["device"], one["dtype"]) for one in found] == [
        (name, device, "int32") for device in ("a6000", "v100") for name in ("tiled_published", "uncoalesced")
    ]
    assert {one["reason"] for one in found} == {"takes float32 only, not int32"}
    assert "left out" not in tilewright(*words, "float32").out


def test_left_out_sizes_are_named_if_a_kernel_has_others() -> None:
    from tilewright.show.report import rates

    some, others = (Point(name, "a6000", "int32", n, n, n) for name, n in (("tiled", 64), ("naive", 32)))
    known = [Rate(others, "predicted", 1.0, 1.0, 1.0)]
    shown = [str(block) for block in rates.without([(some, "is too large"), (others, "is too large")], known)]
    assert ["tiled at 64: is too large" in shown[0], "naive at 32: is too large" in shown[1]] == [True, True]
