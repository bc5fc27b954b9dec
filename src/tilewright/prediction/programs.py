"""Predicted times of a whole program's launches: an observer of the simulated GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright import machine
from tilewright.errors import CompileError, LimitError, MissingExtraError
from tilewright.prediction import launches, workload
from tilewright.prediction.record import Prediction
from tilewright.profiling import Profiles
from tilewright.profiling.record import Profile
from tilewright.programs.program import Program
from tilewright.simt.observer import Launch
from tilewright.simt.run.launch import Run


class Predictions(Profiles):
    """Predicts each launch of a program; one that does what an earlier one did takes what that did.

    Parameters
    ----------
    gpu, kernel
        As for :class:`tilewright.profiling.Profiles`.
    clock_mhz : int, optional
        The clock that its multiprocessors sustain; the vendor's boost clock by default.

    Attributes
    ----------
    predictions : list of Prediction
        In the order of launches.
    profiles, failed, kernels
        As of :class:`tilewright.profiling.Profiles`; launches that the model refuses are among `failed`.

    Examples
    --------
    >>> Predictions(gpu="t4").predictions
    []
    """

    def __init__(self, *, gpu: str | None = None, kernel: str | None = None, clock_mhz: int | None = None) -> None:
        super().__init__(gpu=gpu, kernel=kernel)
        self.predictions: list[Prediction] = []
        self._model = machine.chosen(gpu)
        self._clock_mhz = clock_mhz
        self._known: dict[Any, Prediction] = {}

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Keep the launch's prediction, or why it has none."""
        before = len(self.profiles)
        super().finished(launch, run, error)
        for seen in self.profiles[before:]:
            try:
                self.predictions.append(self._predicted(seen, launch.program, launch))
            except (CompileError, LimitError, MissingExtraError) as refused:
                self.failed.append((launch.name, str(refused).splitlines()[0]))

    def _predicted(self, seen: Profile, program: Program, launch: Launch) -> Prediction:
        sites = workload.of_profile(seen, 1).sites
        does = (program.ptx, program.entry, seen.grid, seen.block, seen.shared_bytes, tuple(sites.items()))
        if does not in self._known:
            self._known[does] = launches.of_profile(seen, program, self._model, self._clock_mhz, launch.limits)
        return replace(self._known[does], launch=seen.launch, launched_at=seen.launched_at)
