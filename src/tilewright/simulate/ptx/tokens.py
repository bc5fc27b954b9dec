"""PTX text cut into tokens, and a cursor over them.

One regular expression cuts the text. A word carries its dotted parts (`ld.global.f32`, `%tid.x`), so most instructions
are a handful of tokens; the first character gives the kind.

Source: PTX ISA, section 4.1 to 4.5 (source format, comments, statements, identifiers, constants).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NoReturn

from tilewright.errors import PtxError

# The text is scanned once: a part that fails to match becomes a token and is not tried again at other lengths.
# Between tokens: white space, comments, old `@@DWARF` lines, and lines of a preprocessor (`#line`, `# 3 "f"`).
_SKIP = r"(?>[\s\0]+|//[^\n]*|/\*(?s:.*?)\*/|@@DWARF[^\n]*|(?m:^)\#[ \t]*(?:line|pragma|\d)[^\n]*)*+"
_TOKEN = re.compile(
    _SKIP
    + r"""(
        [A-Za-z_$%][\w$]*+(?:\.[\w$]+(?:::\w+)*+)*+    # word, with its dotted parts
      | \d++\.?+\d*+[eE][+-]?\d+(?![\w.]) | \d[\w.]*   # number, checked when it is used
      | \.[\w$]+(?:::\w+)*                             # .directive or a modifier after white space
      | "(?:[^"\\\n]|\\.)*+" | "[^\n]*+                 # string, or one not closed on its line
      | /\*(?s:.*+)                                    # comment that is never closed
      | << | >> | <= | >= | == | != | && | \|\|
      | .                                              # any other character, one at a time
      | \Z                                             # the end, so that white space before it is skipped
    )""",
    re.ASCII | re.VERBOSE,
)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+"')
_WORD_STARTS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$%")


def with_words(text: str, prefix: str, rename: Callable[[str], str]) -> str:
    """A text in which every word that begins with a prefix is replaced, also in comments and strings.

    >>> with_words(".func _ZN3one(); // _ZN3one", "_ZN", lambda word: "one")
    '.func one(); // one'
    """
    return re.sub(rf"(?<![\w$%]){prefix}[\w$]+", lambda match: rename(match[0]), text)


def with_start(text: str, entry: str, code: str) -> str:
    """A text with more code, without a new line, at the start of a kernel.

    >>> with_start(".entry k(.param .u32 n) { ret; }", "k", " trap;")
    '.entry k(.param .u32 n) { trap; ret; }'
    """
    head = re.compile(rf"\.entry\s+{re.escape(entry)}(?![\w$])[^{{]*{{")
    return head.sub(lambda found: found[0] + code, text, count=1)


class Tokens:
    """The tokens of a text with a position, `at`; the list ends with empty tokens."""

    __slots__ = ("_newlines", "at", "names", "path", "starts", "texts", "zeros")

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.at = 0
        #: What short declarations have made so far: names of variables, and elements of initialisers.
        self.names = self.zeros = 0
        matches = list(_TOKEN.finditer(text))
        self.texts = [match[1] for match in matches]
        self.starts = [match.start(1) for match in matches]
        self.texts += ["", ""]  # one after the last position, for look-ahead
        self.starts += [len(text), len(text)]
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def line(self, index: int | None = None) -> int:
        """Line (from 1) of a token, the current one by default."""
        return bisect_right(self._newlines, self.starts[self.at if index is None else index]) + 1

    def fail(self, expected: str, index: int | None = None) -> NoReturn:
        """Raise the error that `expected` was not found at a token."""
        text = self.texts[self.at if index is None else index]
        got = f"'{text if len(text) < 60 else text[:57] + '...'}'" if text else "the end of the text"
        if text.startswith("/*"):
            got = "a comment '/*' that is never closed"
        raise PtxError(f"{self.path}:{self.line(index)}: expected {expected}, got {got}")

    def error(self, message: str, index: int | None = None) -> NoReturn:
        """Raise an error at a token, the current one by default."""
        raise PtxError(f"{self.path}:{self.line(index)}: {message}")

    def take(self) -> str:
        """Return the current token and move on."""
        text = self.texts[self.at]
        if text:
            self.at += 1
        return text

    def accept(self, text: str) -> bool:
        """Move past `text` if it is the current token."""
        if self.texts[self.at] == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str, where: str = "") -> None:
        """Move past `text`, or fail."""
        if self.texts[self.at] != text:
            self.fail(f"'{text}'{where and ' ' + where}")
        self.at += 1

    def is_word(self) -> bool:
        """Whether the current token starts as a name does."""
        return self.texts[self.at][:1] in _WORD_STARTS and self.texts[self.at] != ""

    def name(self, what: str) -> str:
        """An identifier without dotted parts."""
        text = self.texts[self.at]
        if not self.is_word() or "." in text:
            self.fail(what)
        self.at += 1
        return text

    def string(self, what: str) -> str:
        """A quoted string, without its quotes."""
        text = self.texts[self.at]
        if not _STRING.fullmatch(text):
            self.fail(what)
        self.at += 1
        return text[1:-1]
