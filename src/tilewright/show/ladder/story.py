"""The story of the first screen: every kernel verified, the steps predicted, and this host timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.errors import MissingExtraError, TilewrightError
from tilewright.ground.progress import announced
from tilewright.multiply.backends.inventory import BACKENDS
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.catalogue import Record
from tilewright.show.ladder.ahead import Ahead
from tilewright.show.ladder.climber import Climber, Pairs
from tilewright.show.ladder.climbing import climb_dtypes
from tilewright.show.ladder.matrices import operands
from tilewright.show.ladder.rung import Climb, Rung
from tilewright.show.ladder.steps import HostTime, StepTime, host_time, step_times, steps_of
from tilewright.simulate import machine


@dataclass(frozen=True, slots=True)
class Story:
    """The contents of the first screen."""

    gpu: str  #: As `--gpu` takes it.
    climb: Climb
    steps: tuple[StepTime, ...] = ()  #: None without the compilers.
    host: HostTime | None = None
    interrupted: bool = False  #: Whether Ctrl-C ended it early; then it has what was found until then.


def tell(
    pairs: Pairs, records: Sequence[Record], gpu: str | None = None, seed: int | None = None, *, counted: bool = False
) -> Story:
    """Verify all kernels on the simulated GPU and on this host's OpenCL device, predict the steps and time this host.

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
    if not story.interrupted:
        story = replace(story, climb=replace(climb, rungs=(*climb.rungs, *kernels_of_other_devices(pairs))))
    if "float32" in pairs and not story.interrupted:
        story = replace(story, host=host_time(len(pairs["float32"][0])))
    return replace(story, steps=tuple(found))


def kernels_of_other_devices(pairs: Pairs) -> list[Rung]:
    """The kernels of devices that make their own, such as OpenCL's; none for a device that is absent or cannot work."""
    rungs = []
    for row in BACKENDS:
        records = [record for record in catalogue.records() if record.backend == row.name and record.form]
        if not records:
            continue
        try:
            climber = Climber.on(row.name, None, None)
            climber.own_product(records[0], *operands(2, 2, 2, records[0].dtypes[0]))
        except TilewrightError:  # `tilewright devices` says why
            continue
        rungs += [climber.rung(record, pairs) for record in records]
    return rungs
