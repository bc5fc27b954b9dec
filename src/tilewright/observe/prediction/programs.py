"""Predicts the times of all launches of a program: an observer of the simulated GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import LimitError
from tilewright.observe.prediction import launches, workload
from tilewright.observe.prediction.crew import Watched, watched
from tilewright.observe.prediction.library import LibraryTime, times
from tilewright.observe.prediction.record import Prediction
from tilewright.observe.prediction.sampling import Care, Sampled, sampled
from tilewright.observe.profiling import Profiles
from tilewright.observe.profiling.record import Profile
from tilewright.simulate.events import Instrument
from tilewright.simulate.observer import BlocksAlone, Launch, LibraryCall, Run


@dataclass(frozen=True, slots=True)
class Counted:
    """A launch, with the profile for its prediction."""

    launch: Launch
    seen: Profile  #: Of this launch, or of an earlier one.
    sample: Sampled | None = None  #: The estimate from some blocks, if only these were counted.
    roles: Watched | None = None  #: What the first block did, if its warps have roles.


class Predictions(Profiles):
    """Keeps what a prediction of each launch needs; a launch like an earlier one reuses that one's counts.

    Parameters
    ----------
    gpu, kernel, launch, keep
        As for :class:`tilewright.profiling.Profiles`.
    once : bool
        Whether launches of one kernel with the same extents, and arguments of the same shapes and whole numbers,
        are counted once. The others run as fast as without a profile, and their predictions say so.
    sample : Care, optional
        For large launches, count this many blocks before the whole launch, which then runs as fast as without a
        profile. By default all blocks are counted.
    clock_mhz : int, optional
        The clock that the multiprocessors sustain; by default the vendor's boost clock.

    Attributes
    ----------
    counted : list of Counted
        The launches that ended without an error, in order.
    called_library : list of LibraryCall
        The products that libraries computed.
    profiles, failed, kernels
        As of :class:`tilewright.profiling.Profiles`.

    Examples
    --------
    >>> Predictions(gpu="t4").profiles
    []
    """

    def __init__(
        self,
        *,
        gpu: str | None = None,
        kernel: str | Sequence[str] | None = None,
        launch: int | None = None,
        keep: bool = False,
        clock_mhz: int | None = None,
        once: bool = False,
        sample: Care | None = None,
    ) -> None:
        self.counted: list[Counted] = []
        self.called_library: list[LibraryCall] = []
        super().__init__(gpu=gpu, kernel=kernel, launch=launch, keep=keep)
        self._clock_mhz = clock_mhz
        self._once = once
        self._sample = sample
        self._sampled: dict[int, Sampled] = {}
        self._watched: dict[int, Watched | None] = {}
        self._alike: dict[Any, Counted] = {}
        self._known: dict[Any, Prediction] = {}

    def for_child(self) -> Predictions:
        """An observer for a child process."""
        return Predictions(
            gpu=self._gpu.key, kernel=self._kernel, launch=self._launch, once=self._once, sample=self._sample
        )

    @property
    def predicts_all(self) -> bool:
        """Whether it is for all kernels and launches."""
        return self._kernel is None and self._launch is None

    def _lists(self) -> tuple[list[Any], ...]:
        return (*super()._lists(), self.counted, self.called_library)

    def called(self, call: LibraryCall) -> None:
        """Keep a library's product."""
        self.called_library.append(call)

    def library(self) -> Iterator[LibraryTime]:
        """The times of the products that libraries computed."""
        return times(self.called_library, self._gpu, self._clock_mhz)

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        """Record the first block, and count a sample of a large launch if wanted; skip a launch like an earlier one."""
        if alone is None or not self._wanted(launch) or _alike(launch) in self._alike:
            return False
        self._watched[launch.index] = watched(alone)
        found = sampled(alone, self._gpu, self._sample) if self._sample else None
        if found is not None:
            self._sampled[launch.index] = found
        return found is not None and self.leaves_out

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """The profile's instruments; none if an earlier launch was alike, or a sample was counted."""
        wanted = super().instruments(launch)
        if launch.index in self._sampled or _alike(launch) in self._alike:
            return ()
        roles = self._watched.get(launch.index)
        return (*wanted, *roles.instruments) if roles else wanted

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Keep the counts of the launch, or those of an earlier one like it."""
        earlier, sample = self._alike.get(_alike(launch)), self._sampled.pop(launch.index, None)
        roles = self._watched.pop(launch.index, None)
        if run is not None and earlier is not None:
            self.counted.append(replace(earlier, launch=replace(launch, arguments=())))
            return
        if sample is not None and (run is not None or isinstance(error, LimitError)):  # it needs no whole launch
            self._keep_counted(Counted(launch, sample.seen, sample, roles))
            return
        if roles is not None and run is not None:
            roles = roles.of_run(run)
        before = len(self.profiles)
        super().finished(launch, run, error)
        for seen in self.profiles[before:]:
            self._keep_counted(Counted(launch, seen, roles=roles))

    def _keep_counted(self, one: Counted) -> None:
        # Without the arguments, which refer to the program's arrays.
        self.counted.append(replace(one, launch=replace(one.launch, arguments=())))
        if self._once and one.launch.arguments:
            self._alike[_alike(one.launch)] = one

    def predicted(self, one: Counted) -> Prediction:
        """The prediction of a launch.

        Raises: as :func:`tilewright.observe.prediction.launches.of_profile`.
        """
        launch, seen, sample, gpu = one.launch, one.seen, one.sample, self._gpu
        sites = tuple((sample.work if sample else workload.of_profile(seen, 1)).sites.items())
        does = (launch.program.ptx, launch.program.entry, seen.grid, seen.block, seen.shared_bytes, sites)
        if does not in self._known:
            self._known[does] = (
                launches.of_sample(sample, launch.program, gpu, self._clock_mhz, launch.limits, one.roles)
                if sample
                else launches.of_profile(seen, launch.program, gpu, self._clock_mhz, launch.limits, one.roles)
            )
        return replace(self._known[does], launch=launch.index, counted_in=seen.launch, launched_at=launch.source_line)

    def judged(self, seen: Profile) -> tuple[Profile, Prediction | None]:
        """A profile with the limits and the verdict of its machine code, and its prediction.

        The profile as it is, and None, if the model rejects the launch, or something is not installed.
        """
        try:
            time = next((self.predicted(one) for one in self.counted if one.seen is seen), None)
        except launches.REFUSED:
            time = None
        return launches.judged(seen, time), time


def _alike(launch: Launch) -> Any:
    """A key that is equal for launches that need to be counted only once."""
    arguments = tuple((one.dtype, one.shape, one.strides, one.value) for one in launch.arguments)
    return launch.program.ptx, launch.program.entry, launch.grid, launch.block, launch.shared_bytes, arguments
