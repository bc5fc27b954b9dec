"""Modules and functions stay small enough to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from source_tree import SOURCE, Module, modules

MODULE_LINES = 480
FUNCTION_LINES = 50
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
    """(file and line, lines) of every function of a C file: from a brace alone at a line's start to the next."""
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
    files = [path for ending in ("*.c", "*.h") for path in sorted(SOURCE.rglob(ending))]
    assert [path.name for path in files if path.read_text(encoding="utf-8").count("\n") >= MODULE_LINES] == []
    assert [(name, lines) for path in files for name, lines in functions_in_c(path) if lines >= FUNCTION_LINES] == []


def test_the_measure_sees_a_function_in_c(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("struct a {\n    int x;\n};\n\nint f(void)\n{\n    if (1) {\n    }\n}\n")
    assert list(functions_in_c(tmp_path / "f.c")) == [("f.c:6", 4)]


def test_the_measure_counts_text_and_leaves_docstrings_out() -> None:
    text = 'def f(x):\n    """One.\n\n    Two.\n    """\n    a = 1\n    return f"""\n{x}\n\n"""\n'
    assert list(functions(Module("m", modules()[0].path, text, ast.parse(text)))) == [("m.f", 6)]
