"""Calls into the native compiler: one at a time, never interrupted half-way, and none running when LLVM is unloaded.

If llvmlite is interrupted between two of its instructions, it frees memory twice or keeps its lock for ever. If a
process ends while a thread is in LLVM, LLVM's tables are destroyed under that thread. So:

- One lock of the process is held during a piece of work.
- Work for the main thread is done on another thread, which no interrupt reaches. Ctrl-C ends the wait at once; the work
  that was given up ends after its present step.
- When the process ends, it waits for the present step and keeps the lock.
"""

from __future__ import annotations

import atexit
import signal
import threading
import traceback
from collections.abc import Callable
from typing import TypeVar

from tilewright.ground.forking import wait_for
from tilewright.ground.native.interrupts import DeferredSigint, on_main_thread
from tilewright.ground.native.memo import memo

_T = TypeVar("_T")


class GivenUp(BaseException):
    """Nobody waits for the result any more."""


class Calls:
    """The process's calls into LLVM."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        atexit.register(self.end)
        # A forked child has no thread that would release the lock, and LLVM's state may be inconsistent in it.
        wait_for(self._lock)

    def run(self, work: Callable[[Callable[[], None]], _T]) -> _T:
        """Do a piece of work and wait for it.

        `work` gets a function to call between its steps; it raises if the work was given up.
        """
        if not on_main_thread():
            with self._lock:
                return work(lambda: None)
        if self._ended:  # in an exit handler
            return work(lambda: None)
        return self._elsewhere(work)

    def _elsewhere(self, work: Callable[[Callable[[], None]], _T]) -> _T:
        results: list[_T] = []
        errors: list[BaseException] = []
        given_up, done = threading.Event(), threading.Lock()

        def check() -> None:
            if given_up.is_set():
                raise GivenUp

        def there() -> None:
            try:
                with self._lock:
                    check()
                    results.append(work(check))
            except BaseException as error:
                _let_go(error)  # LLVM's objects in its frames are freed here
                errors.append(error)
            finally:
                done.release()

        done.acquire()
        try:
            with DeferredSigint():
                threading.Thread(target=there, name="tilewright-compiler", daemon=True).start()
            done.acquire()
        except BaseException:
            given_up.set()
            raise
        if errors:
            raise errors[0]
        return results[0]

    @property
    def at_work(self) -> bool:
        """Whether a call is running."""
        return self._lock.locked() and not self._ended

    def end(self) -> None:
        """Let no new call start, and wait for the present one: the process is ending."""
        if not self._ended and not self._lock.acquire(blocking=False):
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process now, as it would otherwise
            self._lock.acquire()
        self._ended = True


def _let_go(error: BaseException | None) -> None:
    """Clear the frames that an error went through, and those of its cause."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


@memo
def calls() -> Calls:
    """The process's only instance."""
    return Calls()
