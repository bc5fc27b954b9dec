"""The predicted time of a launch, as a record; only `report` turns it into text."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.profiling.record import Launched


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
class Prediction(Launched):
    """How long a launch takes on a GPU, by the model of :mod:`tilewright.prediction.multiprocessor`.

    Beside what :class:`tilewright.profiling.record.Launched` says of the launch:

    Attributes
    ----------
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
    counted_blocks : int
        That ran to be counted: all of the grid, some that stand for the others, or those of a smaller product.
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
        Of the clocks, how many each stage of memory worked, and the tensor cores.
    copies_in_flight : float or None
        Groups of asynchronous copies, or phases of mbarriers with bytes to come, when a warp comes to wait for one: on
        average. None where no warp waits for copies.
    most_copies_in_flight : int
        At one of these waits.
    changes : tuple of Change
        The launch with one thing different, as far as it has that.
    notes : tuple of str
        What the prediction does without.
    counted_in : int
        The launch that was counted for it: an earlier one with the same extents and arguments of the same shapes, or
        itself.

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
    limiter: str
    shares: tuple[Share, ...]
    busy: tuple[Share, ...]
    copies_in_flight: float | None = None
    most_copies_in_flight: int = 0
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    counted_in: int = 0

    @property
    def tensor_share(self) -> float:
        """Of the clocks, those in which tensor cores work."""
        return next((share.fraction for share in self.busy if share.name == "tensor cores"), 0.0)

    @property
    def kind(self) -> str:
        """That no part of it is measured."""
        return "predicted"
