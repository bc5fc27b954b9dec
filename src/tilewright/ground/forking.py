"""The conditions that a fork waits for: imports of other threads, and locks that a child could not have back.

Most modules are imported when they are first used. A child that was forked meanwhile has no thread that would end such
an import: the module would stay half made, and its lock held.
"""

from __future__ import annotations

import _imp
import os
import sys
import time
from _thread import LockType, get_ident
from importlib import _bootstrap
from typing import Any

#: A thread may wait within an import for what the forking thread has; then the fork goes on after this time.
_MOST_SECONDS, _STEP_SECONDS = 60.0, 0.001
#: Modules of Python that give locks back after a fork; if they came while it waited, nobody took these.
_LOCKS = (("logging", "_lock"), ("concurrent.futures.thread", "_global_shutdown_lock"))


def wait_for_imports() -> None:
    """Let no fork of this process come amid an import of another thread."""
    os.register_at_fork(before=_before, after_in_parent=_imp.release_lock, after_in_child=_imp.release_lock)


def wait_for(lock: LockType) -> None:
    """Let no fork of this process come while a thread has a lock; the child has it free."""
    held: list[bool] = []  # empty in a fork that began before this

    def take() -> None:
        lock.acquire()
        held.append(True)

    def give_back() -> None:
        if held:
            held.clear()
            lock.release()

    def free() -> None:
        held.clear()
        lock._at_fork_reinit()  # type: ignore[attr-defined]

    os.register_at_fork(before=take, after_in_parent=give_back, after_in_child=free)


def _before() -> None:
    """Take the lock without which no import begins, at a moment when none is under way."""
    last = time.monotonic() + _MOST_SECONDS
    later = [(module, lock) for module, lock in _LOCKS if module not in sys.modules]
    _imp.acquire_lock()
    while _others_import() and time.monotonic() < last:
        _imp.release_lock()
        try:
            time.sleep(_STEP_SECONDS)
        finally:
            _imp.acquire_lock()
    for module, lock in later:
        if module in sys.modules:
            vars(sys.modules[module])[lock].acquire()


def _others_import() -> bool:
    """Whether other threads import modules; not where this one does too, for which they may wait."""
    every: dict[str, Any] = vars(_bootstrap)["_module_locks"]  # which has no public name
    locks = [found() for found in list(every.values())]
    owners = {lock.owner for lock in locks if lock is not None} - {None}
    return bool(owners) and get_ident() not in owners
