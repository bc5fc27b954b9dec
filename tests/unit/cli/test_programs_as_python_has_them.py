"""Forms of programs that Python's own command line accepts; Python itself is the oracle."""

from __future__ import annotations

import io
import py_compile
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

#: Prints what a program can see of how it was started.
TELLING = """\
import sys
main = sys.modules["__main__"]
spec = getattr(main, "__spec__", None)
print(sys.argv, sys.path[0], __name__, getattr(main, "__package__", None) or "", spec and spec.name)
print(getattr(main, "__file__", None), type(main.__loader__).__name__)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Programs of all forms, whose packages are forgotten at the end: a process may make this folder twice."""
    base = tmp_path_factory.mktemp("programs")
    (base / "package" / "inner").mkdir(parents=True)
    (base / "sub").mkdir()
    for name in ("plain.py", "package/__main__.py", "package/part.py", "sub/plain.py", "package/inner/__main__.py"):
        (base / name).write_text(TELLING)
    (base / "package" / "__init__.py").write_text("")
    with zipfile.ZipFile(base / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", TELLING)
    py_compile.compile(str(base / "plain.py"), cfile=str(base / "compiled.pyc"))
    (base / "fails").mkdir()
    (base / "fails" / "__init__.py").write_text("import nothing_of_this_name")
    (base / "wrong.py").write_text("def f(:\n")
    yield base
    for name in [name for name in sys.modules if name.partition(".")[0] in ("package", "fails")]:
        del sys.modules[name]


LINES = [
    ["plain.py", "a", "--gpu", "x", "--"], ["sub/plain.py"], ["./plain.py", "-m", "b"], ["-m", "package", "--help"],
    ["-m", "package.part", "--", "c"], ["-mpackage.inner"], ["package", "d"], ["archive.zip", "e"],
    ["compiled.pyc", "f"], ["-c", TELLING, "-m", "g"], ["-"], ["-", "h", "--json"],
]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line[:2])[:20])
def test_a_program_sees_what_it_sees_under_python(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TELLING.encode())))
    done = subprocess.run([sys.executable, *line], input=TELLING, capture_output=True, text=True, check=True)
    assert tilewright("run", "--gpu", "a100", *line).out == done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-m nothing_there", "-m must name a module that can be imported (got 'nothing_there', which is not there)"),
        ("-m package.nothing", "(got 'package.nothing', which is not there)"),
        ("-m plain.py", "a file has no -m before it: plain.py"),
        ("-m xml", "(got 'xml', a package without __main__)"),
        ("-m .relative", "(got '.relative', which is not there)"),
        ("sub", "(got sub: Is a directory without __main__.py)"),
        ("missing.zip", "(got missing.zip: no such file"),
        ("-m", "-m must come with a value (got none)"),
        ("", "SCRIPT must name a Python program (got none); name a file, or -m MODULE, or -c CODE"),
    ],
)
def test_a_path_that_is_no_program_is_wrong_use(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.chdir(folder)
    done = tilewright("run", *line.split())
    assert (done.status, done.out) == (2, "")
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize(("line", "kind"), [("-m fails.part", ModuleNotFoundError), ("wrong.py", SyntaxError)])
def test_a_failure_before_the_first_line_is_the_program_s(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, kind: type[Exception]
) -> None:
    shown: list[BaseException] = []
    monkeypatch.setattr(sys, "__excepthook__", lambda _kind, error, _frames: shown.append(error))
    monkeypatch.chdir(folder)
    assert tilewright("run", *line.split()).status == 1
    assert [type(error) for error in shown] == [kind]
    assert shown[0].__traceback__ is None or "fails" in shown[0].__traceback__.tb_frame.f_code.co_filename


@pytest.mark.parametrize(
    ("text", "words", "option"),
    [
        ("", ("--gpu", "a100"), "--gpu"),
        ("", ("--limit=3",), "--limit"),
        ("'--gpu'", ("--gpu", "a100"), None),  # the program's own
        ("", ("--", "--gpu"), None),
        ("", ("--mine", "-x"), None),
    ],
)
def test_an_option_of_ours_after_the_program_is_pointed_out(
    tilewright: Run, tmp_path: Path, text: str, words: tuple[str, ...], option: str | None
) -> None:
    file = tmp_path / "program.py"
    file.write_text(text)
    said = [line for line in tilewright("run", file, *words).err.splitlines() if "after the program" in line]
    assert len(said) == (option is not None)
    if option:
        assert said[0].startswith(f"note: {option} is after the program, which received it")
        assert said[0].endswith(f"tilewright run {option} ... {file}")


def test_an_option_after_a_module_is_pointed_out_only_if_it_fails(tilewright: Run) -> None:
    assert "after the program" not in tilewright("run", "-m", "platform", "--limit", "3").err
    assert "note: --limit is after the program" in tilewright("run", "-m", "json.tool", "--limit", "3").err
