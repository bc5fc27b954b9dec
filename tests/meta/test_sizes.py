"""The warnings of long files and functions see them, and lines of other languages stay short."""

from __future__ import annotations

from pathlib import Path

from sizes import functions, functions_in_c, functions_in_script, warnings
from source_tree import ROOT

LINE_CHARACTERS = 120


def test_the_measure_sees_a_function_in_a_script() -> None:
    assert list(functions_in_script("{\n  function a(x) {\n    if (x) {\n    }\n  }\n}\n")) == [("a", 4)]


def test_the_measure_sees_a_function_in_c() -> None:
    text = "struct a {\n    int x;\n};\n\nint f(void)\n{\n    if (1) {\n    }\n}\n"
    assert list(functions_in_c(text)) == [("line 6", 4)]


def test_the_measure_counts_text_and_leaves_docstrings_out() -> None:
    text = 'def f(x):\n    """One.\n\n    Two.\n    """\n    a = 1\n    return f"""\n{x}\n\n"""\n'
    assert list(functions(text)) == [("f", 6)]


def test_long_files_and_functions_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("def f():\n" + "    1\n" * 480)
    (tmp_path / "short.py").write_text("def f():\n" + "    1\n" * 48)
    assert list(warnings(tmp_path)) == [
        "long.py: 481 lines; a file has under 480",
        "long.py: f has 481 lines; a function has under 50",
    ]


def long_lines(*endings: str) -> list[str]:
    """(file and line) of every line that is too long, of the files with these endings."""
    folders = (ROOT / folder for folder in ("src", "tests", "benchmarks"))
    files = [path for folder in folders for ending in endings for path in sorted(folder.rglob(f"*.{ending}"))]
    assert files
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LINE_CHARACTERS
    ]


def test_lines_of_other_languages_are_short() -> None:
    """The linter sees Python's."""
    assert long_lines("c", "h", "cl", "cu", "cuh", "hpp", "js", "css") == []
