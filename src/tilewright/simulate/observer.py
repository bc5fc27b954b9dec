"""Observers of a whole program on the simulated GPU: of its memory, and of its launches, which they instrument."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.simulate import machine
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.state import GLOBAL_BASE

if TYPE_CHECKING:
    from tilewright.simulate.events import Instrument
    from tilewright.simulate.programs.array_arguments import ArrayShape
    from tilewright.simulate.programs.program import Program


@dataclass(frozen=True, slots=True)
class ArgumentFact:
    """One argument of a launch."""

    #: The parameter's name in the source, `name[0]` and so on for the items of a tuple; `argument 0` where unknown.
    name: str
    dtype: np.dtype[np.generic] | None = None  #: The element type of an array; None for other arguments.
    #: Of an array, strides in bytes; else empty.
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    #: Device address of an array's element [0, 0, ...], or the address in a record or pointer; else 0.
    address: int = 0
    #: Host address of the host array that this is a copy of, which is copied back after the launch; else 0.
    host_address: int = 0
    value: int | None = None  #: The value of an integer.
    #: Address and strides of the program's own array if the launch works on a copy: a copy of a host array, or one
    #: without gaps. None if the launch has the program's array itself.
    given: tuple[int, tuple[int, ...]] | None = None
    owner: weakref.ref[Any] | None = None  #: For a host array: the owner of its memory.


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument of which the driver gets the address, as the program gave it: nobody converts it to its parameter."""

    bytes: int  #: Those behind that address.
    dtype: np.dtype[Any] | None = None  #: Type of a number, or of an array's elements; None if it is unknown.
    value: Any = None  #: Of a number; None for other arguments.
    array: ArrayShape | None = None  #: Of an array, whose address is passed.


@dataclass(frozen=True, slots=True)
class PassedArguments:
    """All arguments of a launch as the program gave them."""

    arguments: tuple[Passed, ...]
    source: str = ""  #: The C++ text with the kernel; "" if only files have it.


@dataclass(frozen=True, slots=True)
class Part:
    """Clusters of a grid at equal steps, by number, x first; without clusters, blocks."""

    first: int
    count: int = 1
    step: int = 1


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that is about to start."""

    name: str  #: The kernel's name in the source.
    program: Program = field(repr=False)
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int  #: Dynamic shared memory of a block.
    arguments: tuple[ArgumentFact, ...] = ()  #: Empty if only packed parameters are known.
    source_line: str = ""  #: The program's line that launches it, `file:line`; "" if unknown.
    index: int = 0  #: Number of earlier launches on this GPU.
    cooperative: bool = False  #: Whether the grid's blocks can wait for each other.
    #: The GPU whose limits apply; by default that of the settings.
    gpu: machine.Gpu = field(default_factory=machine.chosen, repr=False)
    limits: Limits = field(default_factory=Limits, repr=False)  #: Limits that stop it.
    seed: int | None = None  #: Shuffles the order of blocks, and of warps in a block; without it both ascend.
    part: Part | None = None  #: The clusters that run; all of the grid without one.
    cluster: tuple[int, int, int] | None = None  #: Blocks of a cluster, if the launch gives them.
    #: The index of the launch before it in its stream, if it may begin while that runs (programmatic serialization).
    overlaps: int | None = None
    #: Most dynamic shared memory that the program has allowed the kernel; None where it needs no permission.
    allowed_shared_bytes: int | None = None
    passed: PassedArguments | None = field(default=None, repr=False)  #: None if the arguments have the kernel's types.
    #: Grid and block as the program wrote them, for `tilewright.simt.launch`; None for a launch by a driver.
    written: tuple[Any, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A product of matrices that a library's function computes, and no kernel of the program."""

    name: str  #: Of the function.
    m: int
    n: int
    k: int
    dtype: str  #: Of the operands.
    result: str  #: Of the product's elements.


@dataclass(frozen=True, slots=True)
class HostRace:
    """The host used memory that unfinished work of a stream also uses; one of the two writes."""

    array: str  #: The array's name in the program, in backticks, or a description.
    writes: bool  #: Whether the host writes.
    line: str  #: The host's line, `file:line`.
    work: str  #: The kernel's name in backticks, or a description of a copy.
    kernel: str  #: "" for a copy.
    work_line: str  #: The program's line that started the work.
    work_writes: bool


@dataclass(frozen=True, slots=True)
class StreamRace:
    """Two launches in unordered streams used the same bytes, and at least one wrote them."""

    launch: Launch
    other: Launch
    writes: bool  #: Whether `launch` writes.
    other_writes: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of bytes in device memory at equal steps."""

    address: int  #: Device address of the first.
    count: int
    step_bytes: int  #: From the start of a row to the start of the next.
    size_bytes: int  #: Of each.

    def of(self, memory: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """The rows as a view of an array with one entry a byte from GLOBAL_BASE on; shape (count, size_bytes)."""
        start = self.address - GLOBAL_BASE
        span = (self.count - 1) * self.step_bytes + self.size_bytes
        return np.lib.stride_tricks.as_strided(
            memory[start : start + span], (self.count, self.size_bytes), (self.step_bytes, 1)
        )


@dataclass(frozen=True)
class Run:
    """The result of a launch.

    Attributes
    ----------
    seconds : float
        Host time of the kernel alone. It is the simulator's speed, never a GPU's.
    translate_seconds : float
        Time to translate and compile the kernel.
    cached : bool
        Whether a cached translation was used.
    warp_instructions : int
        PTX instructions, counted once a warp.
    printed : str
        The kernel's output, in order of blocks and threads.
    results : dict
        Each instrument's result, by its name.
    program : Program
    grid, block : (int, int, int)
    part : Part or None
        The clusters that ran; None for all.
    cluster : (int, int, int) or None
        Blocks of a cluster, if the kernel or the launch gives them.
    written : frozenset of int
        If an observer needed only a part: the allocations that the part wrote, which have been restored.
    """

    seconds: float
    translate_seconds: float
    cached: bool
    warp_instructions: int
    printed: str
    results: dict[str, Any] = field(repr=False)
    program: Program = field(repr=False)
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    part: Part | None = None
    cluster: tuple[int, int, int] | None = None
    written: frozenset[int] = frozenset()


class BlocksAlone(Protocol):
    """Runs some blocks of a launch without the others; as a context manager it restores memory."""

    launch: Launch  #: The whole launch.

    def __enter__(self) -> BlocksAlone:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Restore memory."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of global memory in use."""

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster, which run together; 1 without clusters."""

    @property
    def written(self) -> frozenset[int]:
        """Addresses of the allocations that the blocks have written."""

    def waits(self, instruments: Sequence[Instrument]) -> bool:
        """Whether blocks may wait for blocks of other clusters."""

    def allowed(self, instruments: Sequence[Instrument]) -> bool:
        """Whether blocks may run without the others: no block waits for another or prints."""

    def run(
        self, part: Part, instruments: Sequence[Instrument], build: Program | None = None, limits: Limits | None = None
    ) -> Run:
        """Run blocks, of another build of the kernel or within other limits if such are given.

        Raises KernelError: the kernel failed; PtxError, LaunchError: another build cannot run.
        """


class LaunchAgain(Protocol):
    """Runs a launch again in other orders, from the memory with which it began; then restores that of the first run."""

    def run(self, seed: int, instruments: Sequence[Instrument], limits: Limits) -> Run:
        """Run it in the order of a seed.

        Raises KernelError: the kernel failed.
        """


class Observer:
    """Gets all events of memory and launches, in order. Subclasses override the methods that they need."""

    #: Whether to leave unused bytes after allocations, and after the rows of arrays if the kernel accepts strides and
    #: no observer needs arrays `as_given`. An access past the end is then in no other allocation or row.
    red_zones: bool = False
    #: Whether its results depend on the strides of arrays, which then have no unused bytes after their rows. Unused
    #: bytes after allocations do not matter: every allocation starts at a multiple of 256 bytes, with or without them.
    as_given: bool = False
    #: Whether to compare the host's uses of shared memory with unfinished work of streams.
    host_races: bool = False
    #: Whether it may need only a part of a launch; see `launching`.
    leaves_out: bool = False
    #: Whether each report has only what came after the one before, so that all of them count, and not only the last.
    reports_add: bool = False
    #: An observer that is added for a time takes the place of those of the same kind, unless this is "".
    kind: str = ""

    def for_child(self) -> Observer | None:
        """A new observer for a child process, which reports to this one; None: it takes no reports."""

    def report(self) -> dict[str, Any] | None:
        """Its results, which can be pickled, for the observer in the program's first process; None if it has none."""

    def take_report(self, report: dict[str, Any]) -> None:
        """Take the results of the observer in another process."""

    def started(self, limit_bytes: int, used: Sequence[tuple[int, int, frozenset[str]]] = ()) -> None:
        """The observer was added to a GPU, whose device addresses are below GLOBAL_BASE + `limit_bytes`.

        `used` has address and bytes of each allocation that kernels used before, with their names; `allocated` follows
        for all.
        """

    def in_memory(self, limit_bytes: int) -> AbstractContextManager[None]:
        """In the body, events are of a launch in another memory, with addresses below GLOBAL_BASE + `limit_bytes`.

        The memory ends with the body. An observer that keeps anything by address keeps it for each memory.
        """
        return contextlib.nullcontext()

    @property
    def findings(self) -> Sequence[Any]:
        """The defects that it has found so far, as `Finding`."""
        return ()

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """Instruments for a launch."""
        return ()

    def allocated(self, address: int, size_bytes: int) -> None:
        """Device memory was allocated; it is unwritten."""

    def freed(self, address: int, size_bytes: int) -> None:
        """An allocation was freed."""

    def host_wrote(self, address: int, size_bytes: int) -> None:
        """The host wrote device memory, or may have written it: shared memory counts as written before each launch."""

    def host_reads(self, array: ArgumentFact, source_line: str) -> None:
        """The host reads an array of the device, at a line of the program."""

    def used(self, run: Run, address: int, size_bytes: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which bytes of global memory a launch read, and which it wrote; called only with `host_races`."""
        raise NotImplementedError

    def raced(self, race: HostRace | StreamRace) -> None:
        """Memory was used before other work on it was done."""

    def copied(self, source: Rows, target: Rows) -> None:
        """Rows were copied on the device, before or after a launch; the copy takes over their state."""

    def row_gaps_at(self, gaps: Rows) -> None:
        """Bytes between the rows of an array, which no kernel may touch."""

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        """A launch starts: `alone` runs some of its blocks and then restores memory; None if the launch is refused.

        Returns whether those were enough, so that the launch need not run unless somebody needs its results.
        """
        return False

    def called(self, call: LibraryCall) -> None:
        """The host computed a product in place of a library."""

    def repeats(self, launch: Launch) -> bool:
        """Whether it may run a launch again after its end; see `again`."""
        return False

    def again(self, launch: Launch, run: Run, other: LaunchAgain) -> None:
        """Called between the end of a launch that it `repeats` and `finished`, if the launch ran to its end."""

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """A launch ended with a run, or with an error, which the program also gets.

        The results in a run, or in a KernelError, are those of this observer's instruments.
        """
