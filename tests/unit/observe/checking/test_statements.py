"""The statements around a line, in sources that are long or deep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.observe.checking import statements

_DEEP_CPP = "__global__ void k(int n) {\n" + "if (n) ; else\n" * 1000 + ";\n}\n"
_DEEP_PYTHON = "def k(n):\n  if n == 0: f()\n" + "  elif n == 1: f()\n" * 400


@pytest.mark.parametrize(("text", "cpp"), [(_DEEP_CPP, True), (_DEEP_PYTHON, False)])
def test_statements_that_are_nested_too_deeply_are_unknown(text: str, cpp: bool) -> None:
    assert statements.path(text, 3, cpp=cpp) == ()


def test_a_function_may_end_its_head_in_words_and_a_long_comment() -> None:
    comment = "/*" + "x" * 100_000 + "*/"
    text = f"void f() {comment} ;\nint g() const noexcept {comment} {{\n  h();\n}}\n"
    assert [one.first for one in statements.path(text, 3, cpp=True)] == [3]


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("def k(a):\n    for i in a:\n        a[i] = 0\n")
    assert [one.kind for one in statements.around(str(file), 3)] == ["loop", ""]
    assert (statements.language(str(file), 3), statements.indexed(str(file), 3, "global")) == ("numba", {"a"})
    file.write_text("@jit.rawkernel()\ndef k(a):\n    if a.size:\n        b[0] = a\n")
    assert [one.kind for one in statements.around(str(file), 4)] == ["if", ""]
    assert (statements.language(str(file), 4), statements.indexed(str(file), 4, "global")) == ("cupy", {"b"})
