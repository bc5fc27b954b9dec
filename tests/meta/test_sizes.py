"""Modules and functions stay small enough to read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import ROOT, SOURCE, Module, modules

MODULE_LINES = 480
FUNCTION_LINES = 50
LINE_CHARACTERS = 120
#: Functions that are longer for a reason, and the reason.
LONGER: dict[str, str] = {}


def functions(module: Module) -> Iterator[tuple[str, int]]:
    """(qualified name, lines) of every function: its code and its text of other languages, without its docstring."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
            assert node.end_lineno is not None
            yield f"{module.name}.{node.name}", node.end_lineno - node.lineno + 1 - docstring


def test_modules_are_short() -> None:
    assert {m.name: lines for m in modules() if (lines := m.text.count("\n")) >= MODULE_LINES} == {}


def functions_in_c(path: Path) -> Iterator[tuple[str, int]]:
    """(file and line, lines) of every function of a C file: from one brace alone at a line's start to the next."""
    start = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            yield f"{path.name}:{start}", number - start + 1
            start = None


def test_functions_are_short() -> None:
    long = {name: lines for m in modules() for name, lines in functions(m) if lines >= FUNCTION_LINES}
    assert {name: lines for name, lines in long.items() if name not in LONGER} == {}
    assert set(LONGER) <= set(long), "a function on the list of exceptions has become short or is gone"


def test_files_and_functions_in_c_are_short() -> None:
    files = [path for ending in ("*.c", "*.h", "*.hpp") for path in sorted(SOURCE.rglob(ending))]
    assert [path.name for path in files if path.read_text(encoding="utf-8").count("\n") >= MODULE_LINES] == []
    assert [(name, lines) for path in files for name, lines in functions_in_c(path) if lines >= FUNCTION_LINES] == []


def functions_in_script(text: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of every named function of a script: from its line to a brace with the same indentation."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if begin := re.match(r"( *)function (\w+)\(", line):
            end = next(at for at in range(number, len(lines)) if lines[at] == begin[1] + "}")
            yield begin[2], end - number + 1


def test_files_and_functions_of_scripts_are_short() -> None:
    files = [path for ending in ("*.js", "*.css") for path in sorted(SOURCE.rglob(ending))]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert {name: text.count("\n") for name, text in texts.items() if text.count("\n") >= MODULE_LINES} == {}
    found = [(name, one) for name, text in texts.items() for one in functions_in_script(text)]
    assert len(found) > 30
    assert [one for one in found if one[1][1] >= FUNCTION_LINES] == []


def test_the_measure_sees_a_function_in_a_script() -> None:
    assert list(functions_in_script("{\n  function a(x) {\n    if (x) {\n    }\n  }\n}\n")) == [("a", 4)]


def test_the_measure_sees_a_function_in_c(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("struct a {\n    int x;\n};\n\nint f(void)\n{\n    if (1) {\n    }\n}\n")
    assert list(functions_in_c(tmp_path / "f.c")) == [("f.c:6", 4)]


def test_the_measure_counts_text_and_leaves_docstrings_out() -> None:
    text = 'def f(x):\n    """One.\n\n    Two.\n    """\n    a = 1\n    return f"""\n{x}\n\n"""\n'
    assert list(functions(Module("m", modules()[0].path, text))) == [("m.f", 6)]


def long_lines(*endings: str) -> list[str]:
    """(file and line) of every line that is too long, of the files with these endings."""
    folders = (ROOT / folder for folder in ("src", "tests", "benchmarks"))
    files = [path for folder in folders for ending in endings for path in sorted(folder.rglob(f"*.{ending}"))]
    assert files
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LINE_CHARACTERS
    ]


def test_lines_of_other_languages_are_short() -> None:
    """The linter sees Python's."""
    assert long_lines("c", "h", "cl", "cu", "cuh", "hpp", "js", "css") == []
