"""Calls into the native compiler: one at a time, none interrupted half-way, none at work when its libraries are gone.

Interrupted between two of its instructions, llvmlite frees twice or keeps its lock for ever; and a process that ends
while a thread is in LLVM takes LLVM's tables down under it. So:

- One lock of the process is held during a piece of work.
- What the main thread wants is done on another thread, which no interrupt strikes. Ctrl-C ends the wait at once; the
  work that nobody waits for any more ends after its present step.
- The process ends with the lock taken: after the step at hand, for which it waits.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import traceback
from collections.abc import Callable
from typing import TypeVar

from tilewright.native.interrupts import HeldBack, on_main_thread
from tilewright.native.once import once

_T = TypeVar("_T")


class GivenUp(BaseException):
    """Nobody waits for the work any more."""


class Calls:
    """The process's calls into LLVM."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        atexit.register(self.end)
        # A child has no thread that would give the lock back, nor LLVM's state in one piece.
        os.register_at_fork(
            before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._lock.release
        )

    def run(self, work: Callable[[Callable[[], None]], _T]) -> _T:
        """Do a piece of work and wait for it.

        It is given a function to call between its steps, which raises where the work was given up.
        """
        if not on_main_thread():
            with self._lock:
                return work(lambda: None)
        if self._ended:  # in a function that the program wanted called at the end
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
                _let_go(error)  # LLVM's objects in its frames end here
                errors.append(error)
            finally:
                done.release()

        done.acquire()
        try:
            with HeldBack():
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
        """Whether there is a call."""
        return self._lock.locked() and not self._ended

    def end(self) -> None:
        """Let no call begin any more, and wait for the one at hand: the process ends."""
        if not self._ended and not self._lock.acquire(blocking=False):
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process now, as it does others
            self._lock.acquire()
        self._ended = True


def _let_go(error: BaseException | None) -> None:
    """Clear the frames that an error went through, and those of what it came from."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


@once
def calls() -> Calls:
    """The process's one."""
    return Calls()
