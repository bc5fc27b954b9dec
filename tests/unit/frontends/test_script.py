"""Programs run as the interpreter runs them, from Python, the command line and pytest."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.frontends.script import run_program
from tilewright.frontends.target import Target

PROGRAM = """
    import sys
    import numpy as np
    from numba import cuda
    import beside

    @cuda.jit
    def fill(x, at):
        x[cuda.grid(1) + at] = 1

    if __name__ == "__main__":
        x = cuda.to_device(np.zeros(32))
        fill[1, 32](x, int(sys.argv[1]))
        print(sys.argv[1:], beside.NAME, cuda.get_current_device().name, int(x.copy_to_host().sum()))
        sys.exit(int(sys.argv[2]))
"""
#: Hypothesis's plugin takes a second to import.
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    return file


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tilewright", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_command_passes_on_arguments_output_and_status(program: Path) -> None:
    done = run("run", "--gpu", "a100", program, "0", "7", "--gpu", "-h")
    assert done.returncode == 7
    assert done.stdout == "['0', '7', '--gpu', '-h'] beside NVIDIA A100 SXM4 80GB 32\n"


def test_a_traceback_is_the_program_s_own(program: Path) -> None:
    done = run("run", program, "100000", "0")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].strip().startswith(f'File "{program}", line 13')
    assert "[700] CUDA_ERROR_ILLEGAL_ADDRESS: fill: out of bounds global store" in lines[-1]
    assert f"{program}:9" in lines[-1]


def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    done = run("run", tmp_path / "nothing.py")
    assert done.returncode == 2
    assert "SCRIPT must be a file that is there" in " ".join(done.stderr.split())


def test_processes_of_the_program_have_a_gpu_too(tmp_path: Path) -> None:
    file = tmp_path / "parent.py"
    file.write_text(
        "import subprocess, sys\n"
        "code = 'from numba import cuda; print(cuda.is_available(), cuda.get_current_device().name)'\n"
        "sys.exit(subprocess.run([sys.executable, '-c', code]).returncode)\n"
    )
    done = run("run", "--gpu", "v100", file)
    assert (done.returncode, done.stdout.split()[0]) == (0, "True")
    assert "V100" in done.stdout


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("x = 1", 0),
        ("import sys; sys.exit()", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('bad')", 1),
        ("1/0", 1),
    ],
)
def test_exit_statuses(tmp_path: Path, text: str, status: int, capsys: Any) -> None:
    file = tmp_path / "small.py"
    file.write_text(text)
    before = sys.argv, list(sys.path), sys.modules["__main__"], sys.excepthook
    ended = run_program(Target(str(file)), ["a"])
    assert (ended.status, type(ended.error)) == (status, ZeroDivisionError if text == "1/0" else type(None))
    assert (sys.argv, sys.path, sys.modules["__main__"], sys.excepthook) == before
    assert ("bad" in capsys.readouterr().err) == ("bad" in text)


def test_a_program_s_own_hook_reports_what_ended_it(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "hooked.py"
    file.write_text(
        "import sys\nsys.excepthook = lambda kind, error, frames: print('mine', error, frames.tb_lineno)\n1/0\n"
    )
    ended = run_program(Target(str(file)))
    assert capsys.readouterr() == ("", "")
    ended.report()
    assert capsys.readouterr() == ("mine division by zero 3\n", "")


#: A kernel's lines, one of them wrong -> the last lines of the report.
WRONG_KERNELS = {
    "    x[0] = foo(n)": ["NameError: name 'foo' is not defined", 'in kernel k: File "{file}", line 5:'],
    "    y = 'text' + n\n    x[0] = 1": ["No implementation of function", 'in kernel k: File "{file}", line 5:'],
    "    x[0] = 1\n    x[1] = x.nothing": ["Unknown attribute 'nothing'", 'wrong.py", line 6:'],
    "    with n as y:\n        x[0] = y": ["construct is not supported", 'in kernel k: File "{file}", line '],
}


@pytest.mark.parametrize("lines", WRONG_KERNELS)
def test_a_kernel_that_does_not_compile_is_reported_once_with_its_line(
    tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        f"import numpy as np\nfrom numba import cuda\n@cuda.jit\ndef k(x, n):\n{lines}\nk[1, 32](np.zeros(32), 3)\n"
    )
    with tw.simulated_gpu():
        ended = run_program(Target(str(file)))
        ended.report()
    shown = capsys.readouterr().err
    launch = 5 + len(lines.splitlines())
    assert shown.count("Traceback") == 1
    assert [line for line in shown.splitlines() if line.startswith("  File")] == [
        f'  File "{file}", line {launch}, in <module>'
    ]
    for part in WRONG_KERNELS[lines]:
        assert part.format(file=file) in shown
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")  # the exception still has all of its frames
    with tw.simulated_gpu():
        run_program(Target(str(file))).report()
    shown = capsys.readouterr().err
    assert shown.count("Traceback") == 1
    assert "compiler.py" in shown


def test_the_frames_of_other_libraries_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "json_fails.py"
    file.write_text(
        "import json\ntry:\n    json.loads('{')\nexcept ValueError as error:\n    raise KeyError from error\n"
    )
    run_program(Target(str(file))).report()
    shown = capsys.readouterr().err
    assert shown.count("Traceback") == 2
    assert "decoder.py" in shown


def test_threads_of_the_program_are_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "threads.py"
    file.write_text(
        "import threading, time, sys\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), open(sys.argv[1], 'w').write('done'))).start()\n"
    )
    run_program(Target(str(file)), [str(tmp_path / "out")])
    assert (tmp_path / "out").read_text() == "done"


def test_threads_of_others_are_not_waited_for(tmp_path: Path) -> None:
    """The pools of Dask and zarr in the calling process never end."""
    file, over = tmp_path / "nothing.py", threading.Event()
    file.write_text("")
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        caller = threading.Thread(target=run_program, args=(Target(str(file)), []), daemon=True)
        caller.start()
        caller.join(20)
        assert not caller.is_alive()
    finally:
        over.set()


@pytest.mark.parametrize(("option", "found"), [("--simulated-gpu=a100", "A100"), ("--simulated-gpu", "H100")])
def test_pytest_s_option(tmp_path: Path, option: str, found: str) -> None:
    (tmp_path / "test_it.py").write_text(
        f"from numba import cuda\ndef test_it():\n    assert {found!r} in cuda.get_current_device().name\n"
    )
    command = [*PYTEST, "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path), option]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert f"simulated GPU: NVIDIA {found}" in done.stdout


def test_pytest_s_option_refuses_unknown_gpus(tmp_path: Path) -> None:
    command = [*PYTEST, str(tmp_path), "--simulated-gpu=voodoo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 4
    assert "--simulated-gpu: a GPU must be one of v100" in done.stderr
    assert "put the option after the files" not in done.stderr


@pytest.mark.parametrize("taken", ["test_it.py", "test_it.py::test_it"])
def test_pytest_s_option_that_took_a_file_as_its_name_reports_it(tmp_path: Path, taken: str) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    command = [*PYTEST, "--simulated-gpu", taken]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 4
    assert "write --simulated-gpu=NAME, or put the option after the files" in done.stderr


def test_the_script_sees_the_gpu_in_place(program: Path, capsys: Any) -> None:
    with tw.simulated_gpu("a100") as gpu:
        assert run_program(Target(str(program)), ["0", "0"]).status == 0
        assert gpu.launches == 1
    assert "A100" in capsys.readouterr().out
