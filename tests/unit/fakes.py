"""Catalogue records that need no compiler, and an idle host for measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem.reference import mismatches
from tilewright.profiling import Counts, Sectors, Unit, Wavefronts
from tilewright.show.rates.turns import Host
from tilewright.simulate.ptx.tree import Module

Array = npt.NDArray[Any]
#: No other process works on it, so no turn is repeated; it never waits, and empties no cache.
IDLE = Host(others=lambda: 0.0, settle=lambda: None, evict=lambda: None)


def canonical(a: Array, b: Array) -> Array:
    """A product whose bits do not depend on BLAS: one element after another, in the operands' dtype."""
    c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        c += a[:, k : k + 1] * b[k : k + 1, :]
    return c


@dataclass(frozen=True)
class Shape:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Resources:
    registers_per_thread: int = 40
    shared_bytes: int = 2048
    barriers: int = 1


@dataclass(frozen=True)
class FakeProgram:
    """Knows its record, so that the fake launch can compute."""

    record: FakeRecord

    @property
    def module(self) -> Module:
        return Module((8, 0), "sm_90", 64)

    def resources(self) -> Resources:
        return Resources()


@dataclass(frozen=True)
class FakeRecord:
    """A record by the catalogue's interface; `wrong` elements of its product are off by one."""

    name: str
    source: str = "S5"
    title: str = "A product"
    backend: str = "cpu"
    dtypes: tuple[str, ...] = ("float32", "int32")
    order: str = "fma"
    published: bool = False
    limits: str = ""
    notes: str = ""
    wrong: int = 0
    refuses: str = ""
    fails: Exception | None = None
    edge: int = 16
    form: str = ""
    operands: str = "abc"
    takes: tuple[str, ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)

    def accepts(self, m: int, n: int, k: int, dtype: str) -> str | None:
        return self.refuses or (None if dtype in self.dtypes else f"takes {self.dtypes}")

    def reference(self, a: Array, b: Array) -> Array:
        return canonical(a, b)

    def wrong_elements(self, c: Array, a: Array, b: Array) -> int:
        return mismatches(c, self.reference(a, b))

    def unfit(self, cc: tuple[int, int]) -> str:
        return ""

    def run_cpu(self, a: Array, b: Array) -> Array:
        if self.fails:
            raise self.fails
        c = canonical(a, b)
        c.reshape(-1)[: self.wrong] += 1
        return c

    def program(self, dtype: str, cc: tuple[int, int]) -> FakeProgram:
        return FakeProgram(self)

    def blank(self, m: int, n: int, dtype: str) -> Array:
        return np.zeros((m, n), dtype)

    def launch_rule(self, m: int, n: int, k: int, batch: int = 1) -> Shape:
        e = self.edge
        return Shape((-(-n // e), -(-m // e), 1), (e, e, 1))

    def arguments(self, a: Array, b: Array, c: Array, more: Sequence[Array] = ()) -> tuple[Any, ...]:
        return (a, b, c)


@dataclass
class FakeRun:
    results: dict[str, Any]
    seconds: float = 0.25
    translate_seconds: float = 0.5


#: Stands for every instrument's result.
COUNTED = {
    "warp_instructions": 1000,
    "global_load_sectors": 200,
    "global_store_sectors": 30,
    "shared_load_wavefronts": 400,
    "shared_store_wavefronts": 50,
    "shared_bank_conflicts": 0,
}


def of_run(run: FakeRun, gpu: Any, *, shared_bytes: int = 0) -> Any:
    """Stands for profiling.of_run: what was counted, and one unit of the GPU that takes a microsecond."""
    seen = run.results["mix"]
    fronts = seen.shared_load_wavefronts
    totals = Counts(
        warp_instructions=seen.warp_instructions,
        global_loads=Sectors(sectors=seen.global_load_sectors),
        global_stores=Sectors(sectors=seen.global_store_sectors),
        shared_loads=Wavefronts(wavefronts=fronts, ideal_wavefronts=fronts - seen.shared_bank_conflicts),
        shared_stores=Wavefronts(wavefronts=(stores := seen.shared_store_wavefronts), ideal_wavefronts=stores),
    )
    units = (Unit("DRAM", 6400, "bytes", 1e-6),)
    return SimpleNamespace(totals=totals, units=units, resources=None, notes=("there is no assembler",))


def run_on_host(record: FakeRecord, a: Array, b: Array) -> Array:
    """Stands for host_kernels.run."""
    return record.run_cpu(a, b)


def launch(
    program: FakeProgram, grid: Any, block: Any, arguments: Any, shared_bytes: int = 0, **options: Any
) -> FakeRun:
    """Stands for simt.launch: writes the product, counts what the record says."""
    a, b, c = arguments
    c[:] = program.record.run_cpu(a, b)
    counted = SimpleNamespace(**{**COUNTED, **program.record.counts})
    return FakeRun({i.name: counted for i in options.get("instruments", ())})
