"""Ctrl-C where it must not strike.

Python raises KeyboardInterrupt on the main thread between any two instructions: between starting a thread and noting
that it runs, between making a file and the block that removes it. And where it strikes inside a finalizer or a function
that C calls, nobody gets it: Python prints it, or C drops it, and all goes on.
"""

from __future__ import annotations

import _thread
import importlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: The module `signal` without its enumerations, which take ten times as long: a launch asks several times.
_SIGNAL: Any = importlib.import_module("_signal")
_SIGINT = int(signal.SIGINT)


class HeldBack:
    """For moments only: inside, no interrupt strikes; what the handler of Ctrl-C raises is raised at the end.

    The handler itself is called at once. On other threads than the main one, where none strikes, this does nothing.

    >>> with HeldBack() as interrupt:
    ...     interrupt.came
    False
    """

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._handler: Callable[[int, Any], Any] | None = None

    @property
    def came(self) -> bool:
        """Whether one waits to strike."""
        return self._error is not None

    def __enter__(self) -> HeldBack:
        if on_main_thread():
            handler = _SIGNAL.getsignal(_SIGINT)
            if callable(handler):
                self._handler = handler
                _SIGNAL.signal(_SIGINT, self._hold)
        return self

    def _hold(self, number: int, frame: Any) -> None:
        assert self._handler is not None
        try:
            self._handler(number, frame)
        except BaseException as error:
            self._error = error

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            _SIGNAL.signal(_SIGINT, self._handler)
        error, self._error = self._error, None
        if error is not None:
            raise error


class Postponed(HeldBack):
    """Held back in a function that C calls and whose errors it drops: the interrupt strikes a moment later."""

    def __exit__(self, *_: object) -> None:
        try:
            super().__exit__()
        except KeyboardInterrupt:
            _strike_again()


def hidden(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt that Python 3.11 makes a RuntimeError where it strikes a class in the making."""
    cause = error.__cause__
    if isinstance(cause, KeyboardInterrupt) and str(error).startswith("Error calling __set_name__"):
        return cause.with_traceback(error.__traceback__)
    return None


@contextmanager
def until_ctrl_c() -> Iterator[None]:
    """End the block at Ctrl-C; the code after it goes on, such as a command that says what is kept.

    >>> with until_ctrl_c():
    ...     raise KeyboardInterrupt
    """
    try:
        yield
    except KeyboardInterrupt:
        pass
    except RuntimeError as error:
        if not hidden(error):
            raise


def _strike_again() -> None:
    """From another thread: from here it would strike the very function that must not get it, and be lost for good."""
    _thread.start_new_thread(_thread.interrupt_main, ())


def on_main_thread() -> bool:
    """Whether this is the thread that interrupts strike."""
    return threading.get_ident() == threading.main_thread().ident


@contextmanager
def none_lost() -> Iterator[None]:
    """Let an interrupt that struck a finalizer, or a function called from C, strike again a moment later."""
    before = sys.unraisablehook

    def hook(raised: Any) -> None:
        if issubclass(raised.exc_type, KeyboardInterrupt):
            _strike_again()
        else:
            before(raised)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = before
