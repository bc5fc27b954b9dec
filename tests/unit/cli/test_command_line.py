"""Features of every subcommand: help, errors, Ctrl-C."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRecord

from tilewright.cli.main import main

Run = Callable[..., Any]


def test_version(tilewright: Run) -> None:
    from importlib.metadata import version

    done = tilewright("--version")
    assert (done.status, done.out) == (0, f"tilewright {version('tilewright')}\n")


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["ladder"],
        ["matmul"],
        ["kernels"],
        ["gpus"],
        ["occupancy"],
        ["profile"],
        ["cache"],
        ["ptx-support"],
        ["bench"],
        ["compare"],
        ["tune"],
    ],
)
def test_every_command_has_help(tilewright: Run, command: list[str]) -> None:
    done = tilewright(*command, "--help")
    assert done.status == 0
    assert "Usage" in done.out


@pytest.mark.parametrize("columns", [60, 100])
def test_help_fills_the_lines_of_any_terminal(tilewright: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    from tilewright.cli import check

    monkeypatch.setenv("COLUMNS", str(columns))
    shown = [line.strip() for line in tilewright("check", "--help").out.splitlines()]
    paragraph = inspect.cleandoc(check.check.__doc__ or "").split("\n\n")[1]
    expected = textwrap.wrap(" ".join(paragraph.split()), columns - 4)
    assert shown[shown.index(expected[0]) :][: len(expected)] == expected


def test_an_unknown_option_is_wrong_use(tilewright: Run) -> None:
    done = tilewright("ladder", "--sise", "3")
    assert done.status == 2
    assert "--sise" in done.err


def test_kernels_lists_the_catalogue(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(FakeRecord("loops"), FakeRecord("tiled", source="S9", backend="gpu", title="Tiles"))
    lines = tilewright("kernels").out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith(("S5", "S9", "loops", "tiled"))] == [
        ["S5", "the"],
        ["loops", "cpu"],
        ["S9", "CUDA"],
        ["tiled", "gpu"],
    ]


def test_gpus_lists_the_machines(tilewright: Run) -> None:
    from tilewright import machine

    out = tilewright("gpus").out
    assert machine.names()
    assert [name for name in machine.names() if name not in out] == []


def test_gpus_prints_records_that_gpu_takes(tilewright: Run, tmp_path: Path) -> None:
    """One in the form of a record's file, and all, each with its name."""
    from tilewright import machine

    mine = tmp_path / "mine.json"
    mine.write_text(tilewright("gpus", "a100", "--json").out)
    assert machine.gpu(str(mine)).name == machine.gpu("a100").name
    assert "NVIDIA A100 SXM4 80GB" in " ".join(tilewright("gpus", mine).out.split())
    every = json.loads(tilewright("gpus", "--json").out)["gpus"]
    assert [one["key"] for one in every] == list(machine.names())
    mine.write_text('{"like": "a100", "cores": 3}')
    assert "error: GPU:" in tilewright("gpus", mine).err and "no field 'cores'" in tilewright("gpus", mine).err


def test_ptx_support_prints_the_page(tilewright: Run) -> None:
    out = tilewright("ptx-support").out
    assert out.startswith("# Supported PTX\n")
    assert "| `add" in out


def test_a_defect_is_one_line_and_debug_shows_where(
    tilewright: Run, catalogue_of: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue_of(FakeRecord("broken", fails=ZeroDivisionError("oops")))
    done = tilewright("ladder", "--sizes", 4)
    assert done.status == 4
    assert "ZeroDivisionError: oops" in done.err
    assert "TILEWRIGHT_DEBUG=1" in done.err
    assert len(done.err.strip().splitlines()) == 1
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["tilewright", "ladder", "--sizes", "4"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_ctrl_c_is_one_line(tilewright: Run, catalogue_of: Run) -> None:
    class Interrupting(FakeRecord):
        def run_cpu(self, a: Any, b: Any) -> Any:
            raise KeyboardInterrupt

    catalogue_of(Interrupting("loops"))
    done = tilewright("ladder", "--sizes", 4)
    assert (done.status, done.out) == (130, "")
    assert done.err.splitlines() == ["interrupted: stopped by Ctrl-C; nothing was written"]


def test_ctrl_c_shows_the_kernels_that_ran(tilewright: Run, catalogue_of: Run) -> None:
    class Interrupting(FakeRecord):
        def run_cpu(self, a: Any, b: Any) -> Any:
            raise KeyboardInterrupt

    catalogue_of(FakeRecord("ran"), Interrupting("stopped"))
    done = tilewright("ladder", "--sizes", 4)
    assert (done.status, done.err) == (130, "")
    assert any(line.startswith("ran ") for line in done.out.splitlines())
    assert not any(line.startswith("stopped ") for line in done.out.splitlines())
    assert done.out.splitlines()[-1] == "Stopped by Ctrl-C: these kernels ran until then."


def test_ctrl_c_while_modules_load_is_one_line() -> None:
    code = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from tilewright.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.splitlines() == ["interrupted: stopped by Ctrl-C; nothing was written"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer versions let it through as it is")
@pytest.mark.parametrize("where", ["tool", "program"])
def test_ctrl_c_while_a_class_is_made_is_one_line(tmp_path: Path, where: str) -> None:
    makes = """
class Named:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
type("Made", (), {"named": Named()})
"""
    (tmp_path / ("program.py" if where == "program" else "typer.py")).write_text(makes)
    line = [sys.executable, "-c", "import sys; sys.path.insert(0, '.')\nfrom tilewright.cli.main import main\nmain()"]
    done = subprocess.run([*line, "run", "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert [text[:12] for text in done.stderr.splitlines()] == ["interrupted:"]


def test_the_package_runs_as_a_module() -> None:
    line = [sys.executable, "-m", "tilewright", "--version"]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout.startswith("tilewright ")


def test_a_wrong_setting_is_reported(tilewright: Run, catalogue_of: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_THREADS", "many")
    catalogue_of(FakeRecord("loops"))
    done = tilewright("ladder", "--sizes", 4)
    assert done.status == 2
    assert "TILEWRIGHT_THREADS" in done.err
    assert "'many'" in done.err
