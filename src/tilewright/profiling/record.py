"""The profile of a launch, as a record; only `report` turns it into text."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.instruments.findings import Finding
from tilewright.machine.alternatives import Alternatives
from tilewright.machine.roofline import Roofline
from tilewright.profiling.counts import Counts
from tilewright.programs.assembler import Resources
from tilewright.shown import Shown

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SiteCounts:
    """One PTX instruction."""

    ptx_line: int  #: Line of the PTX text, from 1.
    opcode: str  #: As written, such as `ld.global.f32`.
    #: `file:line`; of an instruction that the compiler gives no line, that of the nearest one before it. "" where there
    #: is no line table.
    source: str
    counts: Counts
    inner: str = ""  #: `file:line` in a library that the line calls, where the instruction is of there; else "".


@dataclass(frozen=True, slots=True)
class LineCounts:
    """One line of source: the sum of its sites; a PTX line where there is no line table."""

    file: str  #: "" for a line of the PTX text.
    line: int  #: From 1.
    text: str  #: The line as it stands in the file, without its end; "" where the file cannot be read.
    counts: Counts  #: What a library does in the line is counted with it.
    inner: tuple[str, ...] = ()  #: Its lines there, `file:line`.


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes moved in all, by level of memory."""

    shared_bytes: int  #: By wavefronts of shared memory: 128 bytes each.
    l1_bytes: int  #: By sectors asked of the first level, of global and local memory.
    #: `l2_bytes`, `dram_read_bytes`, `dram_written_bytes`, `dram_kept_bytes`: by sectors that reached the second level,
    #: were read from DRAM, were written and go back to it, and were written but stay in the second level
    #: (:func:`tilewright.profiling.units.written_back`); None where the caches were not modelled.
    l2_bytes: int | None = None
    dram_read_bytes: int | None = None
    dram_written_bytes: int | None = None
    dram_kept_bytes: int | None = None
    #: `compulsory_bytes`, `again_bytes`: what of `dram_read_bytes` was read for the first time, which no cache would
    #: have saved, and what was read again because the second level had lost it.
    compulsory_bytes: int | None = None
    again_bytes: int | None = None

    @property
    def dram_bytes(self) -> int | None:
        """Read from DRAM and written to it; None where that is not known."""
        if self.dram_read_bytes is None or self.dram_written_bytes is None:
            return None
        return self.dram_read_bytes + self.dram_written_bytes


@dataclass(frozen=True, slots=True)
class Unit:
    """How long one unit of the GPU must work at least, all multiprocessors together."""

    name: str  #: `DRAM`, `L2`, `shared memory and L1`, `instruction issue`, `float32 arithmetic` ...
    amount: int  #: What it has to do, in `of`.
    of: str  #: `bytes`, `instructions`, `thread instructions`.
    seconds: float  #: At its highest rate: no GPU of this kind can be faster.


@dataclass(frozen=True, slots=True)
class Products:
    """Products of one shape and format."""

    shape: str  #: Rows, columns and depth, such as `m16n8k16`.
    format: str  #: Of A's elements.
    times: int  #: Products: of a warp, or of a warpgroup where they are its.
    multiply_adds: int  #: In all; of a sparse A, half are left out.
    seconds: float | None  #: That the GPU's tensor cores take for them at least; None where no rate is known.


@dataclass(frozen=True, slots=True)
class Cause:
    """A line that makes the bound: its share of what the bounding unit has to do."""

    file: str
    line: int
    share: float  #: 0 to 1.
    code: str = ""  #: `TW701`, `TW702`, or "" where nothing is amiss with the line but its amount.
    detail: str = ""  #: The figures behind the code.


@dataclass(frozen=True, slots=True)
class Verdict:
    """What bounds the kernel on the GPU, and where."""

    bound: str  #: Name of the slowest unit.
    rule: str  #: Which rule of :data:`tilewright.profiling.verdict.RULES` spoke: its name.
    sentence: str  #: The rule's words, with figures.
    causes: tuple[Cause, ...]  #: One or two lines, the largest share first.


@dataclass(frozen=True, slots=True)
class Position:
    """Where a launch stands under the roofs of a GPU."""

    dtype: str  #: That of most operations: its arithmetic is the roof.
    operations: int  #: Of that dtype.
    roof: Roofline  #: The attainable rate, and each level's bytes, intensity and rate.


@dataclass(frozen=True, slots=True)
class Launched(Shown):
    """Which launch a record is of.

    Attributes
    ----------
    kernel : str
    gpu : str
        Name of the GPU that the model is of.
    grid, block : (int, int, int)
    launch : int
        Which launch of a program, from 0.
    launched_at : str
        `file:line` of the launch, where a program made it; else "".
    """

    kernel: str
    gpu: str
    grid: Extent
    block: Extent
    launch: int
    launched_at: str


@dataclass(frozen=True, slots=True)
class Profile(Launched):
    """What one launch did, and what bounds it, beside what :class:`Launched` says of it.

    Attributes
    ----------
    shared_bytes : int
        Dynamic shared memory of a block.
    totals : Counts
    lines : tuple of LineCounts
        By file and line.
    sites : tuple of SiteCounts
        By PTX line.
    traffic : Traffic
    resources : Resources or None
        The assembler's report.
    occupancy : Alternatives or None
        With the assembler's registers and shared memory, and what a change of them or of the block would give.
    units : tuple of Unit
        The slowest first.
    products : tuple of Products
        What tensor cores multiplied, what takes longest first.
    position : Position or None
        None where nothing was computed.
    verdict : Verdict or None
        None where nothing ran.
    findings : tuple of Finding
        TW701 and TW702, by line.
    notes : tuple of str
        What could not be said, and why.
    seconds : float
        Host time of the simulation; it says nothing of a GPU.
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
        """The least time of the launch on the GPU: that of its slowest unit; 0 where nothing ran."""
        return self.units[0].seconds if self.units else 0.0
