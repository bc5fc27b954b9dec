"""Kernels that LLVM compiles for long: a process apart compiles them, and Ctrl-C ends it at once."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from tilewright.errors import CompileError, PtxError
from tilewright.ground.native import out_of_process, secure_files, store
from tilewright.simulate.hosts import HostVectors
from tilewright.simulate.run import compiler
from tilewright.simulate.run.compiler import Host, host

TEXT = "define i32 @f(i32 %x) {\n  %y = mul i32 %x, 2\n  ret i32 %y\n}\n"


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes that are started, now that all kernels count as long."""
    monkeypatch.setattr(compiler, "_LONG_COST", 0)
    words: list[list[str]] = []
    begin = out_of_process._Running.begin
    monkeypatch.setattr(out_of_process._Running, "begin", lambda self, given: words.append(given) or begin(self, given))
    return words


@pytest.mark.parametrize("optimise", [False, True])
def test_the_code_is_the_same(began: list[list[str]], monkeypatch: pytest.MonkeyPatch, optimise: bool) -> None:
    long = host().compile_kernel(TEXT, (), "f", optimise=optimise)
    assert len(began) == 1
    monkeypatch.undo()
    assert host().compile_kernel(TEXT, (), "f", optimise=optimise) == long
    assert len(began) == 1


def test_narrow_hosts_and_optimised_code_are_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest text that counts as long: half as many registers, a quarter of the text."""
    made = Host(folder=store.room(secure_files.TRANSLATIONS))
    lengths: dict[tuple[bool, bool, bool], int] = {}
    asked: list[str] = []
    monkeypatch.setattr(compiler, "compiled_apart", lambda _, ir, *given, **named: asked.append(ir))
    monkeypatch.setattr(Host, "compile", lambda self, ir, *given, **named: None)
    for vectors in (HostVectors(True, True), HostVectors(False, True), HostVectors(False, False)):
        made._text_cost = vectors.registers**2
        for optimise in (False, True):
            for size in (1 << power for power in range(24)):
                made.compile_kernel(" " * size, (), "f", optimise=optimise)
            lengths[vectors.mask_registers, vectors.masked_stores, optimise] = min(map(len, asked))
            asked.clear()
    assert list(lengths.values()) == [1 << power for power in (21, 19, 19, 17, 17, 15)]


def test_ctrl_c_ends_a_long_compilation(began: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    made = host()
    with monkeypatch.context() as patch:
        patch.setattr(out_of_process, "_MAIN", "import time; time.sleep(30)")

        main = threading.get_ident()

        def strike() -> None:
            while not out_of_process._running().processes:
                time.sleep(0.01)
            time.sleep(0.1)
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=strike)
        thread.start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            made.compile_kernel(TEXT, (), "f")
        thread.join()
    assert time.monotonic() - start < 20
    assert not out_of_process._running().processes
    assert made.compile_kernel(TEXT, (), "f")  # the next one is compiled


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", CompileError, r"needs more than this host's memory \(signal 9 ended"),
        ("import os; os.kill(os.getpid(), 11)", CompileError, r"ended the compiler \(signal 11 ended the"),
        ("raise SystemExit(1)", PtxError, "operands that cannot be compiled"),  # as for the text's own fault
    ],
)
def test_a_compiler_that_ends_early_is_an_error(
    began: list[list[str]], monkeypatch: pytest.MonkeyPatch, program: str, error: type[Exception], message: str
) -> None:
    made: Any = host()
    monkeypatch.setattr(out_of_process, "_MAIN", program)
    with pytest.raises(error, match=message):
        made.compile_kernel("no text of LLVM", (), "f")
