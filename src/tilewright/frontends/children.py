"""Processes that a program starts: each has its own simulated GPU, and reports what its observer saw.

A process writes its report after each launch, because process pools end their workers with a signal. Reports are
pickles. This is safe: only this user can write to their folder, and a process that writes there runs the same program
as this one.
"""

from __future__ import annotations

import atexit
import base64
import copyreg
import io
import os
import pickle
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright.frontends.frontend import replacing
from tilewright.frontends.session import simulated_gpu
from tilewright.ground.native import secure_files
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.observer import BlocksAlone, Launch, Observer, Run

_PREFIX = "TILEWRIGHT_SIMULATED_"
_SUFFIX = ".report"


class _Pickler(pickle.Pickler):
    """Pickles read-only mappings too, which records of GPUs have."""

    dispatch_table = MappingProxyType(
        {**copyreg.dispatch_table, MappingProxyType: lambda mapping: (_read_only, (dict(mapping),))}
    )


def _read_only(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _packed(value: object) -> bytes:
    written = io.BytesIO()
    _Pickler(written).dump(value)
    return written.getvalue()


class ChildLaunches(Observer):
    """Writes a file for each process, except `process`, that launched kernels.

    Each of those processes reports what its `observer` saw; without one, it only reports that there was a launch.
    """

    def __init__(self, note: Path, process: int, observer: Observer | None = None) -> None:
        self._note = note
        self._process = process
        self._observer = observer
        self._reported_by, self._name = 0, ""  # the process that wrote the last report, and its file's name

    @property
    def any(self) -> bool:
        """Whether another process launched a kernel."""
        return self._note.exists()

    @property
    def reports(self) -> Iterator[dict[str, Any]]:
        """The reports of the processes' observers, in the order of their first launches."""
        for file in sorted(self._note.parent.glob(f"*{_SUFFIX}")):
            yield pickle.loads(file.read_bytes())

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        """Record that another process launches a kernel."""
        if os.getpid() != self._process:
            with suppress(OSError):  # the followed program has ended
                self._note.touch()
        return False

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Write the report of another process so far."""
        if os.getpid() != self._process:
            self.write_report()

    def write_report(self) -> None:
        """Write the observer's report to a file. Readers find the complete file or none."""
        if self._observer is None or (report := self._observer.report()) is None:
            return
        if self._observer.reports_add or self._reported_by != os.getpid():  # a forked process needs a file of its own
            self._reported_by, self._name = os.getpid(), f"{time.time_ns():020}-{uuid.uuid4().hex}"
        file = self._note.with_name(f"{self._name}{_SUFFIX}")
        with suppress(OSError):
            file.with_suffix(".new").write_bytes(_packed(report))
            file.with_suffix(".new").replace(file)


@contextmanager
def in_children(
    gpu: str, seed: int | None = None, limits: Limits | None = None, observer: Observer | None = None
) -> Iterator[ChildLaunches]:
    """Give each Python process started in the body its own simulated GPU, with the same limit of seconds.

    If `observer` takes reports (`Observer.for_child`), each process gets a new one that reports to it. The caller adds
    the yielded observer to its own, after `observer`: forked processes report through it.
    """
    startup = str(Path(__file__).parent / "startup")
    seconds = None if limits is None else limits.seconds
    child = None if observer is None else observer.for_child()
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(secure_files.working_folder())
        except OSError:  # no place for reports: the file system is read-only or full
            folder = Path(os.devnull)
        launches = ChildLaunches(folder / "launched", os.getpid(), observer if child else None)
        wanted = {
            f"{_PREFIX}GPU": gpu,
            f"{_PREFIX}PACKAGES": " ".join(replacing()),
            f"{_PREFIX}SEED": "" if seed is None else str(seed),
            f"{_PREFIX}LIMIT": "" if seconds is None else repr(seconds),
            f"{_PREFIX}NOTE": str(folder / "launched"),
            f"{_PREFIX}OBSERVER": base64.b64encode(_packed(child)).decode() if child else "",
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
    """Install the simulated GPU that a parent process requested, until this process ends."""
    gpu, seed, limit, note, given = (
        os.environ[_PREFIX + name] for name in ("GPU", "SEED", "LIMIT", "NOTE", "OBSERVER")
    )
    observer: Observer | None = pickle.loads(base64.b64decode(given)) if given else None
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
    stack.callback(launches.write_report)  # with what the end of the program adds
    atexit.register(stack.close)
