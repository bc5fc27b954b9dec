"""Print the files and functions that are longer than the habit of the house, as warnings: nothing fails."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tilewright"
FILE_LINES = 480
FUNCTION_LINES = 50


def functions(text: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of every function of Python: its code and its text of other languages, without its docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring


def functions_in_c(text: str) -> Iterator[tuple[str, int]]:
    """(first line, lines) of every function of a C file: from one brace alone at a line's start to the next."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            yield f"line {start}", number - start + 1
            start = None


def functions_in_script(text: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of every named function of a script: from its line to a brace with the same indentation."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if begin := re.match(r"( *)function (\w+)\(", line):
            end = next(at for at in range(number, len(lines)) if lines[at] == begin[1] + "}")
            yield begin[2], end - number + 1


_MEASURES = {
    ".py": functions,
    **dict.fromkeys((".c", ".h", ".hpp"), functions_in_c),
    **dict.fromkeys((".js", ".css"), functions_in_script),
}


def warnings(folder: Path) -> Iterator[str]:
    """A line for every long file and function under this folder."""
    for path in sorted(folder.rglob("*")):
        if measure := _MEASURES.get(path.suffix):
            text, name = path.read_text(encoding="utf-8"), path.relative_to(folder)
            if (lines := text.count("\n")) >= FILE_LINES:
                yield f"{name}: {lines} lines; a file has under {FILE_LINES}"
            for function, lines in measure(text):
                if lines >= FUNCTION_LINES:
                    yield f"{name}: {function} has {lines} lines; a function has under {FUNCTION_LINES}"


if __name__ == "__main__":
    for line in warnings(SOURCE):
        print(f"warning: {line}")
