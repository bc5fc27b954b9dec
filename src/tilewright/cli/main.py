"""The program `tilewright`: what an error looks like, and the exit status.

Nothing that takes time is imported here before `main` runs, so that Ctrl-C ends in one line even while modules load.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from tilewright.cli.statuses import DEFECT, INTERRUPTED, WRONG_USE


def main() -> None:
    """Run the command line and leave the process with its exit status.

    A user's error is one message on standard error; a traceback appears only with `TILEWRIGHT_DEBUG=1`.
    """
    leaving: list[int] = []
    atexit.register(_leave, leaving)  # registered first, called last
    try:
        _run()
    except SystemExit as leave:
        leaving.append(leave.code if isinstance(leave.code, int) else DEFECT if leave.code else 0)
        atexit.register(_die_of_ctrl_c)
        if (native := sys.modules.get("tilewright.ground.native.calls")) is not None:
            atexit.unregister(native.calls().end)  # `_leave` does it
        raise


def _run() -> None:
    """Run the command line; leaves with its exit status."""
    try:
        from tilewright.ground.garbage import uncollected
        from tilewright.ground.native.interrupts import none_lost

        with none_lost(), uncollected():
            from tilewright.cli.app import program_command

            with _warnings_shown():
                program_command(*sys.argv[1:2])()
    except SystemExit as leave:
        if _is_of_ctrl_c(leave):
            _interrupted()
        raise
    except KeyboardInterrupt:
        _interrupted()
        sys.exit(INTERRUPTED)
    except Exception as error:
        from tilewright.ground.native.interrupts import hidden
        from tilewright.ground.settings import debugging

        if hidden(error):
            _interrupted()
            sys.exit(INTERRUPTED)
        if debugging():
            raise
        sys.exit(_reported(error))


@contextlib.contextmanager
def _warnings_shown() -> Iterator[None]:
    """Show our warnings as messages: the source line that they would name is one of ours."""
    import warnings

    from tilewright.errors import TilewrightWarning

    shown = warnings.showwarning

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        if issubclass(category, TilewrightWarning):
            from tilewright.show.report import console

            console.error(str(message), title="warning")
        else:
            shown(message, category, *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def _die_of_ctrl_c() -> None:
    """Make Ctrl-C end the process as usual: all work is done, and no handler is left."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(leaving: list[int]) -> None:
    """Exit at once if the compiler still works on another thread, which may take it seconds."""
    native = sys.modules.get("tilewright.ground.native.calls")
    if native is None:
        return
    if leaving and native.calls().at_work:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(leaving[0])
    native.calls().end()


def _is_of_ctrl_c(leave: SystemExit) -> bool:
    """Whether typer turned Ctrl-C into a silent 130; a program that was run may exit with 130 itself."""
    return leave.code == INTERRUPTED and isinstance(getattr(leave.__context__, "__cause__", None), KeyboardInterrupt)


def _interrupted() -> None:
    sys.stderr.write("interrupted: stopped by Ctrl-C; nothing was written\n")


def _reported(error: Exception) -> int:
    """Report an error on standard error; return the exit status."""
    from tilewright.errors import KernelError, TilewrightError
    from tilewright.show.report import console

    if isinstance(error, TilewrightError):
        console.error(str(error), title="kernel error" if isinstance(error, KernelError) else "error")
        return WRONG_USE
    if isinstance(error, MemoryError):
        console.error(f"{error or 'the host has no more'}; try smaller matrices", title="out of memory")
        return DEFECT
    if isinstance(error, OSError):  # such as a full disk; a wrong path in an argument is reported where it is read
        console.error(
            f"{error} (TILEWRIGHT_DEBUG=1 shows where); free room, or ask for access", title="the host refused"
        )
        return DEFECT
    message = f"{type(error).__name__}: {error} (TILEWRIGHT_DEBUG=1 shows where; please report it)"
    console.error(message, title="a defect of Tilewright")
    return DEFECT
