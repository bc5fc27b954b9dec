"""The statements of the function around a line, as its source nests them: loops, branches and what is in them.

The compiler unrolls, rotates and merges loops, so advice on where a statement belongs follows the source. Python is
read by its own parser; of CUDA C++ only braces, brackets and the words of control flow are read.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Suffixes of files of CUDA C++.
CPP = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".hpp", ".hxx", ".h", ".inl")
#: What is no code in C++: comments, literals, and lines of the preprocessor.
_NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
_TOKEN = re.compile(r"\w+|\S")
#: Words of C++ that hold statements, and the kind of statement.
_KINDS = {"for": "loop", "while": "loop", "do": "loop"} | dict.fromkeys(("if", "switch", "else", "try", "catch"), "if")
#: Languages within Python, and how their decorators begin.
_DECORATORS = {
    "triton": ("triton.",),
    "cute": ("cute.", "cutlass."),
    "cupy": ("jit.rawkernel", "cupyx.jit", "cupyx."),
}
#: Arrays in shared and in local memory: how Python makes one with a name, and the text of C++ that declares some.
_ARRAYS = {
    "shared": (r"(\w+)\s*=\s*[\w.]*\bshared\.array\b", r"__shared__([^;]*)"),
    "local": (
        r"(\w+)\s*=\s*[\w.]*\blocal\.array\b",
        r"(?:^|[;{}])\s*(?!(?:return|delete|extern|else|new|typedef|using)\b|__)"
        r"(?:(?:const|unsigned|signed|long|short)\s+)*[A-Za-z_][\w:]*\s+(\w+\s*\[[^;={]*)",
    ),
}
_INDEXED = re.compile(r"(?<![\w.])(\w+)\s*\[")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the lists of statements that it holds."""

    first: int  #: Its first line, from 1.
    last: int
    kind: str = ""  #: `loop`, `if`, `block`, or "" for a statement without others.
    parts: tuple[tuple[Statement, ...], ...] = ()


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
        if statement.first <= line <= statement.last:
            yield statement
            for part in statement.parts:
                yield from _down(part, line)
            return


def text_of(file: str) -> str:
    """The text of a file as it is now; "" if it cannot be read."""
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


def around(file: str, line: int) -> tuple[Statement, ...]:
    """The statements of a file's function that hold a line, the outermost first; empty if that is not known."""
    text = text_of(file)
    literal = "" if file.endswith(CPP) else _literal(text, line)
    return path(literal or text, line, cpp=bool(literal) or file.endswith(CPP))


def language(file: str, line: int) -> str:
    """The language of a line: `cuda`, `numba`, `triton`, `cute`, `cupy`, or `ptx` without a file.

    CUDA C++ may be a literal in a Python file; other languages differ by their decorators.
    """
    if not file:
        return "ptx"
    text = text_of(file)
    if file.endswith(CPP) or _literal(text, line):
        return "cuda"
    function = _function(_parsed(text), line)
    marks = [ast.unparse(mark) for mark in function.decorator_list] if function else []
    known = (one for one, prefixes in _DECORATORS.items() if any(mark.startswith(prefixes) for mark in marks))
    return next(known, "numba")


def writes_nothing(file: str, line: int) -> bool:
    """Whether the function that a line begins has no statements but assertions, and is known."""
    text = text_of(file)
    if file.endswith(CPP) or _literal(text, line):
        code = "".join(code_of(_literal(text, line) or text).splitlines(keepends=True)[line - 1 :])
        return bool(re.match(r"[^{};]*\{(?:\s*(?:assert\s*\([^;{}]*\)|return|\(void\)\s*\w+)?\s*;)*\s*\}", code))
    function = _function(_parsed(text), line)
    return function is not None and all(
        isinstance(one, ast.Pass | ast.Assert)
        or (isinstance(one, ast.Expr | ast.Return) and isinstance(one.value, ast.Constant | None))
        for one in function.body
    )


def of_axes(file: str, line: int) -> tuple[str, str]:
    """The names that the function at a line has for its indices in x and in y; "" where they are not known."""
    lines = "".join(text_of(file).splitlines(keepends=True)[line:])
    lines = re.split(r"^(?:\s*(?:@|def\b|__global__)|\})", lines, maxsplit=1, flags=re.MULTILINE)[0]
    if both := re.search(r"(\w+)\s*,\s*(\w+)\s*=\s*(?:cuda\.)?grid\(2\)", lines):
        return both[1], both[2]
    found = (re.search(rf"(\w+)\s*=[^=;,\n]*\b(?:thread|block)Idx\.{axis}\b", lines) for axis in "xy")
    x, y = (one[1] if one else "" for one in found)
    return x, y


def cpp_of(file: str) -> str:
    """The C++ in a file at its lines: all of it, or the literals with kernels in a file of Python."""
    text = text_of(file)
    if file.endswith(CPP) or not text:
        return text
    lines = [""] * (text.count("\n") + 1)
    for node in ast.walk(_parsed(text) or ast.Module([], [])):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value:
            code = node.value.split("\n")
            lines[node.lineno - 1 : node.lineno - 1 + len(code)] = code
    return "\n".join(lines)


def shared_arrays(file: str, line: int) -> list[str]:
    """The arrays in shared memory that the function of Python around a line makes, in order."""
    text = text_of(file)
    function = _function(_parsed(text), line)
    lines = text.splitlines()[function.lineno - 1 : function.end_lineno] if function else []
    return re.findall(_ARRAYS["shared"][False], "\n".join(lines))


def indexed(file: str, line: int, space: str) -> set[str]:
    """Names that a line indexes: arrays of a file in `shared` or `local` memory, or in `global` memory all others."""
    text = text_of(file)
    cpp = file.endswith(CPP) or _literal(text, line)
    code = code_of(text) if cpp else re.sub(r"#[^\n]*", "", text)
    here = set(_INDEXED.findall("".join(code.splitlines()[line - 1 : line])))
    shared, local = (made(code, one, cpp=bool(cpp)) for one in _ARRAYS)
    return here & {"shared": shared, "local": local}[space] if space in _ARRAYS else here - shared - local


def made(code: str, space: str, *, cpp: bool) -> set[str]:
    """Names of the arrays that code declares in `shared` or `local` memory.

    >>> sorted(made("__shared__ float s[8], t[4][4]; float sum[2]; x = a[3];", "shared", cpp=True))
    ['s', 't']
    >>> sorted(made("__shared__ float s[8]; float sum[2] = {}; x = a[3]; return b[2];", "local", cpp=True))
    ['sum']
    """
    found = re.findall(_ARRAYS[space][cpp], code, re.MULTILINE)
    return {name for text in found for name in (_INDEXED.findall(text) if cpp else [text])}


# -- Python --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # a notebook's cell with its own commands, or no Python
        return None


def _function(module: ast.Module | None, line: int) -> ast.FunctionDef | None:
    """The innermost function with a line."""
    known = [node for node in ast.walk(module or ast.Module([], [])) if isinstance(node, ast.FunctionDef)]
    around = [node for node in known if node.lineno <= line <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno, default=None)


def _literal(text: str, line: int) -> str:
    """The code in the text literal of several lines that holds a line, after as many empty lines; "" for none."""
    for node in ast.walk(_parsed(text) or ast.Module([], [])):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.end_lineno:
            if node.lineno < node.end_lineno and node.lineno <= line <= node.end_lineno:
                is_code = "{" in node.value and ";" in node.value
                return "\n" * (node.lineno - 1) + node.value if is_code else ""
    return ""


def _of_python(text: str, line: int) -> tuple[Statement, ...]:
    module = _parsed(text)
    function = _function(module, line) or module
    return _statements(function.body) if function else ()


def _statements(body: Sequence[ast.stmt]) -> tuple[Statement, ...]:
    return tuple(_statement(node) for node in body)


def _statement(node: ast.stmt) -> Statement:
    kind = "loop" if isinstance(node, ast.For | ast.While) else "if" if isinstance(node, ast.If) else "block"
    lists = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    parts = tuple(_statements(part) for part in lists if isinstance(part, list) and part)
    return Statement(node.lineno, node.end_lineno or node.lineno, kind if parts else "", parts)


# -- CUDA C++ ------------------------------------------------------------------------------------------------------


def code_of(text: str) -> str:
    """The text of C++ with blanks for what is no code."""
    return _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _of_cpp(text: str, line: int) -> tuple[Statement, ...]:
    """The statements of the outermost function that holds a line; a word that no brace encloses is no function."""
    tokens = [
        (token[0], number) for number, row in enumerate(code_of(text).split("\n"), 1) for token in _TOKEN.finditer(row)
    ]
    reader = _Reader(tokens)
    for start, end in sorted(reader.closed.items()):
        if tokens[start][0] == "{" and tokens[start][1] <= line <= tokens[end][1] and reader.is_body(start):
            return reader.block(start)[0]
    return ()


class _Reader:
    """Reads statements of C++ from its tokens, each with its line."""

    def __init__(self, tokens: Sequence[tuple[str, int]]) -> None:
        self._tokens = tokens
        self.closed: dict[int, int] = {}  #: The place of each opening bracket, and of the one that closes it.
        opened: list[int] = []
        for at, (token, _) in enumerate(tokens):
            if token in ("(", "[", "{"):
                opened.append(at)
            elif token in (")", "]", "}") and opened:
                self.closed[opened.pop()] = at

    def is_body(self, start: int) -> bool:
        """Whether the brace at a place begins a function's body."""
        while self._token(start - 1) in ("const", "noexcept", "override", "final"):
            start -= 1
        return self._token(start - 1) == ")"

    def block(self, at: int) -> tuple[tuple[Statement, ...], int]:
        """The statements from an opening brace to its end, and the place after that."""
        end, found = self.closed.get(at, len(self._tokens)), []
        at += 1
        while at < end:
            statement, after = self._statement(at)
            found.append(statement)
            at = max(after, at + 1)
        return tuple(found), end + 1

    def _statement(self, at: int) -> tuple[Statement, int]:
        (word, first), parts = self._tokens[at], []
        if word == "{":
            part, at = self.block(at)
            parts.append(part)
        elif word in _KINDS:
            while self._token(at + 1) == "constexpr":
                at += 1
            part, at = self._body(self._after(at + 1) if self._token(at + 1) == "(" else at + 1)
            parts.append(part)
            if word == "do":
                at = self._plain(at)  # its condition
            if word == "if" and self._token(at) == "else":
                part, at = self._body(at + 1)
                parts.append(part)
        else:
            at = self._plain(at)
        last = self._tokens[min(at, len(self._tokens)) - 1][1]
        return Statement(first, last, _KINDS.get(word, "block") if parts else "", tuple(parts)), at

    def _body(self, at: int) -> tuple[tuple[Statement, ...], int]:
        if self._token(at) in ("{", "", "}"):
            return self.block(at) if self._token(at) == "{" else ((), at)
        statement, at = self._statement(at)
        return (statement,), at

    def _plain(self, at: int) -> int:
        """The place after a statement's semicolon, or of the brace that ends its block."""
        while self._token(at) not in (";", "}", ""):
            at = self._after(at)
        return at + (self._token(at) == ";")

    def _after(self, at: int) -> int:
        """The place after a token, or after what it opens."""
        return self.closed.get(at, at) + 1

    def _token(self, at: int) -> str:
        return self._tokens[at][0] if 0 <= at < len(self._tokens) else ""
