"""Running a Python program as the interpreter would, inside this process."""

from __future__ import annotations

import io
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import ArgumentValueError

#: Exit status of a program that an exception ended.
_FAILED = 1


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Attributes
    ----------
    status : int
        The exit status that the interpreter would leave with.
    error : BaseException, optional
        The exception that the program did not handle; `sys.exit` is none.
    hook : callable
        What the program, or else the interpreter, tells such an exception with.
    """

    status: int
    error: BaseException | None = None
    hook: Callable[..., object] = sys.__excepthook__

    def tell(self) -> None:
        """Tell the exception on standard error as the interpreter does, from the program's first line on."""
        if self.error is not None:
            self.hook(type(self.error), self.error, self.error.__traceback__)


def run_script(path: str | os.PathLike[str], argv: Sequence[str] = ()) -> Ended:
    """Run a program as `__main__` and wait for its threads.

    Parameters
    ----------
    path : path
        The program's file.
    argv : sequence of str
        Its arguments, without its own name.

    Returns
    -------
    Ended
        With the exception that it did not handle, which is not told yet.

    Raises
    ------
    ArgumentValueError
        The file cannot be read.
    """
    file = Path(path)
    try:
        with io.open_code(str(file.resolve())) as stream:
            source = stream.read()
    except OSError as error:
        raise ArgumentValueError(f"SCRIPT must be a Python program that can be read (got {file}: {error})") from error
    main = types.ModuleType("__main__")
    vars(main).update(__file__=str(file), __builtins__=__builtins__)
    with _as_main(main, file, argv):
        try:
            exec(compile(source, str(file), "exec"), vars(main))
            ended = Ended(0)
        except SystemExit as leave:
            ended = Ended(_status(leave))
        except Exception as error:
            frames = error.__traceback__
            while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
                frames = frames.tb_next
            ended = Ended(_FAILED, error.with_traceback(frames), sys.excepthook)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon and thread is not threading.main_thread():
                thread.join()
        for stream_ in (sys.stdout, sys.stderr):
            if stream_ is not None:
                stream_.flush()
    return ended


@contextmanager
def _as_main(main: types.ModuleType, file: Path, argv: Sequence[str]) -> Iterator[None]:
    """Let the program find itself, its arguments, the modules beside it, and nobody's hook for exceptions."""
    before = sys.modules["__main__"], sys.argv, list(sys.path), sys.excepthook
    sys.modules["__main__"], sys.argv = main, [str(file), *argv]
    sys.path[0:1] = [str(file.resolve().parent)]
    sys.excepthook = sys.__excepthook__
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:], sys.excepthook = before


def _status(leave: SystemExit) -> int:
    """The exit status of `sys.exit(...)`; a text goes to standard error, as the interpreter does."""
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        return leave.code
    print(leave.code, file=sys.stderr)
    return _FAILED
