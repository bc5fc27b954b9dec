"""Tiered compilation: launches start in unoptimised code, and change to optimised code when it is ready.

Unoptimised code takes half to two thirds of the time to compile, or an eighth with instruments. It runs one and a half
to three times as long, or hardly longer with instruments (`benchmarks/waiting.py`). Most launches end before optimised
code would be ready. So a background thread compiles it only when the kernel's launches have run for long enough, and no
launch waits for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from tilewright.simulate.run.ready_kernel import ReadyKernel

#: What launches of a kernel may take together before its code is optimised: so long, and so many times what the quick
#: code took to make.
WORTH_SECONDS = 0.5
WORTH_TIMES = 4.0


class CompileQueue:
    """Where a process's better code is made, one kernel at a time; a kernel is known by the key of its better code.

    A process that was forked has none of its parent's threads, so it has a workshop of its own.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._spent_seconds: dict[str, float] = {}  # in quick code
        self._making: set[str] = set()

    def spent_seconds(self, key: str) -> float:
        """How long launches of a kernel have run in quick code."""
        return self._spent_seconds.get(key, 0.0)

    def spend(self, key: str, seconds: float) -> float:
        """Note how long one more ran; returns the sum."""
        with self._lock:
            self._spent_seconds[key] = self._spent_seconds.pop(key, 0.0) + seconds
            while len(self._spent_seconds) > self._capacity:
                del self._spent_seconds[next(iter(self._spent_seconds))]
            return self.spent_seconds(key)

    def begin(self, key: str, make: Callable[[], None]) -> None:
        """Have a thread make a kernel's better code, unless one does."""
        with self._lock:
            if key in self._making:
                return
            self._making.add(key)
        try:
            threading.Thread(target=self._make, args=(key, make), name="tilewright-tier", daemon=True).start()
        except RuntimeError:  # the host has no room for one, or the process ends
            self._making.discard(key)

    def _make(self, key: str, make: Callable[[], None]) -> None:
        try:
            with self._turn, contextlib.suppress(Exception):  # launches go on as they are
                make()
        finally:
            with self._lock:
                self._making.discard(key)
                self._spent_seconds.pop(key, None)  # what could not be made is tried again, in due time


class TierUp:
    """Better code for a launch's kernel, made once quickly made code has run for long.

    `quick` is what runs, and `key` that of the better, which `make` makes and `look` gives once it is there.
    """

    def __init__(
        self,
        key: str,
        quick: ReadyKernel,
        workshop: CompileQueue,
        make: Callable[[], None],
        look: Callable[[], ReadyKernel | None],
    ) -> None:
        self._key, self._quick, self._workshop, self._make, self._look = key, quick, workshop, make, look
        self._worth_seconds = max(WORTH_SECONDS, WORTH_TIMES * quick.translation.making_seconds)
        self._due = time.monotonic() + self._worth_seconds - workshop.spent_seconds(key)
        self._started = False

    def found(self) -> ReadyKernel | None:
        """The better code, once it is there; the first call after it is due has it made.

        To be called from time to time while a launch runs. Both codes come from one text for LLVM, so a warp that has
        left one goes on in the other.
        """
        if time.monotonic() >= self._due:
            self._start()
        better = self._look()
        return better if better and better.translation.digest == self._quick.translation.digest else None

    def over(self, seconds: float) -> None:
        """The launch has ended, and ran for so long; many short ones earn better code too."""
        if self._workshop.spend(self._key, seconds) >= self._worth_seconds:
            self._start()

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._workshop.begin(self._key, self._make)
