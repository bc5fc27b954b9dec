"""Modules and functions stay small enough to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_tree import Module, modules

MODULE_LINES = 800
FUNCTION_LINES = 50
#: Functions that are longer for a reason, and the reason.
LONGER: dict[str, str] = {}


def functions(module: Module) -> Iterator[tuple[str, int]]:
    """(qualified name, lines without the docstring) of every function."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node):
                text = node.body[0]
                assert text.end_lineno is not None
                lines -= text.end_lineno - text.lineno + 1
            yield f"{module.name}.{node.name}", lines


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name or "tilewright")
def test_modules_are_short(module: Module) -> None:
    assert module.text.count("\n") < MODULE_LINES


def test_functions_are_short() -> None:
    long = {name: lines for m in modules() for name, lines in functions(m) if lines >= FUNCTION_LINES}
    assert {name: lines for name, lines in long.items() if name not in LONGER} == {}
    assert set(LONGER) <= set(long), "a function on the list of exceptions has become short or is gone"


def test_the_measure_leaves_docstrings_out() -> None:
    text = 'def f():\n    """One.\n\n    Two.\n    """\n    a = 1\n    return a\n'
    assert list(functions(Module("m", modules()[0].path, text, ast.parse(text)))) == [("m.f", 3)]
