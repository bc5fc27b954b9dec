"""`tilewright check`: programs run to their end, and findings in their kernels are reported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.observe.instruments.findings import codes
from tilewright.simulate import launch_request

Run = Callable[..., Any]

PROGRAM = """\
import sys
import numpy as np
from numba import cuda

@cuda.jit
def total(x, out):
    i = cuda.grid(1)
    if i < out.size:
        sum = 0.0
        for j in range(4):
            sum += x[i + j]{comment}
        out[i] = sum

@cuda.jit
def past_the_end(x):
    x[cuda.grid(1)] = 1

x = cuda.to_device(np.ones(36, np.float32))
out = cuda.device_array(32, np.float32)
total[1, 32](x, out)
print("arguments", sys.argv[1:])
{rest}
"""


#: A kernel whose loop does not end.
ENDLESS = """
import numpy as np
from numba import cuda
@cuda.jit
def spin(flag):
    while flag[0] == 0:
        flag[1] += 1
try:
    spin[1, 1](cuda.to_device(np.zeros(2, np.int32)))
except cuda.cudadrv.driver.CudaAPIError as error:
    print(error)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write the program into an empty folder and go there."""
    monkeypatch.chdir(tmp_path)
    numbers = iter(range(99))

    def write(rest: str = "", comment: str = "") -> str:
        name = f"program{next(numbers)}.py"  # Python caches lines of files by name
        (tmp_path / name).write_text(PROGRAM.format(rest=rest, comment=comment))
        return name

    return write


def test_findings_are_reported_after_what_the_program_prints(tilewright: Run, program: Any) -> None:
    name = program()
    done = tilewright("check", name, "--ours", "no")
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[0] == "arguments ['--ours', 'no']"
    assert lines[1] == "TW601 warning: float64 arithmetic in a kernel of float32 arrays"
    assert f"{name}:11  kernel total" in lines[2]
    assert lines[-1] == "1 finding (1 warning) in 1 launch of 1 kernel"


def test_check_has_a_limit_for_kernels_that_never_end(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_request, "DEFAULT_SECONDS", 0.3)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endless.py").write_text(ENDLESS)
    done = tilewright("check", "endless.py")
    said = done.out + done.err
    assert "spin: passed its limit of 0.3 seconds in block (0, 0, 0), thread (0, 0, 0), at" in said
    assert "endless.py:6; a loop may never end, or needs a higher limit, by --limit SECONDS, or `limit` in" in said
    done = tilewright("check", "--limit", "0.2", "endless.py")
    assert "passed its limit of 0.2 seconds" in done.out + done.err
    assert "by --limit" not in done.out + done.err


def test_a_program_that_fails_without_findings_has_its_own_status(tilewright: Run, program: Any) -> None:
    done = tilewright("check", "--ignore", "TW601", program("sys.exit(7)"))
    assert done.status == 3
    assert done.err.splitlines()[-1] == "note: the program itself ended with status 7"
    assert done.out.splitlines()[-1] == "no findings, 1 suppressed, in 1 launch of 1 kernel"
    quiet = program(comment="  # tilewright: ignore[TW601]")
    assert tilewright("check", quiet).status == 0
    done = tilewright("check", "--verbose", "--ignore", "TW301", quiet)
    assert f"suppressed: TW601 at {Path(quiet).resolve()}:11" in done.out or f"TW601 at {quiet}:11" in done.out
    assert "suppression without use: --ignore TW301" in done.out


#: A program that searches for the largest block of a kernel, and uses it.
PROBING = """
from numba.cuda.cudadrv.driver import CudaAPIError
for threads in (2048, 1024):
    try:
        past_the_end[1, threads](cuda.to_device(np.ones(1024, np.float32)))
        print("chose", threads)
    except CudaAPIError as error:
        print("tried", threads, error.code.name)
"""


def test_a_program_that_tries_launches_takes_the_same_path_as_without(tilewright: Run, program: Any) -> None:
    name = program(PROBING)
    without = tilewright("run", name)
    done = tilewright("check", "--ignore", "TW601", name)
    assert done.status == 1
    assert done.out.startswith(without.out)
    assert without.out.splitlines()[1:] == ["tried 2048 CUDA_ERROR_INVALID_VALUE", "chose 1024"]
    assert {line[:5] for line in done.out.splitlines() if line[:2] == "TW"} == {"TW502"}
    assert done.out.splitlines()[-1].endswith("in 3 launches of 2 kernels")


def test_a_program_ends_where_it_does_without_check(
    tilewright: Run, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(sys, "__excepthook__", lambda *error: shown.append(error))
    name = program("past_the_end[1 << 20, 64](x)\nprint('the end')")
    done = tilewright("check", name)
    assert done.status == 1
    assert "the end" not in done.out
    assert {line[:5] for line in done.out.splitlines() if line[:2] == "TW"} == {"TW101", "TW601"}
    tilewright("run", name)
    checked, without = [str(error).partition(" in block ")[0].partition(" at address ")[0] for _, error, _ in shown]
    assert checked == without
    assert "CUDA_ERROR_ILLEGAL_ADDRESS: past_the_end: out of bounds global store of 4 bytes" in without


def test_the_error_that_ends_the_program_is_reported_after_the_findings(
    tilewright: Run, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(sys, "__excepthook__", lambda *error: shown.append(error))
    done = tilewright("check", program("raise ValueError('mine')"))
    assert done.status == 1
    assert "TW601" in done.out
    assert [(kind, str(error)) for kind, error, _ in shown] == [(ValueError, "mine")]
    done = tilewright("check", "--ignore", "TW601", program("raise ValueError('mine')"))
    assert (done.status, len(shown)) == (3, 2)


def test_json_is_the_only_output(tilewright: Run, program: Any) -> None:
    name = program()
    done = tilewright("check", "--json", name)
    document = json.loads(done.out)
    assert done.status == 1
    assert "arguments []" in done.err
    assert [(row["code"], row["line"], row["kernel"]) for row in document["findings"]] == [("TW601", 11, "total")]
    assert (document["launches"], document["kernels"]) == (1, ["total"])
    assert document["program"] == {"status": 0, "interrupted": False, "children_launched": False, "exception": None}


def test_json_has_the_error_that_ended_the_program(
    tilewright: Run, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "__excepthook__", lambda *_: None)
    name = program("raise KeyError('mine')")
    done = tilewright("check", "--json", "--ignore", "TW601", name)
    line = next(n for n, text in enumerate(Path(name).read_text().splitlines(), 1) if text.startswith("raise"))
    where = {"file": str(Path(name).absolute()), "line": line}
    assert done.status == 3
    assert json.loads(done.out)["program"] == {
        "status": 1, "interrupted": False, "children_launched": False,
        "exception": {"type": "KeyError", "message": "'mine'", **where},
    }  # fmt: skip
    done = tilewright("check", "--json", "--ignore", "TW601", program("sys.exit('bad data')"))
    assert (done.status, json.loads(done.out)["program"]["status"]) == (3, 1)
    assert "bad data" in done.err


def test_a_program_in_a_folder_of_our_names_has_its_launches_reported(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tilewright" / "numba"
    folder.mkdir(parents=True)
    (folder / "launches.py").write_text(PROGRAM.format(rest="total[1, 2048](x, out)", comment=""))
    monkeypatch.chdir(folder)
    (folder / "program.py").write_text("import launches\n")
    monkeypatch.setattr(sys, "__excepthook__", lambda *_: None)
    done = tilewright("check", "--format", "brief", "--ignore", "TW601", "program.py")
    assert done.status == 1
    line = len(PROGRAM.splitlines())
    assert f"launches.py:{line}: TW502 error: a block has 2,048 threads" in done.out


def test_sarif_goes_to_a_file_or_alone_to_the_output(tilewright: Run, program: Any, tmp_path: Path) -> None:
    name = program()
    done = tilewright("check", "--format=sarif=found.sarif", name)
    log = json.loads((tmp_path / "found.sarif").read_text())
    (result,) = log["runs"][0]["results"]
    assert result["ruleId"] == "TW601"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == name
    assert "1 finding" in done.out
    assert json.loads(tilewright("check", "--format", "sarif", name).out) == log


def test_codes_are_listed(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # in fewer columns a row takes two lines with the same beginning
    done = tilewright("check", "--codes")
    assert done.status == 0
    assert [line[:5] for line in done.out.splitlines() if line[:2] == "TW"] == list(codes())
    assert list(json.loads(tilewright("check", "--codes", "--json").out)["codes"]) == list(codes())
    monkeypatch.delenv("COLUMNS")
    assert max(map(len, tilewright("check", "--codes").out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "SCRIPT must name a Python program"),
        (("missing.py",), "missing.py"),
        (("--ignore", "TW601,tw301", "x.py"), "--ignore: 'tw301' must be the code of a finding; did you mean TW301?"),
        (("--format", "sarif=no/folder/x", "x.py"), "--format sarif=FILE must name a file in a folder that exists"),
        (("--format", "sarif=", "x.py"), "--format sarif=FILE must name a file in a folder that exists"),
        (("--format", "xml", "x.py"), "--format must be one of text, brief, json, sarif, github (got 'xml')"),
        (("--format", "text", "--json", "x.py"), "--format text and json must not all go to standard output"),
        (("--fail-on", "note", "x.py"), "--fail-on must be one of error, warning, never (got 'note')"),
        (("--ignore", "", "x.py"), "--ignore must name at least one (got '')"),
        (("--gpu", "nothing", "x.py"), "h100"),
        (("--seed", "x", "x.py"), "--seed must be a whole number"),
    ],
)
def test_wrong_use(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.py").touch()
    done = tilewright("check", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err


def test_a_comment_with_an_unknown_code_is_reported_and_the_check_continues(tilewright: Run, program: Any) -> None:
    name = program(comment="  # tilewright: ignore[TW6]")
    done = tilewright("check", "--json", name)
    (warning,) = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert f"{name}:11: the comment `tilewright: ignore[...]` must name codes of findings" in warning
    assert "(got 'TW6'); name one, such as ignore[TW6" in warning
    document = json.loads(done.out)
    assert done.status == 1
    assert [row["code"] for row in document["findings"]] == ["TW601"]
    assert [f"warning: {text}" for text in document["wrong_suppressions"]] == [warning]


ONE_VALUE = """\
import numpy as np
from numba import cuda

@cuda.jit
def set_flag(flag):
    flag[0] = 1

set_flag[2, 32](np.zeros(1, np.int32))
"""


@pytest.mark.parametrize("format", ["text", "brief"])
def test_what_strict_would_add_is_counted_in_a_line_and_changes_no_status(
    tilewright: Run, tmp_path: Path, format: str
) -> None:
    program = tmp_path / "flag.py"
    program.write_text(ONE_VALUE)
    done = tilewright("check", "--format", format, program)
    assert done.status == 0
    assert done.out == "1 more with --strict: TW312 (like TW303)\nno findings in 1 launch of 1 kernel\n"
    done = tilewright("check", "--strict", "--format", format, program)
    assert done.status == 1
    assert "TW312 warning" in done.out and "1 finding (1 warning)" in done.out and "more with" not in done.out
    assert tilewright("check", "--strict", "--fail-on", "error", program).status == 0
    program.write_text(ONE_VALUE.replace("= 1", "= 1  # tilewright: ignore[TW312]"))
    assert (
        tilewright("check", "--format", format, program).out == "no findings, 1 suppressed, in 1 launch of 1 kernel\n"
    )


def test_documents_say_what_strict_would_add(tilewright: Run, tmp_path: Path) -> None:
    program, folder = tmp_path / "flag.py", tmp_path
    program.write_text(ONE_VALUE)
    files = [word for form in ("json", "sarif", "github") for word in ("--format", f"{form}={folder / form}")]
    for options, held in (((), 1), (("--strict",), 0)):
        for name in ("json", "sarif", "github"):
            (folder / name).unlink(missing_ok=True)
        assert tilewright("check", *options, *files, program).status == 1 - held
        document, log = (json.loads((folder / name).read_text()) for name in ("json", "sarif"))
        assert [one["code"] for one in document["held"]] == ["TW312"] * held
        assert "TW312" in document["codes"]
        notices = log["runs"][0]["invocations"][0].get("toolExecutionNotifications", [])
        assert [one["message"]["text"] for one in notices] == ["1 more with --strict: TW312 (like TW303)"] * held
        said = "::notice title=Tilewright::1 more with --strict: TW312 (like TW303)"
        assert (said in (folder / "github").read_text()) is bool(held)


def test_a_file_that_cannot_be_written_is_reported(tilewright: Run, program: Any, tmp_path: Path) -> None:
    done = tilewright("check", "--format", f"sarif={tmp_path}", program())
    assert done.status == 2
    assert "the output must be a file (got a folder)" in done.err
