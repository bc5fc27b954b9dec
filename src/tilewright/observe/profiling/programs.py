"""Profiles of a whole program: an observer of the simulated GPU."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.errors import CompileError, MissingExtraError
from tilewright.observe.profiling.launching import fits, instruments, of_run
from tilewright.observe.profiling.record import Profile
from tilewright.observe.profiling.watching import Kept, Operand, recorders
from tilewright.simulate import machine
from tilewright.simulate.events import Instrument
from tilewright.simulate.machine.alternatives import Alternatives
from tilewright.simulate.observer import ArgumentFact, Launch, Observer, Run

#: Most launches whose addresses are kept.
MOST_KEPT = 64


class Profiles(Observer):
    """Gathers a profile of each launch of a program.

    `gpu`: the GPU whose rates, caches and limits the model uses, as `tilewright gpus` lists it; by default
    `TILEWRIGHT_GPU`, or else the H100. `kernel`: profile only launches of these kernels, in whose names `*` matches;
    the others run as fast as without a profile. `launch`: profile only the launch with this index, from 0. `keep`:
    whether to keep the addresses of lanes.

    `kernels`: names of all launched kernels, profiled or not.

    Launches of child processes are included; each process numbers its own from 0, and none is in `kept`.

    Raises ArgumentValueError: there is no such GPU.

    >>> Profiles(gpu="t4").profiles
    []
    """

    reports_add = True
    as_given = True
    kind = "profiles"

    def __init__(
        self,
        *,
        gpu: str | None = None,
        kernel: str | Sequence[str] | None = None,
        launch: int | None = None,
        keep: bool = False,
    ) -> None:
        #: The launches with kept addresses, the longest of them if they are many; empty if `keep` is false.
        self.kept: list[Kept] = []
        self._keep = keep
        self.profiles: list[Profile] = []  #: In launch order.
        self.failed: list[tuple[str, str]] = []  #: Kernels whose launch ended with an error, with the error.
        self.launches = 0
        self._kernels: dict[str, None] = {}
        self._gpu = machine.chosen(gpu)
        self._kernel = (kernel,) if isinstance(kernel, str) else kernel
        self._launch = launch
        self._process, self._reported = os.getpid(), [0] * len(self._lists())

    @property
    def predicts_all(self) -> bool:
        """Whether it predicts the times of all kernels and launches."""
        return False

    def for_child(self) -> Profiles:
        """An observer for a child process."""
        return Profiles(gpu=self._gpu.key, kernel=self._kernel, launch=self._launch)

    def report(self) -> dict[str, Any]:
        """The launches since the last report."""
        new = [some[start:] for some, start in zip(self._lists(), self._reported, strict=True)]
        self._reported = [len(some) for some in self._lists()]
        return {"kernels": self.kernels, "launches": self.launches, "new": new}

    def take_report(self, report: dict[str, Any]) -> None:
        """Add the report of another process."""
        self.launches = max(self.launches, report["launches"])
        self._kernels.update(dict.fromkeys(report["kernels"]))
        for some, new in zip(self._lists(), report["new"], strict=True):
            some.extend(new)

    def _lists(self) -> tuple[list[Any], ...]:
        """The lists that launches add to."""
        return self.profiles, self.failed

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that were launched."""
        return tuple(self._kernels)

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """The profile's instruments, for the selected launches."""
        if self._process != os.getpid():  # in a forked process: the launches so far are its parent's
            self._process, self._reported = os.getpid(), [len(some) for some in self._lists()]
        self.launches = max(self.launches, launch.index + 1)
        self._kernels[launch.name] = None
        if not self._wanted(launch):
            return ()
        return (*instruments(), *(recorders() if self._keep else ()))

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Store the launch's profile, or its error."""
        if not self._wanted(launch):
            return
        if run is None:
            self.failed.append((launch.name, str(error)))
            return
        profile = of_run(
            run, self._gpu, shared_bytes=launch.shared_bytes, launch=launch.index, launched_at=launch.source_line
        )
        self.profiles.append(profile)
        if self._keep:
            self.kept.append(Kept.of(run, profile, list(_operands(launch.arguments))))
            if len(self.kept) > MOST_KEPT:
                del self.kept[min(range(len(self.kept)), key=lambda at: self.kept[at].profile.least_seconds)]

    def _wanted(self, launch: Launch) -> bool:
        return (self._kernel is None or named(launch.name, self._kernel)) and self._launch in (None, launch.index)


def named(kernel: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names a kernel; `*` matches.

    >>> named("tiled", ["t*"]), named("f[1]", ["f[1]"]), named("tiled", ["tile"])
    (True, True, False)
    """
    return any(kernel == pattern or fnmatch.fnmatchcase(kernel, pattern) for pattern in patterns)


class Footprints(Profiles):
    """Gathers the occupancy of each kernel of a program, whose launches run as fast as without an observer.

    `gpu`, `kernel`: as for :class:`Profiles`.

    `failed`, `kernels`: as of :class:`Profiles`.
    """

    def __init__(self, *, gpu: str | None = None, kernel: str | Sequence[str] | None = None) -> None:
        #: Each kernel, with the occupancy of its blocks: once for each block and shared memory that it is launched
        #: with.
        self.found: list[tuple[str, Alternatives]] = []
        super().__init__(gpu=gpu, kernel=kernel)

    def for_child(self) -> Footprints:
        """An observer for a child process."""
        return Footprints(gpu=self._gpu.key, kernel=self._kernel)

    def _lists(self) -> tuple[list[Any], ...]:
        return (*super()._lists(), self.found)

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """Nothing is counted."""
        super().instruments(launch)
        return ()

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Store the occupancy, or why it is unknown."""
        if not self._wanted(launch):
            return
        try:
            row = launch.name, fits(launch.program, launch.block, self._gpu, launch.shared_bytes)
        except (CompileError, MissingExtraError) as refused:
            self.failed.append((launch.name, str(refused).splitlines()[0]))
            return
        if row not in self.found:
            self.found.append(row)


def _operands(arguments: Sequence[ArgumentFact]) -> Iterator[Operand]:
    """The array arguments of a launch."""
    for one in arguments:
        if one.dtype is not None:
            yield Operand(one.name, one.address, one.shape, one.strides, one.dtype.itemsize)
