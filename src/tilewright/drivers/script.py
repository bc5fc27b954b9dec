"""Running a Python program as the interpreter would, inside this process."""

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

from tilewright.drivers import target
from tilewright.drivers.internal_code import OURS, internal_folders
from tilewright.drivers.target import NoProgramError, Target
from tilewright.native.interrupts import hidden
from tilewright.settings import debugging

#: Exit status of a program that an exception ended, and of one that Ctrl-C did: 128 + SIGINT, as the shell says it.
_FAILED, INTERRUPTED = 1, 130
#: Files whose frames stand before a program's first.
_LOADING = (__file__, target.__file__, "<frozen ", importlib.util.__file__)
#: Folders of modules that no user wrote: no exception is reported at a line of theirs.
_LIBRARIES = (OURS, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    status: int  #: The exit status that the interpreter would leave with.
    #: The exception that the program did not handle; `sys.exit` is none, Ctrl-C is.
    error: BaseException | None = None
    #: The hook of the program, or else of the interpreter, that reports such an exception.
    hook: Callable[..., object] = sys.__excepthook__
    #: Whether processes that it started launched kernels, which nobody has followed.
    children_launched: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return isinstance(self.error, KeyboardInterrupt)

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line of the user's that the exception left last; None where there is no exception, or no line."""
        if isinstance(self.error, SyntaxError):
            return self.error.filename or "", self.error.lineno or 0
        frames = traceback.extract_tb(self.error.__traceback__ if self.error else None, limit=None)
        of_user = [f for f in frames if not f.filename.startswith(("<", *_LIBRARIES))]
        return (of_user[-1].filename, of_user[-1].lineno or 0) if of_user else None

    def report(self) -> None:
        """Write the exception to standard error as the interpreter does, from the program's first line on.

        Ctrl-C takes one line, unless the program has a hook of its own. What numba-cuda and the simulated GPU did
        below the last line of anybody else's is left out, unless `TILEWRIGHT_DEBUG` is set.
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

    `argv` has no name of the program's own. The exception that it did not handle is not reported yet.

    Raises NoProgramError: there is none that can be run.

    Examples
    --------
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
    """Execute a program and wait for the threads that it began, which Ctrl-C leaves to themselves."""
    others = {*threading.enumerate()}  # of this process: some library's pool may never end
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
    except BaseException as error:  # a task that was cancelled, for one
        ended = _failed(error, _FAILED)
    return ended


def _failed(error: BaseException, status: int) -> Ended:
    """How a program ended that did not handle an exception; our own frames before its first line are taken off."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_LOADING):
        frames = frames.tb_next
    return Ended(status, error.with_traceback(frames), sys.excepthook)


@contextmanager
def _as_main(main: types.ModuleType, program: Target, argv: Sequence[str]) -> Iterator[None]:
    """Let the program find itself, its arguments, the modules beside it, and nobody's hook for exceptions.

    The folder that it leaves us in is ours again: files that its reports go to are named from there.
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
    """Take the frames of launching and compiling off the end of tracebacks: errors of kernels name their own place."""
    internal = internal_folders()
    for one in _chain(error):
        frames, last = [], 0
        at = one.__traceback__
        while at is not None:
            frames.append(at)
            if not at.tb_frame.f_code.co_filename.startswith(internal):
                last = len(frames)
            at = at.tb_next
        kept = None
        for frame in reversed(frames[:last]):
            kept = types.TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
        if last:
            one.with_traceback(kept)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that a traceback shows before it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _status(leave: SystemExit) -> int:
    """The exit status of `sys.exit(...)`; a text goes to standard error, as the interpreter does."""
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        fits = leave.code.bit_length() < 64  # one that does not is -1 to the interpreter
        return (leave.code if fits else -1) & 0xFF  # all that a process can leave with
    print(leave.code, file=sys.stderr)
    return _FAILED
