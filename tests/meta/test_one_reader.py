"""PTX has one reader, `tilewright.ptx`: no other module looks for its directives or instructions in text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from source_tree import ROOT, Module, modules, offenders

#: A directive, or an instruction with its first dotted part, as a pattern or as plain text has it.
_PTX = re.compile(
    r"(?<![\w.\\])\\?\.(?:entry|func|visible|extern|weak|common|reg|loc|file|version|target|address_size|pragma|section"
    r"|alias|maxntid|callprototype|branchtargets)\b"
    r"|(?:(?<![\w.\\])|(?<=\\b))(?:ld|ldu|st|atom|red|mov|cvt|cvta|mul|mad|add|sub|setp|selp|bar|barrier|membar|fence|call|bra|ret)\\?\.\w"
)
#: Methods that look for their argument in a text.
_SEARCHES = frozenset(
    "compile search match fullmatch finditer findall sub split startswith endswith find rfind index rindex count "
    "replace partition rpartition removeprefix removesuffix".split()
)
#: Rooms that may read PTX: the reader, and the table, whose rows are written as the manual prints them.
READERS = ("simulate.ptx.", "simulate.isa.")


def _texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _is_ptx(node: ast.AST) -> bool:
    """Whether an expression's name says that it is PTX text."""
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).rpartition(".")[2] == "ptx"


def readings(module: Module) -> list[int]:
    """Lines that look for parts of PTX in text."""
    lines = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Compare):
            looks = any(isinstance(op, ast.In | ast.NotIn | ast.Eq | ast.NotEq) for op in node.ops)
            within = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops) and any(map(_is_ptx, node.comparators))
            if looks and (within or any(map(_PTX.search, _texts(node)))):
                lines.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SEARCHES:
            regular = ast.unparse(node.func.value) == "re" and any(map(_is_ptx, node.args))
            if regular or any(_PTX.search(text) for argument in node.args for text in _texts(argument)):
                lines.append(node.lineno)
    return lines


def test_ptx_has_one_reader() -> None:
    assert offenders(readings, (m for m in modules() if not m.name.startswith(READERS))) == {}


@pytest.mark.parametrize(
    "line",
    [
        r're.compile(r"^\s*\.entry\s+(\w+)")', 'text.startswith(".visible")', '".entry" in text', "word in program.ptx",
        're.search(name, program.ptx)', r're.sub(rf"\bld\.param\.u64 {name}", "", text)', 'part == ".loc"',
        'text.count("bar.sync")',
    ],
)  # fmt: skip
def test_the_rule_sees_a_reader(line: str) -> None:
    assert readings(Module("m", ROOT, line)) == [1]


def test_the_rule_leaves_errors_and_names_alone() -> None:
    text = 'raise E("must be `.entry` (got none)")\nform.has("global")\nname.startswith(".param")\nptx.count("\\n")\n'
    assert readings(Module("m", ROOT, text)) == []
