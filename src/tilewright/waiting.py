"""Work that may take long, announced to whoever watches: the layers say what they do, and never show it themselves.

While nobody watches, an announcement takes well under a microsecond, and counts nothing.
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

from tilewright.native.once import once


@dataclass(eq=False, slots=True)
class Activity:
    """Something that is being done."""

    doing: str  #: `translating`, `running`, `multiplying`.
    what: str  #: What it is done to: a kernel's name, a product's extents; "" where the verb says it.
    parts: int = 0  #: Of how many parts it is; 0 where nobody knows.
    unit: str = ""  #: What the parts are, in the plural; "" where only their share says something.
    done: Callable[[], int] | None = None  #: Gives how many are done, from any thread.
    flops: int = 0  #: Operations of the whole; 0 where its rate says nothing.
    began_s: float = field(default_factory=time.monotonic)  #: When, by `time.monotonic`.

    def share(self) -> float:
        """The part that is done, from 0 to 1; 0 where nobody knows."""
        if self.done is None or not self.parts:
            return 0.0
        return min(max(self.done() / self.parts, 0.0), 1.0)


class Watcher(Protocol):
    """Hears of work as it begins and ends, in the thread that does it: it must be quick, and raise nothing."""

    def started(self, work: Activity) -> None:
        """Activity begins."""

    def ended(self, work: Activity) -> None:
        """It is over, done or not."""


class _Watchers:
    """Who watches in this process; a forked child is watched by nobody."""

    def __init__(self) -> None:
        self.present: tuple[Watcher, ...] = ()
        self.lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_all)

    def _leave_all(self) -> None:
        self.present, self.lock = (), threading.Lock()


@once
def _watchers() -> _Watchers:
    return _Watchers()


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Announce to a watcher all work that begins meanwhile, in any thread."""
    watchers = _watchers()
    with watchers.lock:
        watchers.present = (*watchers.present, watcher)
    try:
        yield
    finally:
        with watchers.lock:
            watchers.present = tuple(w for w in watchers.present if w is not watcher)


def announced(
    doing: str, what: str, parts: int = 0, unit: str = "", done: Callable[[], int] | None = None, flops: int = 0
) -> AbstractContextManager[object]:
    """A context in which work is done; the arguments are those of :class:`Activity`.

    Examples
    --------
    >>> with announced("sorting", "the keys"):
    ...     sorted([3, 1, 2])
    [1, 2, 3]
    """
    watchers = _watchers().present
    return (
        _announcement(watchers, Activity(doing, what, parts, unit, done, flops))
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
