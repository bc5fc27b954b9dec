"""Predicted times of a whole program's launches: an observer of the simulated GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import CompileError, LimitError, MissingExtraError
from tilewright.prediction import launches, workload
from tilewright.prediction.crew import Watched, watched
from tilewright.prediction.record import Prediction
from tilewright.prediction.sampling import Care, Sampled, sampled
from tilewright.profiling import Profiles
from tilewright.profiling.record import Profile
from tilewright.simt.events import Instrument
from tilewright.simt.observer import Launch
from tilewright.simt.run.launch import Alone, Run

#: Why a launch that ran has no prediction.
REFUSED = (CompileError, LimitError, MissingExtraError)


@dataclass(frozen=True, slots=True)
class Counted:
    """A launch, and the profile that it is predicted from."""

    launch: Launch
    seen: Profile  #: Its own, or that of an earlier launch.
    sample: Sampled | None = None  #: What some of its blocks tell, where these alone were counted.
    roles: Watched | None = None  #: What its first block did, where warps have roles.


class Predictions(Profiles):
    """Keeps of each launch what a prediction needs; one that does what an earlier one did takes what that did.

    Parameters
    ----------
    gpu, kernel, launch, keep
        As for :class:`tilewright.profiling.Profiles`.
    once : bool
        Whether launches of one kernel with the same extents, and arguments of the same shapes and whole numbers, are
        counted once: the others run as fast as without a profile. Their predictions say so.
    sample : Care, optional
        Of large launches so many blocks are counted, before the whole launch runs as fast as without a profile. All
        blocks of each by default.
    clock_mhz : int, optional
        The clock that its multiprocessors sustain; the vendor's boost clock by default.

    Attributes
    ----------
    counted : list of Counted
        The launches that ended well, in order.
    profiles, failed, kernels
        As of :class:`tilewright.profiling.Profiles`.

    Examples
    --------
    >>> Predictions(gpu="t4").profiles
    []
    """

    def __init__(
        self, *, gpu: str | None = None, kernel: str | None = None, launch: int | None = None, keep: bool = False,
        clock_mhz: int | None = None, once: bool = False, sample: Care | None = None,
    ) -> None:  # fmt: skip
        super().__init__(gpu=gpu, kernel=kernel, launch=launch, keep=keep)
        self.counted: list[Counted] = []
        self._clock_mhz = clock_mhz
        self._once = once
        self._sample = sample
        self._sampled: dict[int, Sampled] = {}
        self._watched: dict[int, Watched | None] = {}
        self._alike: dict[Any, Counted] = {}
        self._known: dict[Any, Prediction] = {}

    def beforehand(self, launch: Launch, alone: Alone) -> None:
        """Watch the first block, and count some of a large launch where that is wanted; not if one before was alike."""
        if not self._wanted(launch) or _alike(launch) in self._alike:
            return
        self._watched[launch.index] = watched(alone)
        found = sampled(alone, self._gpu, self._sample) if self._sample else None
        if found is not None:
            self._sampled[launch.index] = found

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """Those of a profile; none where an earlier launch was alike, or some blocks were counted."""
        wanted = super().instruments(launch)
        return () if launch.index in self._sampled or _alike(launch) in self._alike else wanted

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Keep what was counted of the launch, or of an earlier launch like it."""
        earlier, sample = self._alike.get(_alike(launch)), self._sampled.pop(launch.index, None)
        roles = self._watched.pop(launch.index, None)
        if run is not None and earlier is not None:
            self.counted.append(replace(earlier, launch=launch))
            return
        if run is not None and sample is not None:
            self._keep_counted(Counted(launch, sample.seen, sample, roles))
            return
        before = len(self.profiles)
        super().finished(launch, run, error)
        for seen in self.profiles[before:]:
            self._keep_counted(Counted(launch, seen, roles=roles))

    def _keep_counted(self, one: Counted) -> None:
        self.counted.append(one)
        if self._once and one.launch.arguments:
            self._alike[_alike(one.launch)] = one

    def predicted(self, one: Counted) -> Prediction:
        """The time of a launch.

        Raises what :func:`tilewright.prediction.launches.of_profile` does.
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

    def where_known(self, seen: Profile) -> Prediction | None:
        """That of the launch with this profile; None where the model refuses it, or what it needs is not installed."""
        try:
            return next((self.predicted(one) for one in self.counted if one.seen is seen), None)
        except REFUSED:
            return None


def _alike(launch: Launch) -> Any:
    """What launches have in common of which one is counted."""
    arguments = tuple((one.dtype, one.shape, one.strides, one.value) for one in launch.arguments)
    return launch.program.ptx, launch.program.entry, launch.grid, launch.block, launch.shared_bytes, arguments
