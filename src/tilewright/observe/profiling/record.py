"""The profile of a launch as a record; only `report` turns it into text."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.ground.display import Shown
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.profiling.counts import Counts
from tilewright.simulate.machine.alternatives import Alternatives
from tilewright.simulate.machine.roofline import Roofline
from tilewright.simulate.programs.assembler import Resources

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SiteCounts:
    """The counts of one PTX instruction."""

    ptx_line: int  #: Line of the PTX text, from 1.
    opcode: str  #: As written, such as `ld.global.f32`.
    #: `file:line`; without a line of its own, that of the nearest instruction before it. "" without a line table.
    source: str
    counts: Counts
    inner: str = ""  #: `file:line` of the instruction in a library that `source` calls; "" otherwise.


@dataclass(frozen=True, slots=True)
class LineCounts:
    """One line of source: the sum of its sites. Without a line table, one PTX line."""

    file: str  #: "" for a PTX line.
    line: int  #: From 1.
    text: str  #: The text of the line without its end; "" if the file cannot be read.
    counts: Counts  #: With the instructions of library code that the line calls.
    inner: tuple[str, ...] = ()  #: The lines of that library code, `file:line`.


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes moved by the launch, by level of memory."""

    shared_bytes: int  #: By wavefronts of shared memory: 128 bytes each.
    l1_bytes: int  #: By sectors of global and local memory requested from the first level.
    #: `l2_bytes`, `dram_read_bytes`, `dram_written_bytes`, `dram_kept_bytes`: sectors that reached the second level,
    #: were read from DRAM, were written and go back to DRAM, and were written but stay in the second level
    #: (:func:`tilewright.observe.profiling.units.written_back`); None if the caches were not modelled.
    l2_bytes: int | None = None
    dram_read_bytes: int | None = None
    dram_written_bytes: int | None = None
    dram_kept_bytes: int | None = None
    #: `compulsory_bytes`, `again_bytes`: the parts of `dram_read_bytes` read for the first time, which no cache can
    #: save, and read again because the second level had evicted them.
    compulsory_bytes: int | None = None
    again_bytes: int | None = None

    @property
    def dram_bytes(self) -> int | None:
        """Read from DRAM and written to it; None if unknown."""
        if self.dram_read_bytes is None or self.dram_written_bytes is None:
            return None
        return self.dram_read_bytes + self.dram_written_bytes


@dataclass(frozen=True, slots=True)
class Unit:
    """The least time that one unit of the GPU needs for its work."""

    name: str  #: A unit of :mod:`tilewright.simulate.machine.limiters`.
    amount: int  #: The unit's work, counted in `of`: of the launch, or, in a prediction, of one multiprocessor.
    of: str  #: `bytes`, `instructions`, `thread instructions`, `requests`, `lookups`, `clocks`.
    seconds: float  #: At the unit's highest rate.


@dataclass(frozen=True, slots=True)
class Products:
    """Products of one shape and format."""

    shape: str  #: Rows, columns and depth, such as `m16n8k16`.
    format: str  #: Of A's elements; of a product in tensor memory its kind, such as `kind::f16`.
    times: int  #: Number of products, each of a warp, of a warpgroup, or of a thread that issues one in tensor memory.
    multiply_adds: int  #: In total; for a sparse A, without the half that is skipped.
    seconds: float | None  #: The least time on the GPU's tensor cores; None if no rate is known.


@dataclass(frozen=True, slots=True)
class Cause:
    """A line that causes the limit: its share of the evidence."""

    file: str
    line: int
    share: float  #: 0 to 1.
    code: str = ""  #: `TW701`, `TW702`, or "" if only the amount of work is the cause.
    detail: str = ""  #: The figures for the code.
    text: str = ""  #: The line's text; "" if the file cannot be read.


@dataclass(frozen=True, slots=True)
class Verdict:
    """The limiter of the kernel on the GPU, the cause that can be changed, and how."""

    bound: str  #: A unit or a stall of :mod:`tilewright.simulate.machine.limiters`.
    share: float | None  #: Its share of the predicted time, 0 to 1; None without a prediction: counts are of PTX then.
    #: Name of the rule in :data:`tilewright.observe.profiling.verdict.RULES` that applied, or `the work itself`.
    rule: str
    sentence: str  #: The rule's sentence, with figures.
    edit: str  #: What mends it.
    causes: tuple[Cause, ...]  #: One or two lines, the largest share first; none if the kernel has no lines.
    change: str = ""  #: The change of a prediction that is the mended kernel; "" if none is.
    mended_seconds: float | None = None  #: The predicted time of the mended kernel.


@dataclass(frozen=True, slots=True)
class Position:
    """The launch's position under the roofs of a GPU."""

    dtype: str  #: The dtype with most operations; its peak rate is the roof.
    operations: int  #: Of that dtype.
    roof: Roofline  #: The attainable rate, and each level's bytes, intensity and rate.


@dataclass(frozen=True, slots=True)
class Launched(Shown):
    """Identifies the launch that a record describes.

    Attributes
    ----------
    kernel : str
    gpu : str
        Name of the modelled GPU.
    grid, block : (int, int, int)
    launch : int
        Index of the launch in its program, from 0.
    launched_at : str
        `file:line` of the launch in a program; else "".
    """

    kernel: str
    gpu: str
    grid: Extent
    block: Extent
    launch: int
    launched_at: str


@dataclass(frozen=True, slots=True)
class Profile(Launched):
    """The counts of one launch, and its bound; extends :class:`Launched`.

    Attributes
    ----------
    shared_bytes : int
        Dynamic shared memory of each block.
    totals : Counts
    lines : tuple of LineCounts
        By file and line.
    sites : tuple of SiteCounts
        By PTX line.
    traffic : Traffic
    resources : Resources or None
        The assembler's report.
    occupancy : Alternatives or None
        From the assembler's registers and shared memory, with the effect of changing them or the block.
    units : tuple of Unit
        The slowest first.
    products : tuple of Products
        What tensor cores multiplied, the longest time first.
    position : Position or None
        None if nothing was computed.
    verdict : Verdict or None
        None if nothing ran.
    findings : tuple of Finding
        TW701 and TW702, by line.
    notes : tuple of str
        What is unknown, and why.
    seconds : float
        Host time of the simulation; no estimate of a GPU's time.
    """

    shared_bytes: int
    totals: Counts
    lines: tuple[LineCounts, ...] = field(repr=False)
    sites: tuple[SiteCounts, ...] = field(repr=False)
    traffic: Traffic
    resources: Resources | None
    occupancy: Alternatives | None
    units: tuple[Unit, ...]
    position: Position | None
    verdict: Verdict | None
    products: tuple[Products, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def least_seconds(self) -> float:
        """The time of the slowest unit; 0 if nothing ran."""
        return self.units[0].seconds if self.units else 0.0
