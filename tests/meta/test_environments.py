"""The scripts of .ci: which tests belong to a change, and what is installed on which Python."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import pythons
import quick
from packaging.requirements import Requirement
from source_tree import ROOT


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ("src/tilewright/simulate/programs/nvrtc.py", "tests/unit/simulate/programs/test_nvrtc.py"),
        ("src/tilewright/simulate/programs/optional.py", "tests/unit/simulate/programs/test_optional.py"),
        ("tests/unit/simulate/programs/test_nvrtc.py", "tests/unit/simulate/programs/test_nvrtc.py"),
        ("tests/meta/source_tree.py", "tests/meta/test_assembly.py"),
    ],
)
def test_a_change_has_the_tests_of_its_name_or_those_that_name_it(changed: str, first: str) -> None:
    tests = quick.chosen([changed])
    assert tests[0] == first
    assert set(quick.RULES) <= set(tests)


def test_a_change_of_what_has_no_tests_leaves_the_smoke_list() -> None:
    assert quick.chosen([]) == quick.chosen(["Makefile", "LICENSE"]) == []
    assert [test for test in quick.SMOKE if not (ROOT / test).is_file()] == []


def test_releases_that_differ_by_python_have_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "3.11": {"a": "1", "b": "1", "old": "1"},
        "3.12": {"a": "1", "b": "2"},
        "3.13": {"a": "1", "b": "3"},
    }
    text = pythons.merged(found)
    assert text.splitlines() == [
        "a==1",
        'b==1; python_version < "3.12"',
        'b==2; python_version >= "3.12" and python_version < "3.13"',
        'b==3; python_version >= "3.13"',
        "old==1",
    ]
    monkeypatch.setattr(pythons, "CONSTRAINTS", tmp_path / "constraints.txt")
    pythons.CONSTRAINTS.write_text(text)
    assert pythons.tested("3.12.1") == {"a": "1", "b": "2", "old": "1"}
    assert pythons.tested("3.13.0") == {"a": "1", "b": "3", "old": "1"}


@pytest.mark.parametrize("version", pythons.VERSIONS)
def test_the_tested_releases_are_within_the_project_s_bounds(version: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(row for name in ("gpu", "opencl", "test", "dev") for row in extras[name])]
    releases = pythons.tested(version)
    outside = [
        text
        for text in wanted
        for row in [Requirement(text)]
        if row.name != "tilewright" and not row.specifier.contains(releases.get(pythons.canonical(row.name), ""))
    ]
    assert outside == []


def test_constraints_name_no_place_and_no_digest() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#") and ("/" in line or "--" in line or "@" in line)] == []


def test_the_tried_pythons_are_those_that_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [
        row.rpartition(" ")[2]
        for row in project["classifiers"]
        if row.startswith("Programming Language") and "3." in row
    ]
    assert tuple(named) == pythons.VERSIONS
    assert project["requires-python"] == f">={pythons.VERSIONS[0]}"
