"""Code that Ctrl-C must not interrupt.

Python raises KeyboardInterrupt on the main thread between any two instructions: between starting a thread and recording
that it runs, between making a file and entering the block that removes it. Inside a finalizer, or a function that C
calls, the exception is lost: Python prints it, or C drops it, and the program goes on.
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

#: The module `signal` without its enumerations, which make calls ten times slower; a launch makes several.
_SIGNAL: Any = importlib.import_module("_signal")
_SIGINT = int(signal.SIGINT)


class DeferredSigint:
    """No interrupt is raised inside the block; what the handler of Ctrl-C raises is raised at its end. Keep it short.

    The handler itself is called at once. On threads other than the main one, which get no interrupts, it does nothing,
    and neither does one within another.

    >>> with DeferredSigint() as interrupt:
    ...     interrupt.came
    False
    """

    _error: BaseException | None = None
    _handler: Callable[[int, Any], Any] | None = None

    @property
    def came(self) -> bool:
        """Whether an interrupt is held back."""
        return self._error is not None

    def __enter__(self) -> DeferredSigint:
        if threading.get_ident() == threading.main_thread().ident:
            handler = _SIGNAL.getsignal(_SIGINT)
            if callable(handler) and getattr(handler, "__func__", None) is not DeferredSigint._hold:
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
        if self._error is not None:
            error, self._error = self._error, None
            raise error


class Postponed(DeferredSigint):
    """For a function that C calls and whose errors C drops: the interrupt is raised a moment later."""

    def __exit__(self, *_: object) -> None:
        try:
            super().__exit__()
        except KeyboardInterrupt:
            _strike_again()


def hidden(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt that Python 3.11 turned into a RuntimeError because it came while a class was created."""
    cause = error.__cause__
    if isinstance(cause, KeyboardInterrupt) and str(error).startswith("Error calling __set_name__"):
        return cause.with_traceback(error.__traceback__)
    return None


@contextmanager
def until_ctrl_c() -> Iterator[None]:
    """End the block at Ctrl-C and go on after it, as a command does that reports its partial results.

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
    """Send the signal from another thread: raised here, it would be lost in the same function again."""
    _thread.start_new_thread(_thread.interrupt_main, ())


def on_main_thread() -> bool:
    """Whether this is the thread that gets interrupts."""
    return threading.get_ident() == threading.main_thread().ident


@contextmanager
def none_lost() -> Iterator[None]:
    """Raise an interrupt again, a moment later, that was lost in a finalizer or in a function called from C."""
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
