"""Every command takes its options from one vocabulary, prints JSON that is described, and ends no error in a traceback.

The tests iterate the program's commands, so a command that is added is tested too.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import documents
import numpy as np
import pytest

from tilewright.cli import statuses
from tilewright.cli.app import program_command
from tilewright.cli.options import OPTIONS, named
from tilewright.show.report import console

Run = Callable[..., Any]
COMMANDS: Mapping[str, Any] = program_command().commands
#: Commands without JSON, and why.
WITHOUT_JSON = {
    "run": "its output is the program's own",
    "report": "it writes a page",
    "ptx-support": "it prints a page",
}
#: What a program does that launches a kernel, for those commands that take one.
PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def scale(x):
    x[cuda.grid(1)] *= 2

@cuda.jit
def shift(x):
    x[cuda.grid(1)] += 2

x = cuda.to_device(np.ones(64, np.float32))
for kernel in (scale, shift, scale):
    kernel[2, 32](x)
"""
#: A quick line of each command that prints JSON, by the name of its document.
LINES = {
    "ladder": "ladder --kernels three_loops --sizes 4x3x2",
    "matmul": "matmul a.npy a.npy -o c.npy",
    "kernels": "kernels",
    "check": "check program.py",
    "codes": "check --codes",
    "profile": "profile program.py",
    "predictions": "predict program.py",
    "catalogue_predictions": "predict --kernels coalesced --sizes 64,32 --gpu t4,h100",
    "rates": "bench --kernels coalesced --sizes 32 --gpu t4 --output old.jsonl",
    "comparison": "compare old.jsonl old.jsonl",
    "tuning": "tune --sizes 64 --candidates 1",
    "devices": "devices",
    "gpus": "gpus t4",
    "occupancy": "occupancy program.py",
    "cache": "cache",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, a matrix, and a sweep."""
    path = tmp_path_factory.mktemp("vocabulary")
    (path / "program.py").write_text(PROGRAM)
    np.save(path / "a.npy", np.ones((4, 4), np.float32))
    return path


def options_of(command: str) -> Iterator[Any]:
    return (one for one in COMMANDS[command].params if one.param_type_name == "option" and one.name != "help")


@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_of_the_vocabulary(command: str) -> None:
    for one in options_of(command):
        row = named(one.opts[0])
        assert (tuple(one.opts), one.metavar or "", one.help) == (row.flags, row.value, row.text)
        assert one.is_flag is (row.value == "")
        assert one.multiple is (row.value in ("NAMES", "SIZES", "NUMBERS", "CODES", "FORM[=FILE]"))


def test_the_vocabulary_has_no_option_without_a_command() -> None:
    used = {one.opts[0] for command in COMMANDS for one in options_of(command)}
    assert [row.flags for row in OPTIONS if row.flags[0] not in used] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_or_a_reason(command: str) -> None:
    assert ("--json" in {one.opts[0] for one in options_of(command)}) is (command not in WITHOUT_JSON)


@pytest.mark.parametrize("name", [one.name for one in documents.DOCUMENTS])
def test_json_is_as_described(tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(folder)
    if name == "comparison":
        tilewright(*LINES["rates"].split())
    command, *words = LINES[name].split()
    done = tilewright(command, "--json", *words)
    found = json.loads(done.out)
    described = documents.named(name)
    assert found.pop("schema") == f"tilewright.{name}"
    assert found.pop("version") == console.VERSION
    assert list(faults(found, described)) == []


def faults(found: Mapping[str, Any], described: documents.Document) -> Iterator[str]:
    """What a document has beside its description, or lacks of it."""
    fields = {one.name: one for one in described.fields}
    yield from (f"{name}: not described" for name in found if name not in fields)
    for name, field in fields.items():
        yield from wrong(name, found, field.types)
        value = found.get(name)
        for one in value if isinstance(value, list) else [value]:
            for inner, types in (field.of or {}).items():
                yield from wrong(inner, one, types)


def wrong(name: str, values: Mapping[str, Any], types: str) -> Iterator[str]:
    allowed = [kind for word in types.split(" or ") for kind in documents.TYPES[word]]
    if name not in values:
        yield f"{name}: missing"
    elif type(values[name]) not in allowed:
        yield f"{name}: {type(values[name])}"


def test_a_document_that_differs_is_found() -> None:
    described = documents.named("devices")
    assert list(faults({"devices": [], "more": 1}, described)) == ["more: not described"]
    assert list(faults({"devices": [{"device": 3}]}, described))[:2] == ["device: <class 'int'>", "name: missing"]


def test_the_page_of_json_is_made_from_the_table() -> None:
    assert documents.PAGE.read_text(encoding="utf-8") == documents.page(), "make docs writes it"


def test_the_page_of_commands_is_made_from_the_program() -> None:
    made = runpy.run_path(str(Path(__file__).parents[3] / "docs/making/commands.py"))
    text = made["PAGE"].read_text(encoding="utf-8")
    assert text == made["written"](text), "make docs writes it"
    assert [f"| `tilewright {name}" in text for name in COMMANDS] == [True] * len(COMMANDS)


def test_the_status_of_a_pipe_that_closed_is_in_the_table() -> None:
    assert statuses.READER_LEFT == console.READER_LEFT


@pytest.mark.parametrize(("former", "now"), [("--size", "--sizes"), ("--shape", "--sizes"), ("--dtype", "--dtypes")])
def test_a_former_name_is_explained(tilewright: Run, former: str, now: str) -> None:
    done = tilewright("ladder", former, "4")
    assert (done.status, done.out) == (2, "") and done.err.endswith(f"(got {former}); it is {now}\n")


def test_an_error_of_the_library_names_the_option(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tilewright as tw

    monkeypatch.chdir(folder)
    np.save("there.npy", np.ones((4, 4), np.float32))
    with pytest.raises(ValueError, match="replace it with `overwrite=True`"):
        tw.matmul("a.npy", "a.npy", "there.npy")
    words = ("matmul", "a.npy", "a.npy", "-o", "there.npy", "--memory", "64GB")
    done = tilewright(*words)
    assert done.status == 2 and done.err.endswith("replace it with --force\n")
    assert tilewright(*words, "--force").status == 0
    tw.matmul("a.npy", "a.npy", "there.npy", overwrite=True)


#: A wrong value of an option, by its placeholder.
WRONG = {
    "NAMES": ("", ",", "no such", "\0", "x" * 5000),
    "SIZES": ("", "0", "-4", "4x4", "1e3", "99999999999999999999"),
    "NUMBERS": ("", "0", "-1", "x", "9" * 30),
    "NUMBER": ("", "-1", "x", "9" * 30),
    "NAME": ("", "no such", "\0"),
    "SIZE": ("", "-4", "x", "9" * 30),
    "RATE": ("", "-4", "x"),
    "PERCENT": ("", "-4", "x"),
    "SECONDS": ("", "0", "-4", "x", "9" * 30),
    "MHZ": ("", "0", "x"),
    "MS": ("", "x"),
    "HOURS": ("", "x"),
    "LEVEL": ("", "x"),
    "CODES": ("", "TW9"),
    "FORM[=FILE]": ("", "x", "json=no/such/folder", "sarif=."),
    "FILE": (".", "no/such/folder", "pro\0gram", "x" * 5000),
    "FOLDER": ("program.py", "no/such/folder", "pro\0gram"),
    "ADDRESS": ("x",),
}
#: The arguments of a command that has some.
ARGUMENTS = {
    "matmul": ("a.npy", "a.npy"),
    "compare": ("no.jsonl", "no.jsonl"),
    "run": ("none.py",),
    "check": ("none.py",),
    "profile": ("none.py",),
}


def lines(command: str) -> Iterator[list[str]]:
    """Wrong lines of a command."""
    for one in options_of(command):
        for value in WRONG.get(one.metavar or "", ()):
            yield [command, one.opts[0], value, *ARGUMENTS.get(command, ())]
    yield [command, "--no-such-option"]


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_values_are_one_message(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The fixture fails for a traceback."""
    monkeypatch.chdir(folder)
    for line in lines(command):
        done = tilewright(*line)
        assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), (line, done)
        assert done.err.startswith("error: "), line


@pytest.mark.parametrize("program", ["none.py", "none.cu", "none", ".", "no/such.py", "pro\0gram.py", "x" * 5000, ""])
@pytest.mark.parametrize("command", ["run", "check", "profile", "predict", "occupancy"])
def test_programs_that_cannot_be_read(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, program: str
) -> None:
    monkeypatch.chdir(folder)
    done = tilewright(command, program)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done
    assert done.err.startswith("error: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wait_is_stopped_by_what_the_command_takes(name: str) -> None:
    """Only a program's launches have a limit, and say where they were stopped."""
    command = COMMANDS[name]
    nothing = dict.fromkeys((one.name for one in command.params), None)
    assert command.hint(nothing) == "Ctrl-C stops it"
    programs = {"script", "module", "code"} & nothing.keys()
    assert bool(programs) == ("limit" in nothing)
    for given in programs:
        assert command.hint(nothing | {given: "x"}) == "Ctrl-C shows where it is, --limit 60 stops it"
        assert command.hint(nothing | {given: "x", "limit": "60"}) == "Ctrl-C shows where it is"
