"""Support for CI: exit statuses, forms of the report, and a project's own settings."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import check, formats, statuses
from tilewright.errors import ArgumentValueError, TilewrightWarning
from tilewright.frontends.script import Ended
from tilewright.ground import configuration
from tilewright.observe.checking.suppressions import Sifted
from tilewright.observe.instruments.findings import Finding
from tilewright.show.report import github

Run = Callable[..., Any]

#: One error and one warning, chosen by the first argument; the second is the exit status.
PROGRAM = """\
import sys
import numpy as np
from numba import cuda

@cuda.jit
def outside(x):
    x[cuda.threadIdx.x] = 1

@cuda.jit
def doubles(x):
    i = cuda.threadIdx.x
    if i < x.size:
        x[i] = x[i] * 0.1 + 0.2

x = cuda.to_device(np.ones(30, np.float32))
if "outside" in sys.argv[1]:
    outside[1, 32](x)
if "doubles" in sys.argv[1]:
    doubles[1, 32](x)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


#: Options, findings, the program's own status, and that of `check`.
STATUSES = [
    ("", "none", 0, 0), ("", "none", 1, 3), ("", "none", 2, 3), ("", "doubles", 0, 1), ("", "outside", 7, 1),
    ("--fail-on warning", "doubles", 0, 1), ("--fail-on error", "doubles", 0, 0),
    ("--fail-on error", "doubles", 4, 3), ("--fail-on error", "outside", 0, 1),
    ("--fail-on never", "outside", 0, 0), ("--fail-on never", "outside", 7, 7),
]  # fmt: skip


@pytest.mark.parametrize(("options", "found", "own", "status"), STATUSES)
def test_the_exit_status_says_what_happened(options: str, found: str, own: int, status: int) -> None:
    codes = {"none": (), "doubles": ("TW601",), "outside": ("TW101", "TW601")}[found]
    sifted = Sifted(tuple(Finding(code=code, kernel="k") for code in codes), (), ())
    failing: Any = options.rpartition(" ")[2] or "warning"
    assert check._status(sifted, Ended(own), failing) == status
    missing = check._status(sifted, Ended(own), failing, unchecked=True)
    assert missing == (statuses.PROGRAM_FAILED if status == 0 and failing != "never" else status)
    assert check._status(sifted, Ended(130, KeyboardInterrupt()), failing) == 130


@pytest.mark.parametrize(("options", "found", "own", "status"), [STATUSES[i] for i in (1, 4, 6, 10)])
def test_check_leaves_with_this_status(
    tilewright: Run, here: Path, options: str, found: str, own: int, status: int
) -> None:
    done = tilewright("check", *options.split(), "program.py", found, own)
    assert done.status == status
    said = f"note: the program itself ended with status {own}" in done.err
    assert said == (own not in (0, status))
    assert ("no findings" in done.out) == (found == "none")


def test_one_run_gives_several_forms_of_the_report(tilewright: Run, here: Path) -> None:
    words = ["--format", "github", "--format=sarif=a.sarif", "--format=json=a.json", "--format=text=a.txt"]
    done = tilewright("check", *words, "program.py", "outside", 0)
    (line,) = done.out.splitlines()
    assert line.startswith("::error file=program.py,line=7,title=TW101 out-of-bounds global access::store of 4 bytes")
    assert json.loads((here / "a.json").read_text())["findings"][0]["code"] == "TW101"
    assert json.loads((here / "a.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "TW101"
    text = (here / "a.txt").read_text()
    assert text.startswith("TW101 error") and text.endswith("1 finding (1 error) in 1 launch of 1 kernel\n")
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("forms", "said"),
    [
        (["json=a.out", "sarif=./a.out"], "--format sarif=./a.out must name a file of its own"),
        (["sarif=/dev/full"], "/dev/full: the output must be a regular file (got a device or pipe)"),
        (["sarif=link"], "link: the output must be a regular file (got a device or pipe)"),
        (["sarif=closed/a.sarif"], "--format sarif=closed/a.sarif: its folder must be one you may write in"),
    ],
)
def test_an_unwritable_report_file_is_refused_before_the_program_runs(
    tilewright: Run, here: Path, monkeypatch: pytest.MonkeyPatch, forms: list[str], said: str
) -> None:
    (here / "link").symlink_to("/proc/self/fd/1")
    (here / "closed").mkdir()
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: may(path, mode) and Path(path).name != "closed")
    done = tilewright("check", *(f"--format={form}" for form in forms), "-c", "print('it ran')")
    assert (done.status, done.out) == (2, "") and said in done.err
    assert (here / "link").is_symlink() and not (here / "a.out").exists()


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 4), (errno.EACCES, 2)])
def test_an_error_with_a_file_loses_no_finding(
    tilewright: Run, here: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    opened = Path.open

    def refusing(path: Path, *arguments: Any, **more: Any) -> Any:
        if "a.sarif" in path.name:
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, *arguments, **more)

    monkeypatch.setattr(Path, "open", refusing)
    words = ["--format=sarif=a.sarif", "--format=json=a.json", "--format=brief"]
    done = tilewright("check", *words, "program.py", "outside", 0)
    assert done.status == status and "a.sarif" in done.err and os.strerror(number) in done.err
    assert done.out.startswith("program.py:7: TW101 error")
    assert json.loads((here / "a.json").read_text())["findings"][0]["code"] == "TW101"


@pytest.mark.parametrize("told", [True, False])
def test_both_reports_for_code_hosts_name_files_relative_to_the_repository(
    tilewright: Run, here: Path, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """A step of GitHub Actions may have a working directory below the repository's root; elsewhere .git is there."""
    (here / "step").mkdir()
    monkeypatch.chdir(here / "step")
    if told:
        monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    else:
        monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
        (here / ".git").mkdir()
    (here / "step" / "program.py").write_text(PROGRAM)
    done = tilewright("check", "--format=github", "--format=sarif=a.sarif", "program.py", "outside", 0)
    assert done.out.startswith("::error file=step/program.py,line=7")
    (result,) = json.loads((here / "step" / "a.sarif").read_text())["runs"][0]["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "step/program.py", "uriBaseId": "SRCROOT"}


#: The command once for each form, in one process.
EACH_FORM = """
import sys
from tilewright.cli.main import main
for form in ("text", "brief", "github", "json"):
    sys.argv = ["tilewright", "check", "--format", form, "\u00fc.py", "outside", "0"]
    try:
        main()
    except SystemExit as leaving:
        print("\\nended", form, leaving.code, flush=True)
"""


def test_letters_that_the_output_cannot_encode_end_no_report(here: Path) -> None:
    (here / "\u00fc.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-c", EACH_FORM]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)
    parts = re.split(r"^ended (\w+ \d+)\n", done.stdout, flags=re.MULTILINE)
    assert parts[1::2] == ["text 1", "brief 1", "github 1", "json 1"], done.stderr
    for report in parts[:-1:2]:
        assert "TW101" in report and ("\\xfc.py" in report or "\\u00fc.py" in report)


@pytest.mark.parametrize(
    ("value", "status", "shown"),
    [("256", 0, ""), ("-1", 3, "255"), ("True", 3, "1"), ("3", 3, "3"), ("2**70", 3, "255")],
)
def test_the_program_s_own_status_is_the_interpreter_s(
    tilewright: Run, here: Path, value: str, status: int, shown: str
) -> None:
    done = tilewright("check", "-c", f"import sys; sys.exit({value})")
    assert done.status == status
    assert ("the program itself ended with status" in done.err) == bool(shown)
    assert shown in done.err
    never = tilewright("check", "--fail-on", "never", "-c", f"import sys; sys.exit({value})")
    assert never.status == int(shown or 0)


def test_if_all_forms_are_files_the_text_is_printed() -> None:
    assert formats.chosen(["json=a.json"], json=False) == {"json": Path("a.json"), "text": None}
    assert formats.chosen([], json=False) == {"text": None}
    assert formats.chosen([], json=True) == {"json": None}
    assert formats.chosen(["github", "text"], json=False) == {"github": None, "text": None}


def test_github_s_lines_come_in_order_and_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Errors first; the file relative to the repository."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    came = {"instructions": 50, "opcodes": [" % slower\nhere"], "dtypes": []}
    rows = [
        Finding(code="TW601", kernel="k", source=str(tmp_path / "a, b:c.py"), line=3, details=came),
        Finding(code="TW101", kernel="k", source="/elsewhere/d.py", line=0),
        Finding(code="TW102", kernel="k"),
    ]
    first, second, third = github.text(Sifted(tuple(rows), (), ()), Ended(0)).splitlines()
    assert first.startswith("::error file=/elsewhere/d.py,line=1,title=TW101 ")
    assert second.startswith("::error title=TW102 ")
    assert third.startswith("::warning file=a%2C b%3Ac.py,line=3,title=TW601 ")
    assert third.partition("::50 float64 instructions (")[2].startswith(" %25 slower%0Ahere) ")
    (line,) = github.text(Sifted((), (), ()), Ended(1, KeyError("no"))).splitlines()
    assert line == "::error title=The program was ended by KeyError::'no'"


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_a_project_s_settings_apply_to_its_programs(
    tilewright: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, '[tool.tilewright]\nfail-on = "error"\nformat = ["json"]\nignore = "TW604"\ngpu = "t4"\nlimit = 50\n')
    (here / "deep").mkdir()
    (here / "program.py").rename(here / "deep" / "program.py")
    monkeypatch.chdir("/")
    program = here / "deep" / "program.py"
    done = tilewright("check", program, "doubles", 0)
    assert (done.status, [row["code"] for row in json.loads(done.out)["findings"]]) == (0, ["TW601"])
    done = tilewright(
        "check", "--fail-on", "warning", "--format", "brief", program, "doubles", 0
    )  # an option takes precedence
    assert (done.status, done.out[-34:]) == (1, "(1 warning) in 1 launch of 1 kernel\n"[-34:])
    telling = here / "deep" / "gpu.py"
    telling.write_text("from numba import cuda\nprint(cuda.get_current_device().name)")
    assert tilewright("run", telling).out == "NVIDIA T4\n"
    assert "A100" in tilewright("run", "--gpu", "a100", telling).out
    monkeypatch.setenv("TILEWRIGHT_GPU", "v100")
    assert "V100" in tilewright("run", telling).out


def test_the_nearest_file_with_a_table_is_taken(tmp_path: Path) -> None:
    write(tmp_path, "[tool.tilewright]\nseed = 1\n")
    write(tmp_path / "a" / "b", "[tool.other]\nkey = 1\n")
    write(tmp_path / "c", "[tool.tilewright]\nseed = 2\n")
    assert configuration.of(tmp_path / "a" / "b" / "d").seed == 1
    assert configuration.of(tmp_path / "c", tmp_path).seed == 2
    assert configuration.of(Path("/"), tmp_path / "c").seed == 2


def test_settings_of_another_user_in_a_folder_above_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All may write to /tmp, and `format` names files to overwrite. But a whole checkout may belong to another user."""
    write(tmp_path, "[tool.tilewright]\nseed = 1\nformat = 'sarif=/elsewhere/kept'\n")
    write(tmp_path / "mine", "[tool.other]\nkey = 1\n")
    owners = {tmp_path / "pyproject.toml": 54321}
    owner = configuration._owner
    monkeypatch.setattr(configuration, "_owner", lambda path: owners.get(path, owner(path)))
    with pytest.warns(TilewrightWarning, match=r"is not read: it belongs to another user, of number 54321"):
        assert configuration.of(tmp_path / "mine") == configuration.Project()
    owners[tmp_path / "mine"] = 54321
    assert configuration.of(tmp_path / "mine").seed == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[tool.tilewright]\ngpus = 1",
            r"must have known keys \(got 'gpus'\); they are gpu, seed, limit, ig",
        ),
        ("[tool.tilewright]\nlimit = 0", "limit must be seconds, more than 0 .got 0."),
        ("[tool.tilewright]\nlimit = true", "limit must be seconds"),
        ("[tool.tilewright]\nseed = -1", "seed must be a whole number"),
        ("[tool.tilewright]\nignore = [1]", "ignore must be a list of codes"),
        ("[tool.tilewright]\nfail-on = 'note'", "fail-on must be one of error, warning, never"),
        ("[tool]\ntilewright = 3", "must be a table"),
        ("[tool.tilewright\n", "must be TOML"),
    ],
)
def test_a_table_that_is_wrong_is_wrong_use(tilewright: Run, here: Path, text: str, said: str) -> None:
    write(here, text)
    with pytest.raises(ArgumentValueError, match=said):
        configuration.of(here)
    done = tilewright("run", "program.py")
    assert (done.status, done.out) == (2, "")
    assert re.search(rf"error: .*pyproject\.toml: .*{said}", done.err)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('gpu = "voodoo"', "pyproject.toml: gpu: a GPU must be one of v100"),
        ('ignore = ["TW31"]', "pyproject.toml: ignore: 'TW31' must be the code of a finding"),
        ('format = "xml"', "pyproject.toml: format must be one of text, brief"),
    ],
)
def test_errors_in_values_are_reported_with_their_file(tilewright: Run, here: Path, line: str, said: str) -> None:
    write(here, f"[tool.tilewright]\n{line}\n")
    done = tilewright("check", "program.py", "none", 0)
    assert done.status == 2
    assert said in done.err


@pytest.fixture
def commands() -> dict[str, Any]:
    from tilewright.cli.app import program_command

    found: dict[str, Any] = program_command().commands
    return found


def test_every_example_of_help_parses(commands: dict[str, Any]) -> None:
    import shlex

    from tilewright.cli.app import COMMANDS

    assert {row.name for row in COMMANDS} == set(commands)
    for row in COMMANDS:
        assert row.examples
        for line, _ in row.examples:
            words = shlex.split(line.partition(" >")[0].removeprefix(">"))
            commands[row.name].make_context(row.name, [] if line.startswith(">") else words)


def test_help_fits_80_columns_and_shows_examples(
    tilewright: Run, commands: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ([], *([name] for name in commands)):
        lines = tilewright(*name, "--help").out.splitlines()
        assert max(map(len, lines)) <= 80
        at = next(number for number, line in enumerate(lines) if line.strip() == "Examples:")
        assert lines[at + 1].strip().startswith(" ".join(["$ tilewright", *name]))
        assert "..." not in "".join(line for line in lines if line.startswith("  ") and "$" not in line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(tilewright: Run, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    script = tilewright("--show-completion").out
    assert f"complete_{shell}" in script and "tilewright" in script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ch", {"check"}), ("check --fail-on ", {"error", "warning", "never"}), ("check --form", {"--format"}),
        ("check --format s", {"sarif"}), ("run --gpu a100", {"a100"}), ("ladder --device s", {"simulated"}),
        ("matmul a b --kernels til", {"tiled", "tiled_published"}),
    ],
)  # fmt: skip
def test_completions_for_a_shell(
    tilewright: Run, monkeypatch: pytest.MonkeyPatch, typed: str, offered: set[str]
) -> None:
    monkeypatch.setenv("_TILEWRIGHT_COMPLETE", "complete_bash")
    words = f"tilewright {typed}"
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setattr(sys, "argv", ["tilewright"])
    assert offered <= set(tilewright().out.split())
