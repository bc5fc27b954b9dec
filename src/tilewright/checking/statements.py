"""The statements of the function around a line, as its source nests them: loops, branches and what is in them.

The compiler unrolls, rotates and merges loops, so advice on where a statement belongs follows the source. Python is
read by its own parser; of CUDA C++ only braces, brackets and the words of control flow are read.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

#: Suffixes of files of CUDA C++.
CPP = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".hpp", ".hxx", ".h", ".inl")
#: What is no code in C++: comments, literals, and lines of the preprocessor.
_NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
#: The end of a function's head. Each character has one way to match, so that no text takes quadratic time.
_HEAD = re.compile(r"\)(?:\s|const|noexcept|override|final)*+$")
_WORD = re.compile(r"\b(for|while|if|switch|do|else|try|catch)\b")
_LOOPS = ("for", "while", "do")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the lists of statements that it holds."""

    first: int  #: Its first line, from 1.
    last: int
    kind: str = ""  #: `loop`, `if`, `block`, or "" for a statement without others.
    parts: tuple[tuple[Statement, ...], ...] = ()

    def holds(self, line: int) -> bool:
        """Whether a line is one of its lines."""
        return self.first <= line <= self.last


def path(source: str, line: int, *, cpp: bool = False) -> tuple[Statement, ...]:
    """The statements of a text that hold a line, the outermost first; empty if they are nested too deeply to be read.

    >>> text = '''__global__ void k(int n) {
    ...   for (int i = 0; i < n; i++) {
    ...     f(i);
    ...     if (i) g(i);
    ...   }
    ... }'''
    >>> [(one.kind, one.first, one.last) for one in path(text, 4, cpp=True)]
    [('loop', 2, 5), ('if', 4, 4), ('', 4, 4)]
    """
    try:
        return tuple(_down(_of_cpp(source, line) if cpp else _of_python(source, line), line))
    except RecursionError:
        return ()


def _down(statements: Sequence[Statement], line: int) -> Iterator[Statement]:
    for statement in statements:
        if statement.holds(line):
            yield statement
            for part in statement.parts:
                yield from _down(part, line)
            return


@functools.lru_cache(maxsize=256)
def around(file: str, line: int) -> tuple[Statement, ...]:
    """The statements of a file's function that hold a line, the outermost first; empty if that is not known."""
    text = "".join(linecache.getlines(file))
    if file.endswith(CPP):
        return path(text, line, cpp=True)
    inside = _literal(text, line)
    if inside is None:
        return path(text, line)
    start, literal = inside
    return tuple(_moved(one, start - 1) for one in path(literal, line - start + 1, cpp=True))


def function(file: str, line: int) -> tuple[Statement, ...]:
    """The statements of the function of C++ whose definition is at a line; empty if they are nested too deeply."""
    code = _code("".join(linecache.getlines(file)))
    for start, _ in _braces(code):
        if code.count("\n", 0, start) + 1 >= line and _is_body(code, start):
            with contextlib.suppress(RecursionError):
                return _Reader(code).block(start)[0]
            break
    return ()


@functools.lru_cache(maxsize=256)
def language(file: str, line: int) -> str:
    """The language of a line: `cuda`, `numba`, `triton`, `cute`, `cupy`, or `ptx` without a file.

    CUDA C++ may be a literal in a Python file; other languages differ by their decorators.
    """
    if not file:
        return "ptx"
    text = "".join(linecache.getlines(file))
    if file.endswith(CPP) or _literal(text, line) is not None:
        return "cuda"
    function = _function(_parsed(text), line)
    marks = [ast.unparse(mark) for mark in function.decorator_list] if function else []
    for mark in marks:
        for known, prefixes in _DECORATORS.items():
            if mark.startswith(prefixes):
                return known
    return "numba"


def indexed(file: str, line: int, *, shared: bool) -> set[str]:
    """Names that a line of Python indexes; with `shared` those of its function's arrays in shared memory."""
    module = _parsed("".join(linecache.getlines(file)))
    function = _function(module, line)
    if function is None:
        return set()
    names = {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.lineno <= line <= (node.end_lineno or 0)
    }
    made = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and "shared.array" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return names & made if shared else names - made


#: Languages within Python, and how their decorators begin.
_DECORATORS = {
    "triton": ("triton.",),
    "cute": ("cute.", "cutlass."),
    "cupy": ("jit.rawkernel", "cupyx.jit", "cupyx."),
}


def _moved(statement: Statement, lines: int) -> Statement:
    parts = tuple(tuple(_moved(one, lines) for one in part) for part in statement.parts)
    return replace(statement, first=statement.first + lines, last=statement.last + lines, parts=parts)


# -- Python --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # a notebook's cell with its own commands, or no Python
        return None


def _function(module: ast.Module | None, line: int) -> ast.FunctionDef | None:
    """The innermost function with a line."""
    found = None
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            found = node if found is None or node.lineno >= found.lineno else found
    return found


def _literal(text: str, line: int) -> tuple[int, str] | None:
    """The text literal of several lines that holds a line, with its first line."""
    for node in ast.walk(_parsed(text) or ast.Module([], [])):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.end_lineno:
            if node.lineno < node.end_lineno and node.lineno <= line <= node.end_lineno:
                is_code = "{" in node.value and ";" in node.value
                return (node.lineno, node.value) if is_code else None
    return None


def _of_python(text: str, line: int) -> tuple[Statement, ...]:
    module = _parsed(text)
    function = _function(module, line)
    body = function.body if function else module.body if module else []
    return _statements(body)


def _statements(body: Sequence[ast.stmt]) -> tuple[Statement, ...]:
    return tuple(_statement(node) for node in body)


def _statement(node: ast.stmt) -> Statement:
    kind = "loop" if isinstance(node, ast.For | ast.While) else "if" if isinstance(node, ast.If) else "block"
    lists = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    parts = tuple(_statements(part) for part in lists if isinstance(part, list) and part)
    return Statement(node.lineno, node.end_lineno or node.lineno, kind if parts else "", parts)


# -- CUDA C++ ------------------------------------------------------------------------------------------------------


def _of_cpp(text: str, line: int) -> tuple[Statement, ...]:
    """The statements of the outermost function that holds a line; a word that no brace encloses is no function."""
    code = _code(text)
    for start, end in _braces(code):
        first, last = code.count("\n", 0, start) + 1, code.count("\n", 0, end) + 1
        if first <= line <= last and _is_body(code, start):
            return _Reader(code).block(start)[0]
    return ()


def _code(text: str) -> str:
    """The text with blanks for what is no code."""
    return _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _is_body(code: str, start: int) -> bool:
    """Whether the brace at a place begins a function's body."""
    return _HEAD.search(code, 1 + max(code.rfind(mark, 0, start) for mark in ";{}"), start) is not None


def _braces(code: str) -> list[tuple[int, int]]:
    """The places of each opening brace and of the one that closes it, in order."""
    opened, found = [], []
    for at, letter in enumerate(code):
        if letter == "{":
            opened.append(at)
        elif letter == "}" and opened:
            found.append((opened.pop(), at))
    return sorted(found)


class _Reader:
    """Reads statements of C++ without comments and literals."""

    def __init__(self, code: str) -> None:
        self._code = code.rstrip()
        self._pairs = dict(_braces(code))

    def block(self, at: int) -> tuple[tuple[Statement, ...], int]:
        """The statements from an opening brace to its end, and the place after that."""
        end, found = self._pairs.get(at, len(self._code)), []
        at = self._blank(at + 1)
        while at < end:
            statement, at = self._statement(at, end)
            found.append(statement)
            at = self._blank(at)
        return tuple(found), end + 1

    def _statement(self, at: int, end: int) -> tuple[Statement, int]:
        word = _WORD.match(self._code, at)
        if self._code[at] == "{":
            part, after = self.block(at)
            return self._made(at, after, "block", (part,)), after
        if word is None:
            after = self._plain(at, end)
            return self._made(at, after), after
        head = self._blank(word.end())
        after = self._brackets(head) if self._code[head : head + 1] == "(" else head
        part, after = self._body(after, end)
        if word[1] == "do":
            after = self._plain(after, end)  # its condition
        parts, kind = [part], "loop" if word[1] in _LOOPS else "if"
        following = self._blank(after)
        if word[1] == "if" and self._code.startswith("else", following):
            part, after = self._body(following + len("else"), end)
            parts.append(part)
        return self._made(at, after, kind, tuple(parts)), after

    def _body(self, at: int, end: int) -> tuple[tuple[Statement, ...], int]:
        at = self._blank(at)
        if self._code[at : at + 1] == "{":
            return self.block(at)
        if at >= end:
            return (), end
        statement, after = self._statement(at, end)
        return (statement,), after

    def _plain(self, at: int, end: int) -> int:
        """The place after a statement's semicolon."""
        while at < end and self._code[at] != ";":
            if self._code[at] in "([":
                at = self._brackets(at)
            elif self._code[at] == "{":
                at = self._pairs.get(at, end) + 1
            else:
                at += 1
        return min(at + 1, end)

    def _brackets(self, at: int) -> int:
        """The place after the bracket that closes the one at a place."""
        depth = 0
        for place in range(at, len(self._code)):
            depth += (self._code[place] in "([{") - (self._code[place] in ")]}")
            if not depth:
                return place + 1
        return len(self._code)

    def _blank(self, at: int) -> int:
        while at < len(self._code) and self._code[at].isspace():
            at += 1
        return at

    def _made(self, at: int, after: int, kind: str = "", parts: tuple[tuple[Statement, ...], ...] = ()) -> Statement:
        first = self._code.count("\n", 0, at) + 1
        last = first + self._code.count("\n", at, max(at, after - 1)) if after > at else first
        return Statement(first, last, kind, parts)
