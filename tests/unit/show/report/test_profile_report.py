"""Reports of a profile: on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tilewright import machine
from tilewright.frontends.script import Ended
from tilewright.machine.alternatives import Demand, alternatives
from tilewright.multiply.kernels.tiled_published import tiled_published
from tilewright.profiling import Profile, profile
from tilewright.show.report import document, profile as report, terminal


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named from the user's folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def seen() -> Profile:
    a = np.zeros((32, 32), np.float32)
    return profile(tiled_published, (2, 2), (16, 16), (a, a.copy(), a.copy()))


def text(seen: Profile, width: int = 240) -> str:
    buffer = io.StringIO()
    terminal.show(report.blocks(seen), Console(file=buffer, width=width, highlight=False))
    return buffer.getvalue()


def test_counts_are_beside_their_line(seen: Profile) -> None:
    row = next(line for line in text(seen).splitlines() if "sA[tx, ty] = A[x, ty + i * TPB]" in line)
    # 4 blocks of 8 warps, 2 steps; a warp reads 2 elements of each of 16 rows of A, of which the first level keeps
    # the rest of their sectors for the block's other warps, and its tile's columns lie in 4 banks
    counted = row.partition("sA[tx, ty]")[0].split()
    assert counted[:6] == ["38", "16", "(4)", "8", "(1)", counted[5]]
    assert counted[6:] == ["75", "%", "128", "64", "64"]


def test_where_sectors_were_found(seen: Profile) -> None:
    shown = next(line for line in text(seen).splitlines() if line.startswith("caches"))
    # 2,048 sectors are loaded and 512 stored. A block misses the first level for 64 sectors of either operand, and
    # stores pass on: 1,024 sectors, of which those of the three arrays, 128 each, are new
    assert "80 KiB asked of L1, 32 KiB of L2, of which it holds 62 %" in shown  # 640 of 1,024


def test_lines_without_instructions_are_listed_too(seen: Profile) -> None:
    assert any(line.split() == ["34", "return"] for line in text(seen).splitlines())


def test_the_verdict_and_every_finding_are_reported(seen: Profile) -> None:
    shown = text(seen)
    assert "4 blocks for 132 multiprocessors, so 97 % of the GPU is idle" in shown.splitlines()[1]
    for finding in seen.findings:
        assert f"{finding.code} at {finding.where}: {finding.message}" in shown
    assert {f.code for f in seen.findings} == {"TW701", "TW702"}


@pytest.mark.parametrize(("width", "counts"), [(80, 3), (120, 7), (200, 7)])
def test_a_terminal_of_any_width_has_counts_beside_whole_lines(seen: Profile, width: int, counts: int) -> None:
    shown = text(seen, width).splitlines()
    start = next(i for i, line in enumerate(shown) if line.startswith("line ")) + 2
    rows = shown[start : next(i for i, line in enumerate(shown) if line.startswith("Counts are of PTX"))]
    assert all(len(line) <= width for line in shown[1:])
    assert len(re.split(r"  +", shown[start - 2].strip())) == counts + 2  # and the line's number and text
    place = shown[start - 2].index("source")
    assert {row[place - 2 : place] for row in rows if len(row) >= place} <= {"  "}  # nothing runs into the source
    row = next(row for row in rows if "sA[tx, ty] =" in row)
    assert row.split()[1:5] == ["16", "(4)", "8", "(1)"] and row.index("sA[tx, ty]") >= place


def test_a_pipe_has_no_colour(seen: Profile) -> None:
    assert "\x1b" not in text(seen)


def test_json_holds_everything(seen: Profile) -> None:
    (found,) = json.loads(json.dumps(document.profiles([seen], [], Ended(0))))["profiles"]
    assert found["totals"]["global_loads"]["sectors"] == seen.totals.global_loads.sectors
    assert found["totals"]["global_loads"]["efficiency"] == 0.25
    assert [line["line"] for line in found["lines"]] == [line.line for line in seen.lines]
    assert len(found["sites"]) == len(seen.sites)
    assert found["verdict"]["causes"][0]["line"] == seen.verdict.causes[0].line
    assert found["occupancy"]["occupancy"]["limits"]["warps"] == 8
    assert [f["code"] for f in found["findings"]] == [f.code for f in seen.findings]


def test_files_below_the_current_folder_are_named_from_it(seen: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(seen.lines[0].file).parent)
    assert "TW702 at tiled_published.py:38: 16 sectors a request where 4 would do" in text(seen)


def test_what_another_block_would_give_is_reported(seen: Profile) -> None:
    shown = text(seen).splitlines()
    assert next(line for line in shown if line.lstrip().startswith("of blocks")).split()[2:5] == ["32", "50", "%,"]
    # 32 registers a thread fill an H100's 2,048 threads; 255 leave room for 256
    registers = next(line for line in shown if line.lstrip().startswith("of registers"))
    assert "to 32 100 %" in registers and "to 255 12 %" in registers
    # of blocks of one warp a multiprocessor may hold 1 to 32, but an eighth of full occupancy is step enough
    small = replace(seen, occupancy=alternatives(machine.gpu("h100"), Demand(10, 256, 32)))
    shown = text(small).splitlines()
    shared = next(line for line in shown if line.lstrip().startswith("of shared")).split(", ")
    assert [step.split()[-2:] for step in shared] == [[n, "%"] for n in ("50", "38", "25", "12", "2")]
    assert shared[-1].startswith("to 227 KiB")


def test_a_program_has_a_table_and_each_kernels_slowest_launch(seen: Profile) -> None:
    fewer = replace(seen, launch=1, units=tuple(replace(u, seconds=u.seconds / 2) for u in seen.units))
    wider = replace(fewer, launch=3, grid=(4, 1, 1))
    other = replace(seen, launch=2, kernel="other", launched_at="p.py:7")
    buffer = io.StringIO()
    terminal.show(report.of_program([fewer, seen, other, wider]), Console(file=buffer, width=240, highlight=False))
    shown = buffer.getvalue()
    rows = [line.split() for line in shown.splitlines()[3:7]]
    assert [row[:4] for row in rows] == [
        ["tiled_published", "2x2x1", "16x16x1", "2"], ["other", "2x2x1", "16x16x1", "1"],
        ["tiled_published", "4x1x1", "16x16x1", "1"], [],
    ]  # fmt: skip
    assert shown.count("PTX-level limits") == 2
    assert "launched at p.py:7" in shown
    assert "host time" not in shown
    assert "host time" in text(seen)
