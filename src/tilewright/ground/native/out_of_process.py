"""Compiles machine code in another process: code that no launch waits for, and code that takes long to compile.

LLVM compiles one module at a time in a process and cannot be interrupted (`calls`). In this process it would delay all
other compilations, forks and the end. The other process ends when this one does; if a signal ends this process, the
other one ends after its current work. Ctrl-C in the terminal does not reach it, but if Ctrl-C ends the wait for its
work, the process ends too.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable
from pathlib import Path

from tilewright.ground.forking import wait_for
from tilewright.ground.native.compiler import Compiler, Effort, Source
from tilewright.ground.native.memo import memo

#: Yields to whatever else runs.
_NICE = 10
_MAIN = """\
import importlib, json, sys
sys.path += json.loads(sys.argv[1])
importlib.import_module(sys.argv[2]).main()
"""


class KilledError(ChildProcessError):
    """A signal ended the process."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number} ended the compiler's process early")
        self.signal = number  #: SIGKILL is mostly the host's way to get memory back.


def compiled_apart(
    compiler: Compiler,
    ir: Source,
    parts: Iterable[Source],
    exports: Collection[str],
    *,
    effort: Effort | None = None,
    nice: int = _NICE,
) -> bytes:
    """The result of :meth:`Compiler.compile` for the same arguments; `nice` is how far the process yields to others.

    It is made here if this process is no Python interpreter that could be started again, or if the system starts no
    process.

    Raises ChildProcessError: the process ended early, or this one is ending.
    """
    work = pickle.dumps((compiler.given, ir, tuple(parts), tuple(exports), effort, nice))
    try:
        process = begun(__name__)
    except ChildProcessError:
        raise
    except OSError:
        return compiler.compile(ir, parts, exports=exports, effort=effort)
    try:
        code, _ = process.communicate(len(work).to_bytes(8, "little") + work)
    finally:
        end(process)
    if process.returncode < 0:
        raise KilledError(-process.returncode)
    if process.returncode or not code:
        raise ChildProcessError(f"the compiler's process ended early, with status {process.returncode}")
    return code


def begun(module: str, *words: str, packages: bool = False) -> subprocess.Popen[bytes]:
    """Start a process that runs `main` of a module of ours; its words are in `sys.argv[3:]`.

    With `packages` the interpreter knows its environment, as libraries need that look for files of other packages.

    Raises ChildProcessError: this process is ending. OSError: this is no Python interpreter that could start again, or
    the system starts none: a limit, a filter of calls, an interpreter that is gone.
    """
    if not Path(sys.executable or "").name.startswith("python"):
        raise FileNotFoundError("the program of this process is no Python interpreter")
    flags = [*_flags(), *([] if packages else ["-S"])]
    return _running().begin([sys.executable, *flags, "-c", _MAIN, json.dumps(_places()), module, *words])


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, where it has not ended."""
    _running().end(process)


def _flags() -> list[str]:
    """The interpreter's flags: it must import nothing from the working folder, which may be anybody's."""
    return ["-P", "-E"] if sys.flags.ignore_environment else ["-P"]


def _places() -> list[str]:
    """The folders of modules after the standard library's, which no file of the same name may replace.

    Relative places are left out: the working folder may be another than at this process's own imports.
    """
    own = [place for place in sys.path if isinstance(place, str) and Path(place).is_absolute()]
    return [str(Path(__file__).parents[3]), *own]


def main() -> None:
    """The process's work: a length and so many bytes come in, machine code goes out.

    The end of what comes in is not waited for: a process that was forked meanwhile may hold it open.
    """
    work = sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "little"))
    given, ir, parts, exports, effort, nice = pickle.loads(work)
    with contextlib.suppress(OSError):
        os.nice(nice)
    code = Compiler(given).compile(ir, parts, exports=exports, effort=effort)
    with contextlib.suppress(BrokenPipeError), os.fdopen(1, "wb") as out:  # where nobody is there any more
        out.write(code)


class _Running:
    """Processes at work, which end with the one that started them."""

    def __init__(self) -> None:
        self.processes: set[subprocess.Popen[bytes]] = set()
        self._starting, self._ended = threading.Lock(), False
        atexit.register(self.end_all)
        # A child that is forked while one starts would hold its pipes open, and nobody would see their end.
        wait_for(self._starting)

    def begin(self, words: list[str]) -> subprocess.Popen[bytes]:
        """Start one."""
        with self._starting:
            if self._ended:
                raise ChildProcessError("this process is ending")
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0
            )
            self.processes.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End one, where it has not ended; in a child that was forked meanwhile, `kill` finds none of its own."""
        self.processes.discard(process)
        process.kill()

    def end_all(self) -> None:
        """End all, and start no more."""
        with self._starting:
            self._ended = True
        for process in list(self.processes):
            self.end(process)


@memo
def _running() -> _Running:
    """The process's one."""
    return _Running()
