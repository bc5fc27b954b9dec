"""docs/design/extending.md lists all files that an addition touches."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
from source_tree import ROOT, SOURCE, modules

from tilewright.observe.instruments.findings import codes

PAGE = (ROOT / "docs" / "design" / "extending.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
#: Files outside its own that an addition may touch, tests and pages included.
MOST = 3


def listed(text: str) -> dict[str, bool]:
    """The files of a section, and whether each is the addition's own."""
    return {path: bool(own) for path, own in re.findall(r"^- `([^`]+)`( \(own\))?:", text, re.MULTILINE)}


def samples(text: str) -> list[str]:
    (line,) = re.findall(r"^Samples: (.*)$", text, re.MULTILINE)
    return re.findall(r"`([^`]+)`", line)


def code_names(tree: ast.Module) -> set[str]:
    """The names and whole texts of a module's code; docstrings and comments are for readers."""
    spoken = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            found |= {node.value}
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
    return found


@functools.cache
def names_of_files() -> dict[Path, set[str]]:
    """The files of the package, with the names in the code of each."""
    found = {path: set[str]() for path in SOURCE.rglob("*") if path.is_file()}
    return found | {m.path: code_names(m.tree) for m in modules()}


def naming(sample: str) -> set[str]:
    """The files of the package that contain a name, or have it."""
    found = {path for path, names in names_of_files().items() if sample in names or path.name == sample}
    for path in names_of_files():
        if path.suffix == ".toml" and re.search(rf"\b{re.escape(sample)}\b", path.read_text(encoding="utf-8")):
            found.add(path)
    return {str(path.relative_to(ROOT)) for path in found}


@pytest.mark.parametrize("head", SECTIONS)
def test_a_section_s_files_exist_and_are_few(head: str) -> None:
    files = listed(SECTIONS[head])
    assert [path for path in files if not (ROOT / path).is_file()] == []
    assert any(files.values()), f"'{head}' names no file as the addition's own"
    assert list(files.values()).count(False) <= MOST


@pytest.mark.parametrize(
    ("head", "sample"), [(head, name) for head, text in SECTIONS.items() for name in samples(text)]
)
def test_no_other_file_of_the_package_names_a_sample(head: str, sample: str) -> None:
    files = {path for path in listed(SECTIONS[head]) if path.startswith("src/")}
    named = naming(sample)
    assert named <= files
    assert {path for path, own in listed(SECTIONS[head]).items() if own and path.startswith("src/")} <= named


@pytest.mark.parametrize("code", codes())
def test_a_code_is_named_by_its_record_and_its_finder_and_hardly_anywhere_else(code: str) -> None:
    finder = f"src/tilewright/{codes()[code].found_by}"
    named = naming(code)
    assert (ROOT / finder).is_file()
    assert finder in named or codes()[code].faults  # only its record names the fault
    assert len(named - {finder}) <= MOST, named


def test_the_rule_sees_a_name_in_code_and_not_in_a_docstring() -> None:
    text = '"""TW101."""\nx = {"TW102"}  # TW103\ndef f():\n    """TW104."""\n    return Banks\n'
    assert code_names(ast.parse(text)) & {"TW101", "TW102", "TW103", "TW104", "Banks"} == {"TW102", "Banks"}
