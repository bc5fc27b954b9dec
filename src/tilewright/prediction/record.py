"""The predicted time of a launch, as a record; only `report` turns it into text."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.profiling.record import Extent
from tilewright.shown import Shown


@dataclass(frozen=True, slots=True)
class Share:
    """What part of the time went to something."""

    name: str
    fraction: float  #: 0 to 1.


@dataclass(frozen=True, slots=True)
class Change:
    """What the launch would take if one thing were different."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Prediction(Shown):
    """How long a launch takes on a GPU, by the model of :mod:`tilewright.prediction.multiprocessor`.

    Attributes
    ----------
    kernel : str
    gpu : str
        Name of the GPU that the model is of.
    grid, block : (int, int, int)
    seconds : float
        From the launch to its end.
    least_seconds, most_seconds : float
        The band of error: what most published times of kernels that were compared lie in.
    clocks : int
        Of the multiprocessor that has most blocks.
    clock_mhz : int
        The clock that seconds are computed with.
    launch_seconds : float
        Part of `seconds` that no multiprocessor works in.
    registers : int
        Of a thread.
    resident_blocks : int
        That a multiprocessor holds.
    waves : float
        Blocks of the grid over those that all multiprocessors hold.
    instructions_per_clock : float
        Machine instructions of one multiprocessor, which issues at most four.
    limiter : str
        What the time goes to.
    shares : tuple of Share
        What the clocks of the partitions went to, the largest first: instructions, or what the warp that was ready
        next had waited for.
    busy : tuple of Share
        Of the clocks, how many each stage of memory worked.
    changes : tuple of Change
        The launch with one thing different, as far as it has that.
    notes : tuple of str
        What the prediction does without.
    launch : int
        Which launch of a program, from 0.
    counted_in : int
        The launch that was counted for it: an earlier one with the same extents and arguments of the same shapes, or
        itself.
    launched_at : str
        `file:line` of the launch, where a program made it; else "".

    Examples
    --------
    >>> import tilewright as tw
    >>> text = '''
    ... .version 8.0 .target sm_90 .address_size 64
    ... .visible .entry nothing() { ret; }'''
    >>> found = tw.predict(tw.programs.Program.from_ptx(text), 132, 256, ())
    >>> found.kind, found.waves, found.least_seconds < found.seconds < 5e-6
    ('predicted', 0.125, True)
    """

    kernel: str
    gpu: str
    grid: Extent
    block: Extent
    seconds: float
    least_seconds: float
    most_seconds: float
    clocks: int
    clock_mhz: int
    launch_seconds: float
    registers: int
    resident_blocks: int
    waves: float
    instructions_per_clock: float
    limiter: str
    shares: tuple[Share, ...]
    busy: tuple[Share, ...]
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    launch: int = 0
    counted_in: int = 0
    launched_at: str = ""

    @property
    def kind(self) -> str:
        """That no part of it is measured."""
        return "predicted"
