"""What follows a whole program on the simulated GPU: its memory, and each launch with the instruments for it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright import machine
from tilewright.simt.run.limits import Limits
from tilewright.simt.translate.state import GLOBAL_BASE

if TYPE_CHECKING:
    from tilewright.programs.program import Program
    from tilewright.simt.events import Instrument
    from tilewright.simt.run.launch import Alone, Run


@dataclass(frozen=True, slots=True)
class ArgumentFact:
    """One argument of a launch."""

    #: The parameter's name in the source, `name[0]` and so on for the items of a tuple; `argument 0` where unknown.
    name: str
    dtype: np.dtype[np.generic] | None = None  #: The element type of an array; None for what is no array.
    #: Of an array, strides in bytes; else empty.
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    #: Device address of an array's element [0, 0, ...], or the one that a record or pointer holds; else 0.
    address: int = 0
    #: Host address that a host array, of which this is a copy, is copied back to after the launch; else 0.
    host_address: int = 0
    value: int | None = None  #: Of an integer.
    #: Address and strides of the program's own array that this one is a copy of for the launch: one of the host's, or
    #: one without gaps; None where the launch has the program's array itself.
    given: tuple[int, tuple[int, ...]] | None = None
    owner: weakref.ref[Any] | None = None  #: Of an array of the host's, to what holds its memory.


@dataclass(frozen=True, slots=True)
class Part:
    """Clusters of a grid at equal steps, by their numbers, x first: blocks, where each is a cluster of its own."""

    first: int
    count: int = 1
    step: int = 1


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that is about to begin."""

    name: str  #: The kernel's name in the source.
    program: Program = field(repr=False)
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int  #: Dynamic shared memory of a block.
    arguments: tuple[ArgumentFact, ...] = ()  #: Empty where only packed parameters are known.
    source_line: str = ""  #: Where the program launches it, `file:line`; "" where that is not known.
    index: int = 0  #: Launches before it on this GPU.
    cooperative: bool = False  #: Whether the grid's blocks can wait for each other.
    #: Whose limits hold; that of the settings by default.
    gpu: machine.Gpu = field(default_factory=machine.chosen, repr=False)
    limits: Limits = field(default_factory=Limits, repr=False)  #: When it is given up.
    seed: int | None = None  #: Shuffles the order of blocks, and of warps in a block; without it both ascend.
    part: Part | None = None  #: The clusters that run; all of the grid without one.
    cluster: tuple[int, int, int] | None = None  #: Blocks of a cluster, where the launch names them.


@dataclass(frozen=True, slots=True)
class HostRace:
    """The host used memory that work of a stream, for which it has not waited, uses too; one of the two writes."""

    array: str  #: What the program calls the array, in backticks, or words for it.
    writes: bool  #: Whether the host writes.
    line: str  #: Where, `file:line`.
    work: str  #: The kernel's name in backticks, or words for a copy.
    kernel: str  #: "" for a copy.
    work_line: str  #: Where the program asked for the work.
    work_writes: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """Stretches of device memory, one after another at equal steps."""

    address: int  #: Device address of the first.
    count: int
    step_bytes: int  #: From the first byte of one to that of the next.
    size_bytes: int  #: Of each.

    def of(self, memory: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """The same stretches of bytes that mean those from GLOBAL_BASE on, shape (count, size_bytes)."""
        start = self.address - GLOBAL_BASE
        span = (self.count - 1) * self.step_bytes + self.size_bytes
        return np.lib.stride_tricks.as_strided(
            memory[start : start + span], (self.count, self.size_bytes), (self.step_bytes, 1)
        )


class Observer:
    """Hears of everything that concerns memory and launches, in order; each one overrides what it needs."""

    #: Whether allocations shall be followed by unused bytes, so that running past one is not into the next.
    red_zones: bool = False
    #: Whether arrays of rows shall be launched with unused bytes after each row, where a kernel takes them so.
    row_gaps: bool = False
    #: Whether the host's uses of memory that it shares with the device are compared with what streams have not done.
    host_races: bool = False
    #: Whether launches need not run whole for it; see `enough`.
    leaves_out: bool = False
    #: Whether it hears of nothing but `launching`, so that no launch needs to run for it.
    launches_only: bool = False
    #: Whether it hears what its like tell, in processes that the program starts; each is made with `gpu=NAME`.
    hears: bool = False

    def told(self) -> dict[str, Any] | None:
        """What it saw, as JSON values, for the one of the program's first process; None where that is nothing."""

    def hear(self, told: dict[str, Any]) -> None:
        """What the one of another process saw."""

    def started(self, limit_bytes: int) -> None:
        """A GPU begins; its device addresses will be below GLOBAL_BASE and so many bytes."""

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """Instruments for a launch; their names are unlike those of other observers' instruments."""
        return ()

    def allocated(self, address: int, size_bytes: int) -> None:
        """Device memory was allocated; nothing was written there yet."""

    def freed(self, address: int, size_bytes: int) -> None:
        """An allocation was given back."""

    def host_wrote(self, address: int, size_bytes: int) -> None:
        """The host wrote device memory, or may have: memory that both can write counts so before each launch."""

    def used_before(self, address: int, size_bytes: int, kernels: frozenset[str]) -> None:
        """Kernels of these names were launched with an allocation before this observer came."""

    def host_reads(self, array: ArgumentFact, source_line: str) -> None:
        """The host copies an array of the device, at a line of the program."""

    def used(self, run: Run, address: int, size_bytes: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which bytes of global memory a launch read, and which it wrote; asked of those that want `host_races`."""
        raise NotImplementedError

    def host_raced(self, race: HostRace) -> None:
        """The host used memory too early."""

    def streams_raced(self, launch: Launch, other: Launch, *, writes: bool, other_writes: bool) -> None:
        """Two launches, of streams that nothing orders, used the same bytes, and one of them wrote there."""

    def copied(self, source: Rows, target: Rows) -> None:
        """Rows were copied on the device, for a launch or after it: what is known of them is known of the copy."""

    def row_gaps_at(self, gaps: Rows) -> None:
        """Bytes between the rows of an array, which no kernel must touch."""

    def launching(self, launch: Launch) -> None:
        """A launch begins."""

    def beforehand(self, launch: Launch, alone: Alone) -> None:
        """Before a launch is made ready: some of its blocks may run alone, and leave memory as it was."""

    def enough(self, launch: Launch) -> bool:
        """Whether the launch needs no more than ran beforehand: nobody waits for what it writes."""
        return False

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """A launch ended: with a run, or with an error, which the program gets too."""
