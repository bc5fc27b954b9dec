"""Errors and Ctrl-C while a kernel's machine code calls Python: the launch raises them, and they are no finding."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.observe.instruments.shadow import orders
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.programs import Program
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.run import execution
from tilewright.simulate.run.diagnosis import Diagnosis

#: Warp 0 writes x, and sets a flag after a fence; warp 1 of another block waits for it and reads x.
FLAG = """.version 8.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 p) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %ctaid.x;
  setp.ne.u32 %p, %r1, 0;
  @%p bra READ;
  st.global.u32 [%rd1], 7;
  membar.gl;
  atom.global.exch.b32 %r2, [%rd1+4], 1;
  ret;
READ:
  ld.volatile.global.u32 %r2, [%rd1+4];
  setp.eq.u32 %p, %r2, 0;
  @%p bra READ;
  membar.gl;
  ld.global.u32 %r3, [%rd1];
  st.global.u32 [%rd1+8], %r3;
  ret;
}
"""


def launch(threads: int = 1) -> tuple[Any, Any]:
    x = np.zeros(3, np.int32)
    program = Program.from_ptx(FLAG)
    run = tw.simt.launch(
        program, 2, 1, (x,), instruments=[MemoryCheck(program.module)], limits=Limits(threads=threads, seconds=20)
    )
    return x, run.results["memory"].findings


def test_a_flag_after_a_fence_orders() -> None:
    x, findings = launch()
    assert (x.tolist(), findings) == ([7, 1, 7], ())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "error", [MemoryError("no room"), KeyboardInterrupt(), ZeroDivisionError("1 / 0"), SystemExit(3)]
)
@pytest.mark.parametrize("what", [orders.ASK, orders.ACCESS, orders.FENCE])
def test_the_launch_raises_the_error_of_a_callback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, what: int, threads: int
) -> None:
    real = orders.Orders.call

    def call(self: orders.Orders, *event: int) -> int:
        if event[0] == what:
            raise error
        return real(self, *event)

    monkeypatch.setattr(orders.Orders, "call", call)
    with pytest.raises(type(error)):
        launch(threads)
    assert capfd.readouterr() == ("", "")
    monkeypatch.undo()
    assert launch(threads)[1] == ()


def test_machine_code_that_calls_python_runs_without_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = orders.Orders.call, set()

    def call(self: orders.Orders, *event: int) -> int:
        seen.add(threading.current_thread())
        return real(self, *event)

    monkeypatch.setattr(orders.Orders, "call", call)
    launch()
    assert seen and threading.main_thread() not in seen


def test_ctrl_c_in_a_callback_is_neither_lost_nor_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    real = orders.Orders.call

    def call(self: orders.Orders, *event: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return real(self, *event)

    monkeypatch.setattr(orders.Orders, "call", call)
    with pytest.raises(KeyboardInterrupt):
        launch()


def test_an_interrupt_is_not_lost_after_a_kernels_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel failed, and Ctrl-C came before the error was reported."""
    real = Diagnosis.fault

    def error(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return real(*arguments)

    monkeypatch.setattr(Diagnosis, "fault", error)
    program = Program.from_ptx(FLAG.replace("atom.global.exch.b32 %r2, [%rd1+4], 1;", "trap;"))
    with pytest.raises(KeyboardInterrupt):
        tw.simt.launch(program, 1, 1, (np.zeros(3, np.int32),))


def test_ctrl_c_while_threads_are_started_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come between a thread's start and its record; memory that the thread uses must not be freed."""
    real, started = execution.start_worker, []

    def start(work: Any) -> Any:
        ended = threading.Event()
        started.append(ended)

        def noted() -> None:
            work()
            time.sleep(0.02)
            ended.set()

        found = real(noted)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return found

    monkeypatch.setattr(execution, "start_worker", start)
    endless = Program.from_ptx(FLAG.replace("st.global.u32 [%rd1], 7;", "bra READ;"))
    with pytest.raises(KeyboardInterrupt):
        tw.simt.launch(endless, 64, 1, (np.zeros(3, np.int32),), limits=Limits(threads=3))
    time.sleep(0.05)
    assert len(started) == 3
    assert all(ended.is_set() for ended in started)


def test_a_programs_own_handler_is_called_while_a_kernel_runs() -> None:
    code = f"""
import os, signal, threading, time
import numpy as np
import tilewright as tw
from tilewright.simulate.launch_request import Limits
from tilewright.errors import LimitError
calls = []
signal.signal(signal.SIGINT, lambda *_: calls.append(time.monotonic()))
endless = tw.programs.Program.from_ptx({FLAG.replace("st.global.u32 [%rd1], 7;", "bra READ;")!r})
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    tw.simt.launch(endless, 64, 1, (np.zeros(3, np.int32),), limits=Limits(seconds=2.5))
except LimitError:
    print(len(calls), time.monotonic() - calls[0] > 0.5)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("1 True\n", "")
