"""Values that are made once, even if several threads ask for them at the same time.

`functools.cache` calls its function in each thread that asks before the first result is there. With a compiler, one of
the two results would be collected while code that it loaded still runs.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Memo(Generic[_T]):
    """Results by key. A thread that asks for one in the making waits for it; if the making fails, the next tries.

    At most `capacity` results are kept; the oldest are dropped. In a process that was forked nobody waits for threads
    of its parent, which it does not have.

    >>> squares = Memo[int]()
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 0)
    (9, 9)
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self._made: dict[Hashable, _T] = {}
        self._begin()
        os.register_at_fork(after_in_child=functools.partial(_forked, weakref.ref(self)))

    def _begin(self) -> None:
        self._gates: dict[Hashable, threading.RLock] = {}
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The result of a key: kept, or made now."""
        with self._lock:
            if key in self._made:
                return self._made[key]
            gate = self._gates.setdefault(key, threading.RLock())
        with gate:
            with self._lock:
                if key in self._made:
                    return self._made[key]
            found = make()
            with self._lock:
                while self.capacity is not None and len(self._made) >= self.capacity:
                    del self._made[next(iter(self._made))]
                self._made[key] = found
                self._gates.pop(key, None)
            return found

    def peek(self, key: Hashable) -> _T | None:
        """The result of a key if it is there; never waits."""
        return self._made.get(key)

    def clear(self) -> None:
        """Forget every result."""
        with self._lock:
            self._made.clear()


def _forked(results: weakref.ref[Memo[Any]]) -> None:
    if living := results():
        living._begin()


def memo(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """`functools.cache` for what must exist once: a function of no or hashable positional arguments.

    >>> @memo
    ... def table():
    ...     return [1, 2]
    >>> table() is table()
    True
    """
    return bounded(None)(function)


def bounded(capacity: int | None) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """`functools.lru_cache(capacity)`, but the function runs once when several threads ask at once."""

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        results = Memo[_T](capacity)

        # In front for speed: a kept result takes 40 ns.
        @functools.lru_cache(maxsize=capacity)
        @functools.wraps(function)
        def ask(*arguments: _P.args, **named: _P.kwargs) -> _T:
            key = (arguments, tuple(named.items()))
            return results.get(key, lambda: function(*arguments, **named))

        def forget() -> None:
            cleared()
            results.clear()

        front: Any = ask
        cleared, front.cache_clear = front.cache_clear, forget
        front.__wrapped__ = function  # not `ask`, which caches
        quick: Callable[_P, _T] = front
        return quick

    return decorate
