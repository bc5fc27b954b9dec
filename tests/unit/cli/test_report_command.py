"""`tilewright report`: a page from a sweep, charts as files and in the terminal, and existing files that stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.show.rates.record import Point, Rate
from tilewright.show.rates.store import kept

pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")

Run = Callable[..., Any]
#: Options for a page that is quick to make.
SOON = ("--kernels", "shared_memory_8", "--sizes", "16x24x16", "--gpu", "a6000", "--ladder", "none")


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "monday.jsonl"
    rates = [
        Rate(Point(f"shared_memory_{edge}", "a6000", "int32", n, n, n, edge, 1), "predicted", n / 1e6, n / 2e6, n / 5e5)
        for edge in (8, 16)
        for n in (32, 64, 128)
    ]
    with kept(path, {}, {}) as file:
        file.add(rates)
    return path


def test_a_page_of_a_kernel_and_a_sweep(tilewright: Run, sweep: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = tilewright("report", sweep, "-o", page, *SOON)
    assert (done.status, done.out, done.err) == (0, "", "")
    found = page.read_text(encoding="utf-8")
    assert found.startswith("<!DOCTYPE html>") and found.endswith("</html>\n")
    assert "C of 16 x 24 from A of 16 x 16 and B of 16 x 24, int32, on a simulated NVIDIA RTX A6000" in found
    assert 'id="rates"' in found and "shared_memory_8, a6000 (predicted)" in found and 'id="ladder"' not in found


def test_a_page_of_a_sweep_alone(tilewright: Run, sweep: Path, tmp_path: Path) -> None:
    page, folder = tmp_path / "page.html", tmp_path / "charts"
    assert tilewright("report", sweep, "-o", page, "--kernels", "none").status == 0
    found = page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)">', found) == ["rates"]
    assert "<h1>Rates</h1>" in found and "shared_memory_8, shared_memory_16" in found
    pytest.importorskip("resvg_py", reason="resvg-py, of the extra `report`, is not installed")
    assert tilewright("report", sweep, "--charts", folder, "--kernels", "none").status == 0
    assert len(list(folder.iterdir())) == 4  # rate and table


def test_without_a_sweep_there_are_no_rates(tilewright: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert tilewright("report", "-o", page, *SOON[:-2], "--ladder", "coalesced").status == 0
    found = page.read_text(encoding="utf-8")
    assert 'id="rates"' not in found and 'id="ladder"' in found
    assert "Time on the NVIDIA RTX A6000, 1024 x 1024 x 1024" in found


def test_a_page_that_exists_is_left(tilewright: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    done = tilewright("report", "-o", page, *SOON)
    assert done.status == 2 and "must be a new file (got one that exists); --force replaces it" in done.err
    assert page.read_text() == "mine"
    assert tilewright("report", "-o", page, *SOON, "--force").status == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [page]


def test_ctrl_c_leaves_the_old_page(tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")

    def interrupted(material: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.show.report.html.report.text", interrupted)
    assert tilewright("report", "-o", page, *SOON, "--force").status == 130
    assert page.read_text() == "mine" and list(tmp_path.iterdir()) == [page]


def test_a_page_that_is_too_large_is_not_written(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.show.report.html.page.MOST_BYTES", 1000)
    page = tmp_path / "page.html"
    done = tilewright("report", "-o", page, *SOON)
    assert done.status == 2 and "a page must have at most 1,000 bytes (got " in done.err
    assert not page.exists()


def test_charts_in_the_terminal(tilewright: Run, sweep: Path) -> None:
    done = tilewright("report", sweep)
    assert (done.status, done.err) == (0, "")
    assert "int32 rate against size" in done.out and "shared_memory_16, a6000 (predicted)" in done.out
    assert "edge of a block" in done.out or "shared_memory on a6000, int32" in done.out


def test_charts_as_files(tilewright: Run, sweep: Path, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="resvg-py, of the extra `report`, is not installed")
    folder = tmp_path / "charts"
    assert tilewright("report", sweep, "--charts", folder, *SOON).status == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names[:2] == ["01-int32-rate-against-size.png", "01-int32-rate-against-size.svg"]
    assert len(names) == 2 * 5  # rate, table, three of occupancy
    assert all((folder / name).read_bytes()[:4] in (b"\x89PNG", b"<svg") for name in names)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = tilewright("report", sweep, "--charts", folder, *SOON)
    assert done.status == 2 and "must name a new or empty folder (got one with files in it)" in done.err
    (folder / "mine.txt").write_text("mine")
    assert tilewright("report", sweep, "--charts", folder, *SOON, "--force").status == 0
    assert before == {path: path.read_bytes() for path in folder.iterdir() if path.suffix != ".txt"}
    assert (folder / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a report must go somewhere (got neither a sweep nor -o); give -o page.html"),
        (("nosuch.jsonl",), "nosuch.jsonl must be a file that is there (got no such file)"),
        (("-o", "nosuch/page.html"), "the output's folder must exist"),
        (("--charts", "nosuch/charts"), "--charts must name a folder in one that exists"),
        (("-o", "page.html", "--kernels", "nosuch"), "--kernels must be one of"),
        (("-o", "page.html", "--kernels", "three_loops", "--sizes", "8x8x8"), "runs on no GPU"),
        (("-o", "page.html", "--kernels", "three_loops"), "runs on no GPU"),
        (("-o", "page.html", "--kernels", "none"), "--kernels none must come with a sweep"),
        (("-o", "page.html", "--sizes", "0x8x8"), "--sizes must be N or MxNxK, each at least 1"),
        (("-o", "page.html", "--sizes", "9000x9000x8"), "at most 4,194,304 elements"),
        (("-o", "page.html", "--dtypes", "int8"), "takes float32, float64, int32 only, not int8"),
        (("-o", "page.html", "--gpu", "nosuch"), "--gpu: a GPU must be one"),
        (("-o", "page.html", "--ladder", "nosuch"), "nosuch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = tilewright("report", *words)
    assert (done.status, done.out) == (2, "")
    assert said in " ".join(done.err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_with_unknown_conditions(tilewright: Run, tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    with kept(path, {}, {}) as file:
        file.add(
            [Rate(Point("matmul", "cpu", "int32", n, n, n), "measured", 1e-6, 1e-6, 1e-6, (1e-6,)) for n in (8, 16)]
        )
    assert tilewright("report", path, "-o", tmp_path / "page.html", *SOON).status == 0
    assert "cores at - MHz" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_sweep_without_square_matrices_has_no_charts(tilewright: Run, tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    with kept(path, {}, {}) as file:
        file.add([Rate(Point("matmul", "cpu", "int32", 8, 9, 8), "measured", 1e-6, 1e-6, 1e-6, (1e-6,))])
    done = tilewright("report", path)
    assert done.status == 2 and "must have rates of square matrices to be drawn" in done.err


@pytest.mark.parametrize("option", ["--kernels", "--ladder"])
def test_a_wrong_kernel_names_the_option(tilewright: Run, tmp_path: Path, option: str) -> None:
    done = tilewright("report", "-o", tmp_path / "r.html", option, "tiledd")
    assert (done.status, [*tmp_path.iterdir()]) == (2, [])
    assert done.err.startswith(f"error: {option} must ") and "(got 'tiledd'); did you mean tiled" in done.err
