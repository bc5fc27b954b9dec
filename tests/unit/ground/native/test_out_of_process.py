"""The compiler's own process: it makes the same machine code as this process, and delays nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tilewright.ground.native import out_of_process
from tilewright.ground.native.compiler import Compiler, compiler

TEXT = """
declare i32 @tw_twice(i32)
define i32 @f(i32 %x) {
  %y = call i32 @tw_twice(i32 %x)
  ret i32 %y
}"""
PART = """
define i32 @tw_twice(i32 %x) {
  %y = mul i32 %x, 2
  ret i32 %y
}"""
#: A process that starts a compiler that never ends, and prints the compiler's id.
WAITING = """
import signal, sys, threading, time
from tilewright.ground.native import out_of_process as apart
from tilewright.ground.native.compiler import compiler
came = []
signal.signal(signal.SIGINT, lambda *_: came.append(1))
apart._MAIN = "import time; time.sleep(300)"
def make():
    apart.compiled_apart(compiler(), "", (), ())
compiler()
threading.Thread(target=make, daemon=True).start()
while not apart._running().processes:
    time.sleep(0.01)
print(*(process.pid for process in apart._running().processes), flush=True)
"""
FORKED = """
import os
if os.fork() == 0:
    sys.exit()
os.wait()
"""
STRUCK = """
while not came:
    time.sleep(0.01)
time.sleep(0.5)
"""
STATUS = """
print(*(process.poll() for process in apart._running().processes), flush=True)
"""


@pytest.mark.parametrize("features", [None, "+sse2"], ids=["own", "narrow"])
def test_the_code_is_the_same(features: str | None) -> None:
    made = compiler() if features is None else Compiler(features)
    assert out_of_process.compiled_apart(made, TEXT, (PART,), ("f",)) == made.compile(TEXT, (PART,), exports=("f",))


@pytest.mark.parametrize("name", ["json", "pickle", "subprocess"])
def test_modules_of_the_working_folder_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Anyone may own that folder; modules that a process imported while it was elsewhere do not count either."""
    (tmp_path / f"{name}.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", tmp_path, *(place for place in sys.path if place)])
    assert out_of_process.compiled_apart(compiler(), TEXT, (PART,), ("f",))


def test_code_is_made_here_if_python_cannot_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program that embeds Python, `sys.executable` is that program, or empty."""
    monkeypatch.setattr(subprocess, "Popen", None)
    for name in ("", "/usr/bin/modeller"):
        monkeypatch.setattr(sys, "executable", name)
        assert out_of_process.compiled_apart(compiler(), TEXT, (PART,), ("f",))


def test_code_is_made_here_if_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    here = compiler()
    assert out_of_process.compiled_apart(here, TEXT, (PART,), ("f",)) == here.compile(TEXT, (PART,), exports=("f",))


def test_a_process_that_ends_early_is_an_error() -> None:
    with pytest.raises(OSError, match="ended early"):
        out_of_process.compiled_apart(compiler(), "no text of LLVM", (), ("f",))


def is_there(process: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(process: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(500):
        if not is_there(process):
            return True
        time.sleep(0.01)
    return False


def test_a_process_ends_without_waiting_and_ends_the_compiler_too() -> None:
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True, check=True, timeout=100)
    assert time.monotonic() - start < 60
    assert gone(int(done.stdout))


def test_a_forked_child_that_ends_leaves_the_compiler_running() -> None:
    script = f"{WAITING}{FORKED}{STATUS}"
    words = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=100)
    assert done.stdout.split()[1] == "None"


def test_a_fork_waits_until_a_compiler_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the forked child would hold the pipes open, and their reader would wait for its end."""
    starts, started, popen = threading.Event(), threading.Event(), subprocess.Popen

    def slow(*given: Any, **named: Any) -> Any:
        starts.set()
        time.sleep(0.5)
        process = popen(*given, **named)
        started.set()
        return process

    monkeypatch.setattr(subprocess, "Popen", slow)
    thread = threading.Thread(target=out_of_process.compiled_apart, args=(compiler(), TEXT, (PART,), ("f",)))
    thread.start()
    assert starts.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if started.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join(60)
    assert not thread.is_alive()


def test_no_compiler_starts_when_the_process_ends() -> None:
    script = (
        "from tilewright.ground.native import out_of_process\n"
        "running = out_of_process._running()\nrunning.end_all()\nrunning.begin(['true'])"
    )
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, check=False, timeout=100)
    assert "ChildProcessError: this process is ending" in done.stderr


def test_ctrl_c_of_the_terminal_does_not_reach_the_compiler() -> None:
    """A terminal sends Ctrl-C to all processes of one group."""
    words = [sys.executable, "-c", f"{WAITING}{STRUCK}{STATUS}"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    made = int(process.stdout.readline())
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=100)[0].split() == ["None"]
    assert gone(made)
