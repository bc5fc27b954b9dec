"""Threads that run the parts of products, and how many of them a product may use.

One crew serves every caller of the process. A caller works on its own parts too and never waits for a busy worker: the
parts of a job lie in one queue, and whoever is free takes the next. So calls from many Python threads at once cannot
wait for each other, and a job's caller can always finish it alone.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

from tilewright.settings import Settings

Work = Callable[[Any], None]


class Job:
    """Parts of one product, taken by whoever is free."""

    def __init__(self, work: Work, items: Iterable[Any]) -> None:
        self._work = work
        self._waiting = deque(items)
        self._pending = len(self._waiting)
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._error: BaseException | None = None

    def take(self) -> None:
        """Run parts until none waits."""
        while True:
            try:
                item = self._waiting.popleft()
            except IndexError:
                return
            try:
                if self._error is None:
                    self._work(item)
            except BaseException as error:  # an interrupt too: the caller raises it when no part runs any more
                self._error = error
            finally:
                self._finish_one()

    def finish(self) -> None:
        """Run what waits, and return when every part has been run; raise what a part raised."""
        try:
            self.take()
        finally:
            self._done.wait()  # buffers belong to the caller: it must not leave while a part runs
        if self._error is not None:
            raise self._error

    def _finish_one(self) -> None:
        with self._lock:
            self._pending -= 1
            last = self._pending == 0
        if last:
            self._done.set()


class Crew:
    """Worker threads, started when first wanted; they wait without using the processor."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._workers = 0

    def run(self, work: Work, items: Iterable[Any], threads: int) -> None:
        """Run every item on at most so many threads, the caller's own among them."""
        job = Job(work, items)
        self._start(threads - 1)
        for _ in range(threads - 1):
            self._jobs.put(job)
        job.finish()

    def _start(self, workers: int) -> None:
        if self._workers >= workers:
            return
        with self._lock:
            while self._workers < workers:
                name = f"tilewright-{self._workers}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
                self._workers += 1

    def _serve(self) -> None:
        while True:
            self._jobs.get().take()


@functools.cache
def _crew(process: int) -> Crew:
    return Crew()


def crew() -> Crew:
    """The crew of this process; a forked child gets a new one, since threads do not survive a fork."""
    return _crew(os.getpid())


class Limit:
    """How many threads a product may use where its caller does not say.

    Attributes
    ----------
    count : int
        At first what TILEWRIGHT_THREADS says when it is first asked for, or the cores this process may use;
        threadpoolctl sets it.
    """

    def __init__(self) -> None:
        self.count = Settings.from_environ().threads

    def set(self, count: int) -> None:
        """Change the limit; at least 1."""
        self.count = max(1, int(count))


@functools.cache
def limit() -> Limit:
    """The limit of the process."""
    show_to_threadpoolctl()
    return Limit()


def show_to_threadpoolctl() -> None:
    """Let threadpoolctl, where it is installed, see and limit the engine's threads like a BLAS's.

    threadpoolctl knows thread pools by the shared libraries of the process. The engine's code lies in no library, but
    the compiler that makes it does, so that one stands for it.
    """
    try:
        import threadpoolctl
    except ImportError:
        return

    class Controller(threadpoolctl.LibController):  # type: ignore[misc]
        user_api = "blas"
        internal_api = "tilewright"
        filename_prefixes = ("libllvmlite", "llvmlite")

        def get_num_threads(self) -> int:
            return limit().count

        def set_num_threads(self, num_threads: int) -> None:
            limit().set(num_threads)

        def get_version(self) -> str:
            from importlib.metadata import version

            return version("tilewright")

        def set_additional_attributes(self) -> None:
            self.architecture = None

    threadpoolctl.register(Controller)
