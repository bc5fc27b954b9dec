"""The console: width, colours and characters, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tilewright.show.report import console


def test_a_pipe_keeps_lines_whole_unless_columns_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console.output().width == console.PIPE_WIDTH
    monkeypatch.setenv("COLUMNS", "90")
    assert console.output().width == 90


def test_errors_are_red_on_a_terminal_and_plain_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console.error("`b` must be [bold]a matrix[/] (got 3)")
    assert capsys.readouterr().err == "error: `b` must be [bold]a matrix[/] (got 3)\n"
    stream = io.StringIO()
    monkeypatch.setattr(console, "diagnostics", lambda: Console(file=stream, force_terminal=True, color_system="256"))
    console.error("wrong")
    assert stream.getvalue() == "\x1b[1;38;5;167merror: \x1b[0mwrong\n"


def test_errors_are_wrapped_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, path = io.StringIO(), "/a/long/path" * 8
    narrow = Console(file=stream, force_terminal=True, color_system=None, width=80)
    monkeypatch.setattr(console, "diagnostics", lambda: narrow)
    console.error(f"{'some words ' * 10}{path} and more")
    lines = stream.getvalue().splitlines()
    assert path in lines and all(len(line.rstrip()) <= 80 for line in lines if line != path)
    assert " ".join(stream.getvalue().split()) == f"error: {'some words ' * 10}{path} and more"


def test_a_console_without_unicode_is_known() -> None:
    narrow = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    wide = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert (console.speaks_unicode(narrow), console.speaks_unicode(wide)) == (False, True)
