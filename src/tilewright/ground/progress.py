"""Progress of long work: layers announce what they do, and watchers show it.

Without a watcher an announcement takes well under a microsecond.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.ground.native.memo import memo


@dataclass(eq=False, slots=True)
class Activity:
    """Work in progress."""

    doing: str  #: `translating`, `running`, `multiplying`.
    what: str  #: Its object: a kernel's name, a product's extents; "" if the verb is enough.
    parts: int = 0  #: How many parts it has; 0 if unknown.
    unit: str = ""  #: What the parts are, in the plural; "" to show only their share.
    done: Callable[[], int] | None = None  #: Returns how many parts are done; any thread may call it.
    flops: int = 0  #: Floating-point operations of the whole; 0 if a rate means nothing.
    launch: bool = False  #: Whether it is a kernel's launch, which may never end by itself.
    began_s: float = field(default_factory=time.monotonic)  #: Its start, by `time.monotonic`.

    def share(self) -> float:
        """The part that is done, from 0 to 1; 0 if unknown."""
        if self.done is None or not self.parts:
            return 0.0
        return min(max(self.done() / self.parts, 0.0), 1.0)


class Watcher(Protocol):
    """Is called when work starts and ends, in the thread that does it; it must be quick and must not raise."""

    def started(self, work: Activity) -> None:
        """Activity begins."""

    def ended(self, work: Activity) -> None:
        """The work ended, completed or not."""


class _Watchers:
    """The watchers of this process; a forked child starts without any."""

    def __init__(self) -> None:
        self.present: tuple[Watcher, ...] = ()
        self.lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_all)

    def _leave_all(self) -> None:
        self.present, self.lock = (), threading.Lock()


@memo
def _watchers() -> _Watchers:
    return _Watchers()


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Announce to a watcher all work that starts within this context, in any thread."""
    watchers = _watchers()
    with watchers.lock:
        watchers.present = (*watchers.present, watcher)
    try:
        yield
    finally:
        with watchers.lock:
            watchers.present = tuple(w for w in watchers.present if w is not watcher)


def announced(
    doing: str,
    what: str,
    parts: int = 0,
    unit: str = "",
    done: Callable[[], int] | None = None,
    flops: int = 0,
    launch: bool = False,
) -> AbstractContextManager[object]:
    """A context that announces the work done in it; the arguments are those of :class:`Activity`.

    >>> with announced("sorting", "the keys"):
    ...     sorted([3, 1, 2])
    [1, 2, 3]
    """
    watchers = _watchers().present
    return (
        _announcement(watchers, Activity(doing, what, parts, unit, done, flops, launch))
        if watchers
        else contextlib.nullcontext()
    )


@contextlib.contextmanager
def _announcement(watchers: tuple[Watcher, ...], work: Activity) -> Iterator[Activity]:
    try:
        for watcher in watchers:
            watcher.started(work)
        yield work
    finally:
        for watcher in watchers:
            watcher.ended(work)
