"""Only the instruction table lists opcodes; other modules ask it for an instruction's meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_tree import ROOT, Module, modules, offenders

from tilewright.simulate import isa

OPCODES = {row.opcode for row in isa.table().rows}
#: Rooms that handle PTX.
ROOMS = ("simulate.", "observe.", "frontends.", "show.report.", "cli.")
#: Modules that may name opcodes: the table, and the parser, because `call` and `mov` have their own grammar.
ALLOWED = ("simulate.isa.", "simulate.ptx.body", "simulate.ptx.operands")
#: Two modules list LLVM's operations, which have the names of some opcodes.
OF_LLVM = ("simulate.code", "simulate.translate.analysis.shape")


def _strings(node: ast.AST) -> list[str]:
    """The strings of a literal collection, or the one string that an expression is."""
    items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [node])
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _lists(node: ast.AST) -> bool:
    """Whether a collection is a list of opcodes: two or more strings, and nothing else in it."""
    strings = _strings(node)
    items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return len(strings) > 1 and len(strings) == len(items) and set(strings) <= OPCODES


def _compares(node: ast.Compare) -> bool:
    """Whether a variable named as an opcode is compared with one."""
    sides = [node.left, *node.comparators]
    names = {ast.unparse(side).rpartition(".")[2] for side in sides}
    return "opcode" in names and any(OPCODES.intersection(_strings(side)) for side in sides)


def _matches(node: ast.Match) -> bool:
    """Whether a variable named as an opcode is matched with one."""
    cases = [
        pattern for case in node.cases for pattern in ast.walk(case.pattern) if isinstance(pattern, ast.MatchValue)
    ]
    named = ast.unparse(node.subject).rpartition(".")[2] == "opcode"
    return named and any(OPCODES.intersection(_strings(case.value)) for case in cases)


def listed(module: Module) -> Iterator[int]:
    """Lines that list opcodes or compare with one."""
    for node in ast.walk(module.tree):
        collection = isinstance(node, ast.Tuple | ast.Set | ast.List | ast.Dict) and _lists(node)
        compared = isinstance(node, ast.Compare) and _compares(node)
        if collection or compared or (isinstance(node, ast.Match) and _matches(node)):
            yield node.lineno


SEEN = [m for m in modules() if m.name.startswith(ROOMS) and not m.name.startswith(ALLOWED) and m.name not in OF_LLVM]


def test_no_list_of_opcodes_is_outside_the_table() -> None:
    assert offenders(listed, SEEN) == {}


@pytest.mark.parametrize(
    "line",
    [
        '_LOADS = ("ld", "ldu")', 'cost = {"add": 1, "mul": 2}', 'x = item.opcode == "ret"',
'match item.opcode:\n    case "bra" | "brx": ...', 'y = op.instruction.opcode in ("st",)',
        'z = opcode in {"bar", "barrier"}',
    ],
)  # fmt: skip
def test_the_rule_sees_a_list(line: str) -> None:
    assert set(listed(Module("m", ROOT, line))) == {1}


def test_the_rule_leaves_kinds_and_trees_alone() -> None:
    text = 'block.kind == "barrier"\nmake("ld", (".local",))\nnames = ("add", "other")\nrow.role is Role.COPY\n'
    assert list(listed(Module("m", ROOT, text))) == []
