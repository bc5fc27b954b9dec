"""Calls into LLVM: from many threads at the same time, and with Ctrl-C during a call."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tilewright.ground.native.calls import Calls, calls
from tilewright.ground.native.compiler import Compiler, compiler

ADD = "define i32 @add(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"


def test_one_call_at_a_time_and_never_on_the_main_thread() -> None:
    assert calls().run(lambda check: threading.current_thread()) is not threading.main_thread()
    at_work, most = [], []

    def work(check: object) -> None:
        at_work.append(1)
        time.sleep(0.002)
        most.append(len(at_work))
        at_work.pop()

    crew = [threading.Thread(target=calls().run, args=(work,)) for _ in range(8)]
    for thread in crew:
        thread.start()
    calls().run(work)
    for thread in crew:
        thread.join()
    assert most == [1] * 9


def test_an_error_comes_to_the_caller_without_llvms_objects() -> None:
    with pytest.raises(ValueError, match="expected") as error:
        compiler().compile("define nonsense")
    held = [frame.frame.f_locals for frame in error.traceback]
    assert not any("module" in names for names in held)
    assert compiler().compile(ADD)


def test_libraries_without_an_owner_are_unloaded_with_the_next_call() -> None:
    made = Compiler("")
    code = made.compile(ADD)
    kept = [made.link(code, ("add",)) for _ in range(3)]
    assert len(made._loaded) == 3
    del kept
    gc.collect()
    assert len(made._left) == 3
    library = made.link(code, ("add",))
    assert (len(made._loaded), len(made._left)) == (1, 0)
    del made  # the libraries hold a reference to it
    gc.collect()
    assert library.addresses["add"]


def test_sixteen_threads_load_their_own_libraries() -> None:
    code = compiler().compile(ADD)
    found: list[int] = []

    def work() -> None:
        kept = [compiler().link(code, ("add",)) for _ in range(20)]
        found.extend(library.addresses["add"] for library in kept)

    crew = [threading.Thread(target=work) for _ in range(16)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert len(found) == 320


def test_ctrl_c_ends_the_wait_immediately_and_the_work_at_its_next_step() -> None:
    made = Calls()
    steps = []

    def work(check: object) -> None:
        steps.append("first")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.5)
        assert callable(check)
        check()
        steps.append("second")

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        made.run(work)
    assert time.monotonic() - start < 1.2
    assert made.run(lambda check: steps[:]) == ["first"]  # it waits for the abandoned call


#: A module that LLVM compiles for seconds.
_LONG = """
import os, signal, sys, threading, time
from tilewright.ground.native.compiler import compiler
body = "".join(f"  %x{i + 1} = mul <32 x i64> %x{i}, %x{max(i - 7, 0)}\\n" for i in range(500))
text = f"define <32 x i64> @f(<32 x i64> %x0) {{\\n{body}  ret <32 x i64> %x500\\n}}\\n"
threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
"""


@pytest.mark.parametrize("seconds", ["0.2", "0.45"])
def test_a_process_that_ctrl_c_ends_waits_for_llvm(seconds: str) -> None:
    compiler()
    code = f"{_LONG}compiler()\nwhile True: compiler().compile(text)"
    done = subprocess.run([sys.executable, "-c", code, seconds], capture_output=True, text=True, check=False)
    assert done.returncode in (-signal.SIGINT, 130)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_a_daemon_thread_in_llvm_does_not_end_the_process_otherwise() -> None:
    code = f"""{_LONG.replace("threading.Timer", "0 and threading.Timer").replace(".start()", "")}
def work():
    while True: compiler().compile(text)
compiler()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code, "0"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")


def test_a_fork_waits_for_the_current_call(tmp_path: Path) -> None:
    code = f"""{_LONG.replace("threading.Timer", "0 and threading.Timer").replace(".start()", "")}
compiler()
crew = threading.Thread(target=compiler().compile, args=(text,))
crew.start()
time.sleep(0.2)
child = os.fork()
if child == 0:
    os._exit(len(compiler().compile({ADD!r})) > 100)
status = os.waitpid(child, 0)[1]
crew.join()
sys.exit(os.waitstatus_to_exitcode(status) + 40)
"""
    done = subprocess.run([sys.executable, "-c", code, "0"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (41, "")
