"""Processes that a program starts: each has a simulated GPU of its own, and tells what its observer saw.

What it tells is written after each launch, for pools end their processes by a signal.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tilewright.drivers.session import simulated_gpu
from tilewright.native import private
from tilewright.simt.observer import Launch, Observer
from tilewright.simt.run.launch import Run
from tilewright.simt.run.limits import Limits

_PREFIX = "TILEWRIGHT_SIMULATED_"


class ChildLaunches(Observer):
    """Notes by files what a process launched which is not that of the given number, where the program is followed.

    `observer` is the one of that process that is to tell what it saw, if there is one.
    """

    def __init__(self, note: Path, process: int, observer: Observer | None = None) -> None:
        self.launches_only = observer is None
        self._note = note
        self._process = process
        self._observer = observer

    @property
    def any(self) -> bool:
        """Whether there were any."""
        return self._note.exists()

    @property
    def reports(self) -> Iterator[dict[str, Any]]:
        """What each process's observer saw."""
        for file in sorted(self._note.parent.glob("*.json")):
            yield json.loads(file.read_text(encoding="utf-8"))

    def launching(self, launch: Launch) -> None:
        """Note it, where it is of another process."""
        if os.getpid() != self._process:
            with suppress(OSError):  # the program that is followed has ended
                self._note.touch()

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Tell what was seen so far, where it is of another process."""
        if os.getpid() != self._process:
            self.tell()

    def tell(self) -> None:
        """Write what the observer saw; a file is whole or not there."""
        if self._observer is None or (told := self._observer.told()) is None:
            return
        file = self._note.with_name(f"{os.getpid()}.json")
        with suppress(OSError):
            file.with_suffix(".new").write_text(json.dumps(told), encoding="utf-8")
            file.with_suffix(".new").replace(file)


@contextmanager
def in_children(
    gpu: str, seed: int | None = None, limits: Limits | None = None, observer: Observer | None = None
) -> Iterator[ChildLaunches]:
    """Let Python processes that are started meanwhile have a simulated GPU too, each its own; of limits the seconds.

    An `observer` that hears what others of its kind tell has such a one in each of them. What this yields is to be
    behind it among this process's observers, for processes that are forked from it.
    """
    startup = str(Path(__file__).parent / "startup")
    seconds = None if limits is None else limits.seconds
    kind = f"{type(observer).__module__}:{type(observer).__qualname__}" if observer and observer.hears else ""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(private.working_folder())
        except OSError:  # nowhere to note them: the file system is read-only, or full
            folder = Path(os.devnull)
        launches = ChildLaunches(folder / "launched", os.getpid(), observer if kind else None)
        wanted = {
            f"{_PREFIX}GPU": gpu,
            f"{_PREFIX}SEED": "" if seed is None else str(seed),
            f"{_PREFIX}LIMIT": "" if seconds is None else repr(seconds),
            f"{_PREFIX}NOTE": str(folder / "launched"),
            f"{_PREFIX}OBSERVER": kind,
            "PYTHONPATH": os.pathsep.join(filter(None, [startup, os.environ.get("PYTHONPATH")])),
        }
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield launches
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def stay_simulated() -> None:
    """Put the simulated GPU that a parent process asked for in place until this process ends."""
    gpu, seed, limit, note, kind = (os.environ[_PREFIX + name] for name in ("GPU", "SEED", "LIMIT", "NOTE", "OBSERVER"))
    module, _, name = kind.partition(":")
    observer = getattr(importlib.import_module(module), name)(gpu=gpu) if kind else None
    launches = ChildLaunches(Path(note), 0, observer)
    stack = ExitStack()
    stack.enter_context(
        simulated_gpu(
            gpu,
            observers=[*([observer] if observer else []), launches],
            seed=int(seed) if seed else None,
            limits=Limits(seconds=float(limit)) if limit else None,
        )
    )
    stack.callback(launches.tell)  # with what the end of the program shows
    atexit.register(stack.close)
