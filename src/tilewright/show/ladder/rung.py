"""The results of a climb, as records; only `report` turns them into text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tilewright.ground.display import Shown
from tilewright.observe.profiling.record import Unit

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that the climb ran on."""

    gpu: str  #: The GPU that ran, simulated or real, or another device.
    limits: str  #: The GPU whose limits give occupancy; "" for a device with kernels of its own.
    compute_capability: str  #: That kernels were compiled for, `9.0`; "" for a device with kernels of its own.
    device: str  #: As `--device` takes it, without its number or name.
    host: str  #: The host's processor.
    threads: int  #: Host threads a simulated launch uses.
    tilewright: str  #: This package's version.


@dataclass(frozen=True, slots=True)
class Product:
    """The product: c of shape (m, n) from a of (m, k) and b of (k, n).

    `seed` drew the random operands and, on the simulated GPU, the order of warps and blocks. It is None for given
    operands in the machine's own order. `operations` is 2 m n k.
    """

    m: int
    n: int
    k: int
    dtypes: tuple[str, ...]
    seed: int | None

    @property
    def operations(self) -> int:
        """Multiplications and additions, 2 m n k."""
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of the instruments in one launch; requests, sectors and wavefronts as Nsight Compute defines them."""

    warp_instructions: int | None = None
    global_load_sectors: int | None = None
    global_store_sectors: int | None = None
    shared_load_wavefronts: int | None = None
    shared_store_wavefronts: int | None = None
    shared_bank_conflicts: int | None = None


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources of the compiled kernel, by the assembler, and the occupancy that they allow."""

    registers_per_thread: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    occupancy_limiter: str | None = None


@dataclass(frozen=True, slots=True)
class Predicted:
    """The launch's time on the GPU as the model predicts it, with its error band; not a measurement."""

    predicted_seconds: float | None = None
    predicted_least_seconds: float | None = None
    predicted_most_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class OffMultiples:
    """One run of a published specimen on the simulated GPU, at extents that are not multiples of its tile.

    `mismatches` counts the elements of c, of shape (m, n), that differ from the reference. It is None if the kernel
    stopped; `error` says why.
    """

    m: int
    n: int
    k: int
    mismatches: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Rung:
    """The result of one record."""

    #: Name, title, source and order are the record's.
    name: str
    title: str
    source: str
    order: str
    published: bool  #: Whether it is only shown, not trusted: a specimen as published, or the vendor's library.
    device: str  #: `cpu`, or the machine's.
    dtype: str  #: Of the operands.
    #: Whether every element equals the canonical product, bit for bit; None when the rung did not run.
    verified: bool | None = None
    mismatches: int | None = None  #: Elements that differ.
    #: Host time of the execution without instruments; on device `cuda`, the GPU's own time.
    seconds: float | None = None
    translate_seconds: float | None = None  #: Host time of compiling and translating the kernel before that.
    #: On devices with kernels of their own: whether every element is within 1e-5 of np.dot's largest element of
    #: np.dot's.
    close: bool | None = None
    #: Blocks of the launch, and threads of each.
    grid: Extent | None = None
    block: Extent | None = None
    counts: Counts = Counts()
    footprint: Footprint = Footprint()
    error: str = ""  #: Why the kernel stopped; "" if it did not.
    #: For published specimens: a run at a small shape that is not a multiple of their tile.
    off_multiples: OffMultiples | None = None
    note: str = ""  #: A remark on the numbers.
    #: The least time that each unit of the GPU needs for the counted work, the slowest first; empty without counts.
    limits: tuple[Unit, ...] = ()
    predicted: Predicted = Predicted()
    missing: str = ""  #: The extra without which it cannot run here; "" where it can.
    #: If this GPU cannot run it: the known GPUs that can, as `--gpu` takes them.
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Climb(Shown):
    """A finished climb."""

    machine: Machine
    problem: Product
    rungs: tuple[Rung, ...]
    interrupted: bool = False  #: Whether Ctrl-C ended it early.

    @property
    def missing(self) -> dict[str, int]:
        """Extras that are not installed, each with the number of kernels that did not run for it."""
        return dict(Counter(rung.missing for rung in self.rungs if rung.missing))

    @property
    def trusted(self) -> bool:
        """Whether every rung that ran and is no published specimen verified."""
        return all(rung.verified is not False and not rung.error for rung in self.rungs if not rung.published)
