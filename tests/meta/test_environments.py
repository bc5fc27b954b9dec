"""The scripts of .ci: which tests belong to a change, and what is installed on which Python."""

from __future__ import annotations

import tomllib
from importlib.util import find_spec
from pathlib import Path

import frontends
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


@pytest.mark.parametrize(("constraints", "version", "more"), [
    *((pythons.CONSTRAINTS, version, ()) for version in pythons.VERSIONS),
    (frontends.CONSTRAINTS, frontends.VERSIONS[0], ("triton", "cupy", "cute")),
], ids=lambda given: given.name if isinstance(given, Path) else None)  # fmt: skip
def test_the_tested_releases_are_within_the_project_s_bounds(
    constraints: Path, version: str, more: tuple[str, ...]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = ("gpu", "opencl", "test", "dev", *more)
    wanted = [*project["dependencies"], *(row for name in names for row in extras[name])]
    releases = pythons.tested(version, constraints)
    outside = [
        text
        for text in wanted
        for row in [Requirement(text)]
        if row.name != "tilewright" and not row.specifier.contains(releases.get(pythons.canonical(row.name), ""))
    ]
    assert outside == []


@pytest.mark.parametrize("constraints", [pythons.CONSTRAINTS, frontends.CONSTRAINTS], ids=lambda path: path.name)
def test_constraints_name_no_place_and_no_digest(constraints: Path) -> None:
    lines = constraints.read_text(encoding="utf-8").splitlines()
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


def test_what_tests_need_is_in_an_environment_of_continuous_integration() -> None:
    by_hand = {"ziglang", "numba_cuda_mlir"}  # `make runtime` installs the one; no extra brings the other
    own = {"waited_for_here"}  # a module that its test makes
    asked = {name for path in (ROOT / "tests").rglob("*.py") for name in frontends.asked_for(path)} - by_hand - own
    assert [name for name in sorted(asked - set(frontends.PACKAGES)) if find_spec(name) is None] == []
    assert asked > set(frontends.PACKAGES)


def test_files_whose_tests_ask_for_a_package_of_a_front_end_run_beside_it(tmp_path: Path) -> None:
    assert "tests/unit/frontends/test_cupy.py" in frontends.chosen()
    (tmp_path / "test_own.py").write_text("jax = pytest.importorskip(\n    'jax.numpy', reason='not run')\n")
    assert frontends.asked_for(tmp_path / "test_own.py") == {"jax"}
    assert "tests/meta/test_habits.py" not in frontends.chosen()
