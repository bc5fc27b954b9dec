"""The statements around a line, in sources that are long or deep."""

from __future__ import annotations

import pytest

from tilewright.checking import statements

_DEEP_CPP = "__global__ void k(int n) {\n" + "if (n) ; else\n" * 1000 + ";\n}\n"
_DEEP_PYTHON = "def k(n):\n  if n == 0: f()\n" + "  elif n == 1: f()\n" * 400


@pytest.mark.parametrize(("text", "cpp"), [(_DEEP_CPP, True), (_DEEP_PYTHON, False)])
def test_statements_that_are_nested_too_deeply_are_unknown(text: str, cpp: bool) -> None:
    assert statements.path(text, 3, cpp=cpp) == ()


def test_a_function_may_end_its_head_in_words_and_a_long_comment() -> None:
    comment = "/*" + "x" * 100_000 + "*/"
    text = f"void f() {comment} ;\nint g() const noexcept {comment} {{\n  h();\n}}\n"
    assert [one.first for one in statements.path(text, 3, cpp=True)] == [3]
