"""Commands that install something come from `installation`, which knows what works where they are printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import Module, modules, offenders

_COMMAND = re.compile(r"\bpip install(?!s)")


def commands(module: Module) -> Iterator[int]:
    """The lines of texts, other than docstrings, that say how to install."""
    spoken = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and id(node) not in spoken and _COMMAND.search(str(node.value)):
            yield node.lineno


def test_no_text_says_by_itself_how_to_install() -> None:
    assert offenders(commands, [m for m in modules() if m.name != "installation"]) == {}


def test_a_text_that_does_is_found() -> None:
    import tilewright.show.report.climb as some  # any module

    text = 'def f(x):\n    """Not `pip install x`."""\n    raise ValueError(f"{x}: run: pip install tilewright[gpu]")\n'
    assert list(commands(Module("some", some.__file__, text))) == [3]
