"""Runs a Python program as the interpreter would, inside this process."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tilewright.frontends import target
from tilewright.frontends.frontend import frontends
from tilewright.frontends.target import NoProgramError, Target
from tilewright.ground import installation
from tilewright.ground.lazy_exports import up_to_others
from tilewright.ground.native.interrupts import hidden
from tilewright.ground.settings import debugging
from tilewright.simulate.device.internal_code import OURS, internal_folders

#: Exit status after an exception, and after Ctrl-C: 128 + SIGINT, the shell's convention.
_FAILED, INTERRUPTED = 1, 130
#: Files whose frames precede a program's first.
_LOADING = (__file__, target.__file__, "<frozen ", importlib.util.__file__)
#: Folders of modules that no user wrote: no exception is reported at their lines.
_LIBRARIES = (OURS, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    status: int  #: The exit status that the interpreter would leave with.
    #: The exception that the program did not handle; includes Ctrl-C, but not `sys.exit`.
    error: BaseException | None = None
    #: The hook that reports such an exception: the program's, or else the interpreter's.
    hook: Callable[..., object] = sys.__excepthook__
    #: Whether processes that it started launched kernels, which nothing followed.
    children_launched: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return isinstance(self.error, KeyboardInterrupt)

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line of the user's last frame in the exception; None without an exception or such a line."""
        if isinstance(self.error, SyntaxError):
            return self.error.filename or "", self.error.lineno or 0
        frames = traceback.extract_tb(self.error.__traceback__ if self.error else None, limit=None)
        of_user = [f for f in frames if not f.filename.startswith(("<", *_LIBRARIES))]
        return (of_user[-1].filename, of_user[-1].lineno or 0) if of_user else None

    def report(self) -> None:
        """Write the exception to standard error as the interpreter does, from the program's first line on.

        Ctrl-C takes one line, unless the program has its own hook. Frames of numba-cuda and of the simulated GPU after
        the last line of other code are left out, unless `TILEWRIGHT_DEBUG` is set.
        """
        if self.interrupted and self.hook is sys.__excepthook__:
            at = "" if self.place is None else " at {}:{}".format(*self.place)
            launch = f" ({self.error})" if str(self.error) else ""
            sys.stderr.write(f"interrupted: the program was stopped by Ctrl-C{at}{launch}\n")
        elif self.error is not None:
            if not debugging():
                _end_at_the_user_s(self.error)
            self.hook(type(self.error), self.error, self.error.__traceback__)


def run_program(program: Target, argv: Sequence[str] = ()) -> Ended:
    """Run a program as `__main__` and wait for its threads.

    `argv` is without the program's name. An exception that the program did not handle is not reported yet.

    Raises NoProgramError: there is no such program that can run.

    >>> run_program(Target("import sys; print(sys.argv)", "code"), ["a"]).status
    ['-c', 'a']
    0
    """
    main = types.ModuleType("__main__")
    vars(main).update(__builtins__=__builtins__)
    with _as_main(main, program, argv):
        ended = _ended(program, main)
        for stream_ in (sys.stdout, sys.stderr):
            if stream_ is not None:
                stream_.flush()
    return ended


def _ended(program: Target, main: types.ModuleType) -> Ended:
    """Execute a program, and wait for the threads that it started; after Ctrl-C, do not wait."""
    others = {*threading.enumerate()}  # threads of this process: a library's pool may never end
    try:
        try:
            exec(program.load(main), vars(main))
            ended = Ended(0)
        except NoProgramError:
            raise
        except SystemExit as leave:
            ended = Ended(_status(leave))
        except Exception as error:
            if interrupt := hidden(error):
                raise interrupt from None
            ended = _failed(error, _FAILED)
        for thread in threading.enumerate():
            if thread not in others and not thread.daemon:
                thread.join()
    except NoProgramError:
        raise
    except KeyboardInterrupt as error:
        ended = _failed(error, INTERRUPTED)
    except BaseException as error:  # such as a cancelled task
        ended = _failed(error, _FAILED)
    return ended


def _failed(error: BaseException, status: int) -> Ended:
    """The result for an unhandled exception, without our own frames before the program's first line."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_LOADING):
        frames = frames.tb_next
    if isinstance(error, ModuleNotFoundError):
        for one in frontends():
            if any(package.split(".")[0] == error.name for package in one.replaces):
                error.add_note(f"{one.name} can be installed with what it needs here: {installation.extra(one.extra)}")
    return Ended(status, error.with_traceback(frames), sys.excepthook)


@contextmanager
def _as_main(main: types.ModuleType, program: Target, argv: Sequence[str]) -> Iterator[None]:
    """Give the program its module, arguments and module path, and the default hook for exceptions.

    Afterwards the current folder is ours again: reports are written relative to it.
    """
    before = sys.modules["__main__"], sys.argv, list(sys.path), sys.excepthook
    folder = Path.cwd()
    sys.modules["__main__"], sys.argv = main, [program.name, *argv]
    if not sys.flags.safe_path:
        sys.path[0:1] = [program.folder]
    sys.excepthook = sys.__excepthook__
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:], sys.excepthook = before
        os.chdir(folder)


def _end_at_the_user_s(error: BaseException) -> None:
    """Remove frames of launching and compiling from the end of tracebacks: errors of kernels have their own place."""
    internal = internal_folders()
    for one in _chain(error):
        if kept := up_to_others(one.__traceback__, internal):
            one.with_traceback(kept)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that a traceback shows before it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _status(leave: SystemExit) -> int:
    """The exit status of `sys.exit(...)`; a text is written to standard error, as the interpreter does."""
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        fits = leave.code.bit_length() < 64  # the interpreter takes any larger one as -1
        return (leave.code if fits else -1) & 0xFF  # a process's status has 8 bits
    print(leave.code, file=sys.stderr)
    return _FAILED
