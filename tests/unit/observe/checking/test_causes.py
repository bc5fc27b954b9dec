"""Findings with one cause are one finding, in every form of report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.checking import Finding, Findings, check
from tilewright.frontends.script import Ended
from tilewright.observe.checking import causes
from tilewright.observe.checking.suppressions import Sifted, Suppression, sift
from tilewright.programs import Program
from tilewright.show.report import findings as report, sarif


def race(line: int, *others: int, code: str = "TW301", kernel: str = "k", file: str = "a.py") -> Finding:
    places = [f"{file}:{number}" for number in others]
    return Finding(code=code, kernel=kernel, source=file, line=line, details={"others": places})


def left(line: int, code: str = "TW402", kernel: str = "k") -> Finding:
    return Finding(code=code, kernel=kernel, source="a.py", line=line)


def groups(*findings: Finding) -> list[list[int]]:
    return [[place.line for place in cause.places] for cause in causes(findings)]


@pytest.mark.parametrize(
    ("findings", "lines"),
    [
        ([], []),
        ([race(3, 9), race(4, 9)], [[3, 4]]),  # two stores that race with one read
        ([race(3, 9), race(4, 8)], [[3], [4]]),
        ([race(3, 9), race(9, 12)], [[3, 9]]),  # a read that is also a store
        ([race(3, 9), race(4, 8), race(5, 8, 9)], [[3, 4, 5]]),  # one that joins two others
        ([race(3, 9, code="TW304"), race(4, 9)], [[4, 3]]),  # the more specific code is reported
        ([race(3, 9), race(4, 9, kernel="other")], [[3], [4]]),
        ([race(3, 9), race(3, 9, file="b.py")], [[3], [3]]),
        ([race(3), race(4)], [[3], [4]]),  # "another access": which one is unknown
        ([left(3), left(7), left(9, "TW401"), left(9, kernel="other")], [[3, 7], [9], [9]]),
        ([left(3, "TW404"), left(3, "TW405"), left(7, "TW405"), left(3, "TW405", kernel="other")], [[3, 3], [7], [3]]),
        ([left(3, "TW107"), left(3, "TW101"), left(4, "TW101")], [[3, 3], [4]]),  # a line lacks one guard
        ([left(3, "TW101"), left(3, "TW101", "other"), left(3, "TW105")], [[3], [3], [3]]),
        ([left(0, "TW101"), left(0, "TW101")], [[0], [0]]),  # the line is unknown
        ([left(3, "TW103"), left(6, "TW103"), left(6, "TW103", "other")], [[3, 6], [6]]),  # the array is too small
        (
            [left(3, "TW202"), left(9, "TW402"), left(3, "TW202", "other")],
            [[9, 3], [3]],
        ),  # exited threads have not written
        ([race(3, 9, code="TW303"), left(7, "TW503")], [[7, 3]]),  # blocks of one dimension write the same elements
        ([left(3, "TW601"), left(7, "TW601")], [[3, 7]]),
    ],
)
def test_findings_that_one_change_mends_have_one_cause(findings: list[Finding], lines: list[list[int]]) -> None:
    assert groups(*findings) == lines


def test_every_form_has_one_finding_with_its_places(tmp_path: Path) -> None:
    rows = (race(3, 9), race(4, 9), left(20, "TW601"))
    sifted = Sifted(rows, (), ())
    shown = str(Findings(rows))
    assert shown.count("\n\nTW301 error: race in shared memory") == 0 and shown.startswith(
        "TW301 error: race in shared"
    )
    assert "also  a.py:4: TW301 error: race in shared memory" in shown
    assert shown.endswith("2 findings (1 error, 1 warning) at 3 places in 1 launch of 1 kernel")
    found = json.loads(report.as_json(sifted, Ended(0), launches=1, kernels=["k"]))["findings"]
    assert [(row["line"], [place["line"] for place in row["places"]]) for row in found] == [(3, [4]), (20, [])]
    assert [Finding.from_json(row) for row in found] == [rows[0], rows[2]]
    results = sarif.log(sifted, tmp_path, Ended(0))["runs"][0]["results"]
    lines = [[p["physicalLocation"]["region"]["startLine"] for p in row.get("relatedLocations", ())] for row in results]
    assert lines == [[9, 4], []]


def test_a_suppressed_place_leaves_the_others() -> None:
    sifted = sift([race(3, 9), race(4, 9)], [Suppression("TW301", "a.py", 3)])
    assert groups(*sifted.findings) == [[4]]
    assert [one.line for one in sifted.suppressed] == [3]


def test_findings_are_a_tuple_that_prints_itself() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }"
    found = check(Program.from_ptx(text), 1, 2048, ())
    assert isinstance(found, tuple) and [finding.code for finding in found] == ["TW502"]
    assert found == tuple(found) and str(found).startswith("TW502 error: too many threads in a block")
    assert "<table" not in found._repr_html_() and "TW502 error</span>" in found._repr_html_()
    none = check(Program.from_ptx(text), 1, 32, (np.zeros(1),) * 0)
    assert not none and str(none) == "no findings in 1 launch of 1 kernel"
