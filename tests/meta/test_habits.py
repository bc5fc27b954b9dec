"""Habits of the house that no linter checks."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import ROOT, Module, modules, offenders

#: Folders of one person's machine; written in parts, so that this file passes its own test.
PERSONAL = re.compile("|".join("/" + folder + "/" for folder in ("home", "root", "Users", "work")))
#: Rooms that print; what a kernel prints is its program's own output.
SPEAKING_ROOMS = ("cli.", "show.report.", "frontends.", "simulate.device.")
#: The longest line that ruff allows.
LINE = 120
FORBIDDEN_NAMES = {"utils", "util", "helpers", "common", "core", "manager", "misc"}


def prints(module: Module) -> list[int]:
    """Lines that call `print` or write to the standard streams."""
    lines = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            lines.append(node.lineno)
        if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr") and ast.unparse(node.value) == "sys":
            lines.append(node.lineno)
    return lines


def text_files() -> Iterator[Path]:
    for folder in ("src", "tests", "docs", "benchmarks", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".toml", ".cu", ".ptx", ".json", "") and path.is_file():
                yield path
    yield from (path for path in ROOT.glob("*") if path.suffix in (".md", ".toml") or path.name == "Makefile")


def test_only_cli_and_report_print() -> None:
    assert offenders(prints, (m for m in modules() if not m.name.startswith(SPEAKING_ROOMS))) == {}


def test_the_rule_sees_a_print() -> None:
    text = "import sys\nprint(1)\nsys.stderr.write('x')\n"
    assert prints(Module("m", ROOT, text)) == [2, 3]


def personal(text: str) -> list[str]:
    """Lines that name a folder of one person's machine."""
    return [line for line in text.splitlines() if PERSONAL.search(line)] if PERSONAL.search(text) else []


def test_no_path_of_one_machine() -> None:
    files = {path: path.read_text(encoding="utf-8", errors="replace") for path in text_files()}
    assert len(files) > 800
    assert {path: lines for path, text in files.items() if (lines := personal(text))} == {}


def test_the_rule_sees_a_path_of_one_machine() -> None:
    assert personal("a\n/" + "home/me\nb") == ["/" + "home/me"]


def test_modules_are_named_for_concepts() -> None:
    assert [m.name for m in modules() if FORBIDDEN_NAMES & set(m.name.split("."))] == []


def undocumented(module: Module) -> list[str]:
    """Public classes, functions and methods without a docstring."""
    missing = [] if ast.get_docstring(module.tree) else ["the module"]
    public = [
        n
        for n in module.tree.body
        if isinstance(n, ast.FunctionDef | ast.ClassDef)
        and n.name[0] != "_"
        and not any(ast.unparse(x) == "overload" for x in n.decorator_list)  # its function has the docstring
    ]
    for node in public:
        if not ast.get_docstring(node):
            missing.append(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_")
            missing += [f"{node.name}.{n.name}" for n in methods if not ast.get_docstring(n)]
    return missing


def test_what_is_public_is_documented() -> None:
    assert offenders(undocumented) == {}


def test_the_rule_sees_a_missing_docstring() -> None:
    text = 'class A:\n    """A."""\n    def f(self): ...\n    def _g(self): ...\ndef h(): ...\n'
    assert undocumented(Module("m", ROOT, text)) == ["the module", "A.f", "h"]


def cached_without_arguments(module: Module) -> list[str]:
    """Functions without parameters that `functools` caches: parallel calls of one get different results."""
    return [
        node.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef) and not ast.unparse(node.args)
        for mark in node.decorator_list
        if re.match(r"(functools\.)?(lru_)?cache\b", ast.unparse(mark))
    ]


def test_what_exists_once_is_made_once() -> None:
    """`native.once` makes it."""
    assert offenders(cached_without_arguments) == {}


def test_the_rule_sees_a_cache_of_one_thing() -> None:
    text = "@functools.cache\ndef a(): ...\n@functools.lru_cache(8)\ndef b(*names): ...\n@lru_cache\ndef c(): ...\n"
    assert cached_without_arguments(Module("m", ROOT, text)) == ["a", "c"]


def deep_descriptions(module: Module) -> list[str]:
    """Docstrings whose description of a parameter is further in than by four blanks."""
    documented = (n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef | ast.ClassDef))
    texts = ((node.name, ast.get_docstring(node) or "") for node in documented)
    return [name for name, text in texts if re.search(r"^[*\w, ]+( : .*)?\n {8,}\S", text, re.MULTILINE)]


def test_descriptions_of_parameters_are_indented_by_four() -> None:
    assert offenders(deep_descriptions) == {}


def test_the_rule_sees_a_deep_description() -> None:
    text = 'def {}():\n    """Sum.\n\n    Parameters\n    ----------\n    a : int\n        {}One.\n    """\n'
    assert deep_descriptions(Module("m", ROOT, text.format("f", "    ") + text.format("g", ""))) == ["f"]


def open_endings(module: Module) -> list[int]:
    """First lines of docstrings whose last line is empty."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            text = ast.get_docstring(node, clean=False) or ""
            if re.search(r"\n *\n *$", text):
                found.append(node.body[0].lineno)
    return found


def test_docstrings_end_in_their_last_sentence() -> None:
    assert offenders(open_endings) == {}


def test_the_rule_sees_an_empty_last_line() -> None:
    text = 'def {}():\n    """Sum.\n\n    Of two.\n{}    """\n'
    assert open_endings(Module("m", ROOT, text.format("f", "\n") + text.format("g", ""))) == [2]


#: A line with one text alone: its indent, the text, and what follows.
_TEXT_LINE = re.compile(r'( +)f?"((?:[^"\\]|\\.)*)"([),]*)')


def split_messages(module: Module) -> list[int]:
    """Lines of a message that ends in the next line, although both would fit in one."""
    lines = [_TEXT_LINE.fullmatch(line) for line in module.text.splitlines()]
    found = []
    for number, (one, two) in enumerate(itertools.pairwise(lines), 1):
        if one and two and one[1] == two[1] and one[2].endswith(" ") and not one[3] and two[3]:
            prefix = "f" if "{" in one[2] + two[2] else ""
            if len(f'{one[1]}{prefix}"{one[2]}{two[2]}"{two[3]}') <= LINE:
                found.append(number)
    return found


def test_messages_are_not_split_in_the_middle() -> None:
    assert offenders(split_messages) == {}


def test_the_rule_sees_a_split_message() -> None:
    text = 'raise E(\n    "a must be {}"\n    "positive",\n)\n'
    assert split_messages(Module("m", ROOT, text.format("") + text.format("far " * 30))) == [2]
