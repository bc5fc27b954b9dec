"""Predicted times of a whole program's launches: an observer of the simulated GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.errors import CompileError, LimitError, MissingExtraError
from tilewright.prediction import launches, workload
from tilewright.prediction.record import Prediction
from tilewright.profiling import Profiles
from tilewright.profiling.record import Profile
from tilewright.simt.observer import Launch
from tilewright.simt.run.launch import Run

#: Why a launch that ran has no prediction.
REFUSED = (CompileError, LimitError, MissingExtraError)


class Predictions(Profiles):
    """Keeps of each launch what a prediction needs; one that does what an earlier one did takes what that did.

    Parameters
    ----------
    gpu, kernel, launch, keep
        As for :class:`tilewright.profiling.Profiles`.
    clock_mhz : int, optional
        The clock that its multiprocessors sustain; the vendor's boost clock by default.

    Attributes
    ----------
    profiles, failed, kernels
        As of :class:`tilewright.profiling.Profiles`.

    Examples
    --------
    >>> Predictions(gpu="t4").profiles
    []
    """

    def __init__(
        self, *, gpu: str | None = None, kernel: str | None = None, launch: int | None = None, keep: bool = False,
        clock_mhz: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(gpu=gpu, kernel=kernel, launch=launch, keep=keep)
        self._clock_mhz = clock_mhz
        self._launches: dict[int, Launch] = {}
        self._known: dict[Any, Prediction] = {}

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Keep the launch's profile, and what it launched."""
        super().finished(launch, run, error)
        self._launches[launch.index] = launch

    def predicted(self, seen: Profile) -> Prediction:
        """The time of one of the profiles' launches.

        Raises what :func:`tilewright.prediction.launches.of_profile` does.
        """
        launch = self._launches[seen.launch]
        sites = tuple(workload.of_profile(seen, 1).sites.items())
        does = (launch.program.ptx, launch.program.entry, seen.grid, seen.block, seen.shared_bytes, sites)
        if does not in self._known:
            self._known[does] = launches.of_profile(seen, launch.program, self._gpu, self._clock_mhz, launch.limits)
        return replace(self._known[does], launch=seen.launch, launched_at=seen.launched_at)

    def where_known(self, seen: Profile) -> Prediction | None:
        """The same; None where the model refuses it, or what it needs is not installed."""
        try:
            return self.predicted(seen)
        except REFUSED:
            return None
