"""The predicted time of a launch as a record; only `report` turns it into text."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.observe.profiling.record import Launched, Unit, Verdict
from tilewright.simulate.machine.limiters import TENSOR


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the time, and what it was spent on."""

    name: str
    fraction: float  #: 0 to 1.


@dataclass(frozen=True, slots=True)
class Change:
    """The time of the launch with one thing changed."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Prediction(Launched):
    """The time of a launch on a GPU, by the model of :mod:`tilewright.observe.prediction.multiprocessor`.

    Extends :class:`tilewright.observe.profiling.record.Launched`:

    Attributes
    ----------
    seconds : float
        From the start of the launch to its end.
    least_seconds, most_seconds : float
        The error band, which contains most published times of the compared kernels.
    clocks : int
        Clocks of the multiprocessor with most blocks.
    clock_mhz : int
        The clock for which `seconds` holds.
    launch_seconds : float
        The part of `seconds` in which no multiprocessor works.
    registers : int
        Registers of a thread.
    resident_blocks : int
        Blocks that a multiprocessor holds at once.
    counted_blocks : int
        Blocks that ran to be counted: the whole grid, a sample, or those of a smaller product.
    waves : float
        Blocks of the grid over the blocks that all multiprocessors hold at once.
    instructions_per_clock : float
        Machine instructions per clock of one multiprocessor, which issues at most four.
    verdict : Verdict
        What limits the speed, its cause, and the edit that mends it.
    shares : tuple of Share
        What the clocks of the partitions were spent on, the largest first: instructions, or what the next ready
        warp had waited for.
    limits : tuple of Unit
        The least time of each unit of a multiprocessor for its part of the work, as the model does it, the slowest
        first. None is longer than `seconds`.
    copies_in_flight : float or None
        Mean number of asynchronous copy groups, or mbarrier phases with missing bytes, when a warp starts to wait
        for one. None if no warp waits for copies.
    most_copies_in_flight : int
        The largest number at one of these waits.
    changes : tuple of Change
        The launch with single changes, as far as they apply.
    notes : tuple of str
        What the prediction leaves out.
    counted_in : int
        Index of the launch whose counts were used: an earlier one with the same extents and arguments of the same
        shapes, or this one.

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

    seconds: float
    least_seconds: float
    most_seconds: float
    clocks: int
    clock_mhz: int
    launch_seconds: float
    registers: int
    resident_blocks: int
    counted_blocks: int
    waves: float
    instructions_per_clock: float
    verdict: Verdict
    shares: tuple[Share, ...]
    limits: tuple[Unit, ...]
    copies_in_flight: float | None = None
    most_copies_in_flight: int = 0
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    counted_in: int = 0

    @property
    def limiter(self) -> str:
        """The limit of the speed: a name of :mod:`tilewright.simulate.machine.limiters`."""
        return self.verdict.bound

    @property
    def busy(self) -> dict[str, float]:
        """The share of the clocks in which each unit works."""
        return {unit.name: unit.seconds / (self.seconds - self.launch_seconds) for unit in self.limits}

    @property
    def tensor_share(self) -> float:
        """The share of the clocks in which tensor cores work."""
        return self.busy.get(TENSOR, 0.0)

    @property
    def kind(self) -> str:
        """Marks the record as fully predicted: no part of it is measured."""
        return "predicted"
