"""Replacements for packages' benchmarks: the function runs once, and its time is the predicted time of its launches.

In a large launch only a sample of the blocks runs; the whole launch runs only if the program reads its results
(:mod:`tilewright.simulate.device.deferred_launches`). If the model does not support a launch, its time is that of the
GPU's slowest unit for the PTX, and a line on standard error says so.

Times between events are predicted in the same way, but their launches run completely.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from tilewright.observe.prediction.launches import REFUSED
from tilewright.observe.prediction.programs import Counted, Predictions
from tilewright.observe.prediction.sampling import Care
from tilewright.observe.profiling import Profiles
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.installed_gpu import current_gpu

#: Blocks that represent a launch: fewer than for a requested prediction, because autotuners compare many launches.
_QUICK = Care(least_blocks=16, most_part=3 / 4, each=1, compared=2, following=2)


class Timed(Predictions):
    """Predictions of launches that need not run completely."""

    leaves_out = True


class _OfEvents(Predictions):
    """Predictions for times between events, which change no launch."""

    as_given = False


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Triton's: milliseconds of a function; all quantiles are equal."""
    for tensor in grad_to_none or ():
        tensor.grad = None
    time = milliseconds("do_bench", fn)
    if quantiles is not None:
        return [time] * len(quantiles)
    return [time] if return_mode == "all" else time


def benchmark(
    callable: Callable[..., Any],
    *,
    kernel_arguments: Any = None,
    workspace_generator: Callable[[], Any] | None = None,
    **_: Any,
) -> float:
    """CuTe DSL's: microseconds of a function with its arguments, or with those of one workspace.

    Raises ValueError: neither is given.
    """
    given = kernel_arguments if workspace_generator is None else workspace_generator()
    if given is None:
        raise ValueError("`kernel_arguments` or `workspace_generator` must be given (got neither); give one")
    return 1e3 * milliseconds("benchmark", lambda: callable(*given.args, **given.kwargs))


def milliseconds(asked: str, fn: Callable[[], Any]) -> float:
    """The time of a function's launches, one after the other.

    NaN if it launches no kernel: the work of a library on a GPU is not predicted.
    """
    gpu = current_gpu()
    predictions = Timed(gpu=gpu.record.key, sample=_QUICK)
    with gpu.observing(predictions):
        fn()
    return _sum(asked, predictions, predictions.counted)


def observer_for_events(gpu: SimulatedGpu) -> Profiles:
    """The observer that counts launches for the times between events: an installed one, or a new one from now on."""
    with gpu.lock:
        installed = next((one for one in gpu.observers if one.kind == Predictions.kind), None)
        if installed is not None:  # a second one would count the same
            return cast("Profiles", installed)
        made = _OfEvents(gpu=gpu.record.key, sample=_QUICK, once=True)
        gpu.observe(made)
        return made


def between(seen: Profiles, launches: range) -> float:
    """Milliseconds of the launches with these indices, one after the other.

    NaN if there are none, or if the observer is for some launches only.
    """
    asked = "elapsed_time"
    if not seen.predicts_all:
        _say("some", f"{asked}: the profile in use is for some launches only; the time between events is NaN")
        return float("nan")
    predictions = cast("Predictions", seen)
    return _sum(asked, predictions, [one for one in predictions.counted if one.launch.index in launches])


def _sum(asked: str, predictions: Predictions, counted: Sequence[Counted]) -> float:
    """Milliseconds of counted launches; NaN if there are none."""
    if not counted:
        _say("", f"{asked}: no kernel is launched, and what libraries do is not predicted; its time is NaN")
        return float("nan")
    return sum(_of_launch(asked, predictions, one) for one in counted)


def _of_launch(asked: str, predictions: Predictions, one: Counted) -> float:
    """The time of a launch: predicted, or that of its slowest unit."""
    try:
        return predictions.predicted(one).seconds * 1e3
    except REFUSED as error:
        name = one.launch.name
        _say(
            name,
            f"{asked}: {name} has no predicted time ({error}); the time of its slowest unit, by its PTX, is used",
        )
        return one.seen.least_seconds * 1e3


def _say(key: str, text: str) -> None:
    """Write a line on standard error, once for each key and GPU."""
    said = current_gpu().said
    if key not in said:
        said.add(key)
        print(text, file=sys.stderr)
