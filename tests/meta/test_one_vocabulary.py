"""What limits a kernel has one name and one phrase, in `simulate/machine/limiters.py`; no text has another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_tree import ROOT, Module, modules, offenders

from tilewright.simulate.machine import limiters

#: Words for limits that are not in the table.
OTHER = ("first level", "second level", "global memory latency", "issue rate", "memory bandwidth", "compute bound")
#: Phrases of the table that mean nothing else.
PHRASES = [
    phrase
    for phrase in (*limiters.UNITS.values(), *limiters.STALLS.values())
    if " " in phrase and phrase != "tensor cores"
]


def shown(module: Module) -> Iterator[tuple[int, str]]:
    """Lines whose strings, other than docstrings, have words for limits."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from ((node.lineno, words) for words in (*OTHER, *PHRASES) if words in node.value)


def test_no_module_has_words_of_its_own_for_what_limits_a_kernel() -> None:
    assert offenders(shown, [m for m in modules() if m.name != "simulate.machine.limiters"]) == {}


def test_the_rule_sees_words_in_strings_and_leaves_docstrings_alone() -> None:
    text = '"""Of the second level."""\ndef f():\n    """By integer arithmetic."""\n    return "integer arithmetic"\n'
    assert list(shown(Module("m", ROOT, text + 'x = f"at first level {f}"'))) == [
        (4, "integer arithmetic"), (5, "first level"),
    ]  # fmt: skip
