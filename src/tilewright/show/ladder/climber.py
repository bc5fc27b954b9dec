"""Runs one catalogue record on one machine: plain for its bits and time, then with instruments for its counts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ArgumentValueError, CompileError, KernelError, MissingExtraError, TilewrightError
from tilewright.ground.settings import Settings
from tilewright.multiply.backends import inventory
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.reference import canonical, mismatches
from tilewright.show.ladder.matrices import Array, operands
from tilewright.show.ladder.rung import Counts, Footprint, Machine, OffMultiples, Predicted, Rung
from tilewright.simulate import machine
from tilewright.simulate.machine.processor import host_name
from tilewright.version import __version__

if TYPE_CHECKING:
    from tilewright.multiply.backends.inventory import Row
    from tilewright.multiply.kernels.catalogue import LaunchShape, Record
    from tilewright.observe.profiling import Profile, Unit
    from tilewright.simulate.machine import Gpu
    from tilewright.simulate.programs import Program


#: What `--device` takes: a row of `tilewright.multiply.backends.inventory`, or one of its devices.
Device = str
#: Operands (a, b) by the name of their dtype; all of the same shapes.
Pairs = Mapping[str, tuple[Array, Array]]

#: A run shorter than this is repeated, and its fastest time kept: one short run times the page faults.
REPEAT_BELOW_SECONDS = 0.05
REPEATS = 3
#: The tolerance of S4's driver between the device's product and np.dot's, here relative to the largest element.
CLOSE = 1e-5
#: The (m, n, k), no multiples of their tiles, at which published specimens run too.
OFF_MULTIPLES = (31, 33, 32)


@dataclass(frozen=True, slots=True)
class Climber:
    """Runs records on one machine."""

    gpu: Gpu  #: The GPU whose limits give occupancy.
    row: Row  #: Where records for GPUs run.
    seed: int | None  #: Order of warps and blocks on the simulated GPU.
    #: The device: a backend that makes its own kernels, or `LaunchedProducts`.
    backend: Any
    #: Whether kernels are counted, predicted and run again for their times, or only verified.
    counted: bool = True

    @classmethod
    def on(cls, device: Device, gpu: str | None, seed: int | None) -> Climber:
        """Return a climber on a device.

        Raises ArgumentValueError: no device with kernels has that name, or no compiler supports the GPU any more.
        DeviceError: this machine has no such device.
        """
        limits, row = machine.chosen(gpu), inventory.row_of(device)
        if row is None or not row.kernels:
            known = ", ".join(inventory.with_kernels())
            raise ArgumentValueError(
                f"`device` must be one that the catalogue has kernels for: {known} (got {device!r})"
            )
        backend: Any = inventory.opened(f"{device}:{limits.key}" if device == "simulated" else device)
        simulated = not row.own_kernels and backend.simulated
        return cls(backend.gpu if simulated else limits, row, seed, backend)

    @property
    def simulates(self) -> bool:
        """Whether the device is simulated, so that instruments can observe it."""
        return not self.row.own_kernels and self.backend.simulated

    def machine(self) -> Machine:
        """The record for `Climb.machine`."""
        own = self.row.own_kernels
        return Machine(
            gpu=self.gpu.name if self.simulates else self.backend.name,
            compute_capability="" if own else ".".join(map(str, self.backend.cc)),
            limits="" if own else self.gpu.name,
            device=self.row.name,
            host=host_name(),
            threads=Settings.from_environ().threads,
            tilewright=__version__,
        )

    def rung(self, record: Record, pairs: Pairs) -> Rung:
        """Run one record; a kernel's error is noted on its rung and does not end the climb."""
        dtype = next((d for d in record.dtypes if d in pairs), "")
        blank = Rung(
            name=record.name,
            title=record.title,
            source=record.source,
            order=record.order,
            published=record.published,
            device="cpu" if record.backend == "cpu" else self.row.name,
            dtype=dtype or record.dtypes[0],
            note="; ".join(filter(None, (record.limits, record.notes))),
        )
        unfit = record.unfit(self.backend.cc) if record.backend == "gpu" and self.row.runs(record) else ""
        if not unfit and not any(element(taken).installed for taken in record.dtypes):
            return replace(blank, missing="gpu")
        if not dtype:
            return replace(blank, note=f"not run: takes {', '.join(record.dtypes)}, not {', '.join(pairs)}")
        if not self.row.runs(record):
            where = next(row.title for row in inventory.BACKENDS if row.runs(record))
            return replace(blank, note=f"not run: {where} run it")
        a, b = pairs[dtype]
        if reason := record.accepts(a.shape[0], b.shape[1], a.shape[1], dtype) or unfit:
            there = (key for key in machine.names() if not record.unfit(machine.gpu(key).compute_capability))
            return replace(blank, note=f"not run: {reason}", gpus=tuple(there) if unfit else ())
        try:
            if self.counted and record.published and record.backend == "gpu":
                blank = replace(blank, off_multiples=self._off_multiples(record, dtype))
            run = {"cpu": self._cpu, "gpu": self._gpu}.get(record.backend, self._own)
            return run(blank, record, a, b)
        except MissingExtraError as error:
            return replace(blank, missing=error.extra)
        except TilewrightError as error:
            return replace(blank, verified=False, error=str(error))

    def _off_multiples(self, record: Record, dtype: str) -> OffMultiples:
        """Run a specimen off its multiples: always simulated, since stray accesses could break a real GPU's run."""
        m, n, k = OFF_MULTIPLES
        a, b = operands(m, n, k, dtype)
        simulated = self if self.simulates else Climber.on("simulated", self.gpu.key, self.seed)
        try:
            c = simulated.launch(record, record.program(dtype, self.backend.cc), a, b)[0]
        except KernelError as error:
            return OffMultiples(m, n, k, error=str(error))
        return OffMultiples(m, n, k, record.wrong_elements(c, a, b))

    def vendor_rungs(self, pairs: Pairs) -> list[Rung]:
        """Return the library to compare with: cuBLAS on a real GPU if CuPy is installed, else np.dot."""
        if self.row.own_kernels:
            return [self._dot(dtype, a, b) for dtype, (a, b) in pairs.items()]
        if self.simulates:
            return []
        from tilewright.multiply.backends.cuda import cublas

        if not cublas.available():
            return []
        taken = {dtype: pair for dtype, pair in pairs.items() if dtype in cublas.DTYPES}
        blank = Rung("cublas", "The vendor's library", "-", "its own", True, "cuda", "")
        return [_of_library(blank, dtype, *cublas.multiply(a, b), canonical(a, b)) for dtype, (a, b) in taken.items()]

    def _cpu(self, blank: Rung, record: Record, a: Array, b: Array) -> Rung:
        """Run a host record twice: the first call compiles it."""
        from tilewright.multiply.backends.cpu import host_kernels

        start = time.perf_counter()
        host_kernels.run(record, a, b)
        first = time.perf_counter() - start
        start = time.perf_counter()
        c = host_kernels.run(record, a, b)
        seconds = time.perf_counter() - start
        return _verified(blank, record.wrong_elements(c, a, b), seconds, first - seconds)

    def _dot(self, dtype: str, a: Array, b: Array) -> Rung:
        """np.dot on the host, to which S4's driver compares times and results."""
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            c = np.dot(a, b)
            times.append(time.perf_counter() - start)
        blank = Rung("np_dot", "np.dot on the host", "-", "its own", True, "cpu", "")
        return _of_library(blank, dtype, c, min(times), canonical(a, b))

    def _own(self, blank: Rung, record: Record, a: Array, b: Array) -> Rung:
        """Run a device's own record as S4's driver does: twice, and compared with np.dot too."""
        c, first, second = self.own_product(record, a, b)
        dot = np.dot(a, b).astype(np.float64)
        close = bool(np.abs(c - dot).max(initial=0) <= CLOSE * np.abs(dot).max(initial=0))
        return _verified(replace(blank, close=close), record.wrong_elements(c, a, b), second, first - second)

    def own_product(self, record: Record, a: Array, b: Array) -> tuple[Array, float, float]:
        """Return c of a device's own record, and the seconds of its first and second launch."""
        from tilewright.multiply.problem.dtypes import dtype
        from tilewright.multiply.problem.kind import Kind

        operand = dtype(a.dtype)
        kind = Kind(operand.name, operand.name, operand.name, operand.accumulator)
        timed: tuple[Array, float, float] = self.backend.timed(a, b, kind, record.form)
        return timed

    def _gpu(self, blank: Rung, record: Record, a: Array, b: Array) -> Rung:
        """Run a GPU record plain for its time and bits, and once more with instruments for its counts."""
        program = record.program(blank.dtype, self.backend.cc)
        if not self.counted:
            c, run = self.launch(record, program, a, b)
            return _verified(blank, record.wrong_elements(c, a, b), run.seconds, run.translate_seconds)
        launch = record.launch_rule(a.shape[0], b.shape[1], a.shape[1])
        rung = replace(blank, grid=launch.grid, block=launch.block)
        try:
            rung = replace(rung, footprint=self._footprint(program, launch))
        except MissingExtraError:  # the kernel runs without the assembler's figures
            rung = replace(rung, note=f"{rung.note}; no registers: the assembler is not installed".lstrip("; "))
        try:
            c, run = self.launch(record, program, a, b)
            seconds = run.seconds
            for _ in range(REPEATS - 1 if seconds < REPEAT_BELOW_SECONDS else 0):
                seconds = min(seconds, self.launch(record, program, a, b)[1].seconds)
            seen = self._profiled(record, program, a, b) if self.simulates else None
        except TilewrightError as error:
            return replace(rung, verified=False, error=str(error))
        if seen is not None:
            limits, predicted = _predicted(seen, program, self.gpu)
            rung = replace(rung, counts=_counts(seen), limits=limits, predicted=predicted)
        return _verified(rung, record.wrong_elements(c, a, b), seconds, run.translate_seconds)

    def launch(
        self, record: Record, program: Program, a: Array, b: Array, instruments: Sequence[Any] = ()
    ) -> tuple[Array, Any]:
        """Launch a record and return c with the run."""
        c = record.blank(a.shape[0], b.shape[1], a.dtype.name)
        options = {"instruments": tuple(instruments), "seed": self.seed} if self.simulates else {}
        return c, self.backend.run(record, program, a, b, c, **options)

    def _profiled(self, record: Record, program: Program, a: Array, b: Array) -> Profile:
        """Launch with the counting instruments."""
        from tilewright.observe import profiling

        run = self.launch(record, program, a, b, profiling.instruments())[1]
        shared_bytes = record.launch_rule(a.shape[0], b.shape[1], a.shape[1]).shared_bytes
        return profiling.of_run(run, self.gpu, shared_bytes=shared_bytes)

    def _footprint(self, program: Program, launch: LaunchShape) -> Footprint:
        """The kernel's resources, from the assembler, and the occupancy that they allow."""
        from tilewright.simulate.machine.occupancy import occupancy
        from tilewright.simulate.programs.launch_rules import tensor_columns

        resources = program.resources()
        shared_bytes = resources.shared_bytes + launch.shared_bytes
        fit = occupancy(
            self.gpu,
            registers_per_thread=resources.registers_per_thread,
            shared_bytes=shared_bytes,
            block_threads=int(np.prod(launch.block)),
            barriers=resources.barriers,
            tensor_columns=tensor_columns(program),
        )
        return Footprint(
            registers_per_thread=resources.registers_per_thread,
            shared_bytes=shared_bytes,
            occupancy=fit.fraction,
            occupancy_limiter=fit.limiter,
        )


def _counts(seen: Profile) -> Counts:
    total = seen.totals
    return Counts(
        warp_instructions=total.warp_instructions,
        global_load_sectors=total.global_loads.sectors,
        global_store_sectors=total.global_stores.sectors,
        shared_load_wavefronts=total.shared_loads.wavefronts,
        shared_store_wavefronts=total.shared_stores.wavefronts,
        shared_bank_conflicts=total.in_shared.excess_wavefronts,
    )


def _predicted(seen: Profile, program: Program, gpu: Gpu) -> tuple[tuple[Unit, ...], Predicted]:
    """The units' least times and the predicted time; of PTX, and unknown, if the model refuses or programs miss."""
    from tilewright.observe.prediction import launches

    try:
        found = launches.of_profile(seen, program, gpu, changes=False)
    except (CompileError, MissingExtraError):
        return seen.units, Predicted()
    return found.limits, Predicted(found.seconds, found.least_seconds, found.most_seconds)


def _verified(rung: Rung, wrong: int, seconds: float, translate_seconds: float) -> Rung:
    """A rung that ran, with its count of wrong elements and its times."""
    before = max(0.0, translate_seconds)
    return replace(rung, verified=wrong == 0, mismatches=wrong, seconds=seconds, translate_seconds=before)


def _of_library(blank: Rung, dtype: str, c: Array, seconds: float, expected: Array) -> Rung:
    """The rung of a library's product, compared with the canonical one and never trusted."""
    wrong = mismatches(c, expected)
    note = "sums in an order of its own; shown for its time"
    return replace(blank, dtype=dtype, verified=wrong == 0, mismatches=wrong, seconds=seconds, note=note)
