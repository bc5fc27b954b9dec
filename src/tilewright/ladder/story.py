"""The story of the first screen: every kernel verified, the steps predicted, and this host timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright import machine
from tilewright.errors import MissingExtraError
from tilewright.kernels.catalogue import Record
from tilewright.ladder.ahead import Ahead
from tilewright.ladder.climber import Pairs
from tilewright.ladder.climbing import climb_dtypes
from tilewright.ladder.rung import Climb
from tilewright.ladder.steps import HostTime, StepTime, host_time, step_times, steps_of
from tilewright.waiting import announced


@dataclass(frozen=True, slots=True)
class Story:
    """What the first screen shows."""

    gpu: str  #: As `--gpu` takes it.
    climb: Climb
    steps: tuple[StepTime, ...] = ()  #: None without the compilers.
    host: HostTime | None = None
    interrupted: bool = False  #: Whether Ctrl-C ended it early; then it has what was found until then.


def tell(
    pairs: Pairs, records: Sequence[Record], gpu: str | None = None, seed: int | None = None, *, counted: bool = False
) -> Story:
    """Verify all kernels on the simulated GPU, predict the steps and time this host.

    Ctrl-C ends it early, and what was found comes back. With `counted`, instruments count each kernel's traffic too.
    """
    target = machine.chosen(gpu)
    with Ahead(records, pairs, target, counted=counted) as ahead:
        climb = climb_dtypes(pairs, records=records, gpu=gpu, seed=seed, counted=counted, keep=True, after=ahead.after)
        story = Story(target.key, climb, interrupted=climb.interrupted)
        if climb.interrupted:
            return story
        found: list[StepTime] = []
        try:
            with announced("predicting", "", len(steps_of(target)), "steps", lambda: len(found)):
                found.extend(step_times(target))
        except MissingExtraError:  # the rungs say so
            pass
        except KeyboardInterrupt:
            story = replace(story, interrupted=True)
    if "float32" in pairs and not story.interrupted:
        story = replace(story, host=host_time(len(pairs["float32"][0])))
    return replace(story, steps=tuple(found))
