"""The climb: every kernel of the catalogue run, verified bit for bit, counted and timed.

A rung is what one catalogue record did with one pair of operands. The records are the only list there is: a kernel
added to the catalogue is a rung of the next climb.
"""

from __future__ import annotations

import difflib
import fnmatch
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright import catalogue
from tilewright.errors import ArgumentTypeError, ArgumentValueError, TilewrightError
from tilewright.rung import Climb, Counts, Footprint, Machine, Product, Rung
from tilewright.settings import Settings

if TYPE_CHECKING:
    from tilewright.gpu import Program
    from tilewright.machine import Gpu

Array = npt.NDArray[Any]
Device = Literal["simulated", "cuda"]
#: Operands (a, b) by the name of their dtype; all of the same shapes.
Pairs = Mapping[str, tuple[Array, Array]]
#: Called before each rung with (rungs done, rungs in all, name of the next), and once at the end.
Progress = Callable[[int, int, str], None]

#: A run shorter than this is repeated, and its fastest time kept: one short run times the page faults.
REPEAT_BELOW_SECONDS = 0.05
REPEATS = 3


def operands(m: int, n: int, k: int, dtype: str, seed: int = 0) -> tuple[Array, Array]:
    """Return random operands of shapes (m, k) and (k, n); the same for the same arguments everywhere.

    Floats are uniform in [-1, 1), so sums cancel and round at every step; integers are uniform in [-1000, 1000).

    Examples
    --------
    >>> a, b = operands(2, 3, 4, "int32")
    >>> a.shape, b.shape, a.dtype.name
    ((2, 4), (4, 3), 'int32')
    """
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)

    def one(shape: tuple[int, int]) -> Array:
        if kind.kind == "f":
            return random.uniform(-1, 1, shape).astype(kind)
        return random.integers(-1000, 1000, shape).astype(kind)

    return one((m, k)), one((k, n))


def select(records: Sequence[catalogue.Record], patterns: Iterable[str]) -> tuple[catalogue.Record, ...]:
    """Return the records that any pattern names: a kernel's name, a source row (`S9`), or either with `*` and `?`.

    Raises
    ------
    ArgumentValueError
        A pattern names nothing.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        names = {
            r.name
            for r in records
            if fnmatch.fnmatchcase(r.name, pattern) or fnmatch.fnmatchcase(r.source.lower(), pattern.lower())
        }
        if not names:
            near = difflib.get_close_matches(pattern, [r.name for r in records], n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else "see `tilewright kernels`"
            raise ArgumentValueError(f"kernels must name records of the catalogue (got {pattern!r}); {hint}")
        chosen |= names
    return tuple(r for r in records if r.name in chosen)


def climb(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    records: Sequence[catalogue.Record] | None = None,
    device: Device = "simulated",
    gpu: str | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Climb:
    """Run every record on one pair of operands.

    Parameters
    ----------
    a : array_like, shape (m, k)
    b : array_like, shape (k, n)
        Same dtype as `a`.
    records : sequence of catalogue.Record, optional
        Every record of the catalogue by default.
    device : {"simulated", "cuda"}
        Where GPU records run. CPU records always run on the host.
    gpu : str, optional
        GPU to take limits from; the settings' by default.
    seed : int, optional
        Order of warps and blocks on the simulated GPU.
    progress : callable, optional
        See `Progress`.

    Returns
    -------
    Climb

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        Operands whose shapes or dtypes do not fit.
    DeviceError
        Device `cuda` without a GPU.

    Examples
    --------
    >>> a, b = operands(8, 8, 8, "float32")
    >>> result = climb(a, b, records=select(catalogue.records(), ["S5"]))
    >>> [(rung.source, rung.verified) for rung in result.rungs]
    [('S5', True)]
    """
    left, right = check_operands(np.asarray(a), np.asarray(b))
    pairs = {left.dtype.name: (left, right)}
    return climb_dtypes(pairs, records=records, device=device, gpu=gpu, seed=seed, progress=progress)


def climb_dtypes(
    pairs: Pairs,
    *,
    records: Sequence[catalogue.Record] | None = None,
    device: Device = "simulated",
    gpu: str | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Climb:
    """Run every record in the first of its dtypes that `pairs` has operands for; see `climb`."""
    from tilewright import machine

    chosen = catalogue.records() if records is None else tuple(records)
    target = machine.gpu(gpu or Settings.from_environ().gpu)
    runner = _Runner(target, device, seed)
    rungs: list[Rung] = []
    for index, record in enumerate(chosen):
        if progress:
            progress(index, len(chosen), record.name)
        rungs.append(runner.rung(record, pairs))
    if progress:
        progress(len(chosen), len(chosen), "")
    a, b = next(iter(pairs.values()))
    used = tuple(dict.fromkeys(rung.dtype for rung in rungs))
    return Climb(runner.machine(), Product(a.shape[0], b.shape[1], a.shape[1], used, seed), tuple(rungs))


def check_operands(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the operands, in native byte order, if they can be multiplied.

    Raises
    ------
    ArgumentValueError
        Not matrices, an extent is 0, or the inner extents differ.
    ArgumentTypeError
        A dtype that is no number, or two different ones.
    """
    for name, operand in (("a", a), ("b", b)):
        if operand.ndim != 2:
            raise ArgumentValueError(
                f"`{name}` must be a matrix, of 2 dimensions (got {operand.ndim}, shape {operand.shape}); "
                f"reshape it, for example to (rows, columns)"
            )
        if operand.dtype.kind not in "fiu":
            raise ArgumentTypeError(
                f"`{name}.dtype` must be a real number's (got {operand.dtype}); convert it with .astype"
            )
        if 0 in operand.shape:
            raise ArgumentValueError(f"`{name}.shape` must have no extent of 0 (got {operand.shape})")
    if a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        raise ArgumentTypeError(
            f"`b.dtype` must equal `a.dtype` (got {b.dtype} and {a.dtype}); convert one of them with .astype"
        )
    if a.shape[1] != b.shape[0]:
        raise ArgumentValueError(
            f"`b.shape[0]` must equal `a.shape[1]` (got {b.shape[0]} and {a.shape[1]}); "
            f"shapes were {a.shape} and {b.shape}"
        )
    native = a.dtype.newbyteorder("=")
    return a.astype(native, copy=False), b.astype(native, copy=False)


def multiply(record: catalogue.Record, a: Array, b: Array, *, gpu: str | None = None) -> Array:
    """Multiply with one record, on the simulated GPU or, for a CPU record, on the host.

    Raises
    ------
    ArgumentValueError
        The record does not take these operands.
    """
    from tilewright import machine

    a, b = check_operands(a, b)
    reason = record.accepts(a.shape[0], b.shape[1], a.shape[1], a.dtype.name)
    if reason:
        raise ArgumentValueError(f"kernel {record.name!r} does not take these operands: {reason}")
    if record.backend == "cpu":
        return record.run_cpu(a, b)
    runner = _Runner(machine.gpu(gpu or Settings.from_environ().gpu), "simulated", None)
    program = record.program(a.dtype.name, runner.gpu.compute_capability)
    return runner.launch(record, program, a, b)[0]


def choose(records: Sequence[catalogue.Record], a: Array, b: Array, name: str | None = None) -> catalogue.Record:
    """Return the record of that name or, without a name, the first trusted CPU record that takes the operands.

    Raises
    ------
    ArgumentValueError
        No record has the name, or none takes the operands.
    """
    if name is not None:
        found = select(records, [name])
        if len(found) > 1:
            listed = ", ".join(record.name for record in found)
            raise ArgumentValueError(f"a kernel must be named by one record's name (got {name!r}: {listed})")
        return found[0]
    a, b = check_operands(a, b)
    reasons: list[str] = []
    for record in records:
        if record.backend != "cpu" or record.published:
            continue
        reason = record.accepts(a.shape[0], b.shape[1], a.shape[1], a.dtype.name)
        if not reason:
            return record
        reasons.append(f"{record.name}: {reason}")
    raise ArgumentValueError(f"no CPU kernel takes these operands ({'; '.join(reasons) or 'there are none'})")


def mismatches(c: Array, expected: Array) -> int:
    """Count the elements whose bits differ; two NaNs are the same answer whatever their payloads."""
    if c.shape != expected.shape or c.dtype != expected.dtype:
        return expected.size
    differ = (c != expected) | (np.signbit(c) != np.signbit(expected) if c.dtype.kind == "f" else False)
    if c.dtype.kind == "f":
        differ &= ~(np.isnan(c) & np.isnan(expected))
    return int(np.count_nonzero(differ))


class _Runner:
    """Runs records on one machine."""

    def __init__(self, gpu: Gpu, device: Device, seed: int | None) -> None:
        self.gpu = gpu
        self.device = device
        self.seed = seed

    def machine(self) -> Machine:
        """What `Climb.machine` says."""
        major, minor = self.gpu.compute_capability
        return Machine(
            gpu=self.gpu.name,
            compute_capability=f"{major}.{minor}",
            device=self.device,
            host=_host(),
            threads=Settings.from_environ().threads,
            tilewright=version("tilewright"),
        )

    def rung(self, record: catalogue.Record, pairs: Pairs) -> Rung:
        """Run one record; what goes wrong in a kernel is a finding of the rung, not the end of the climb."""
        dtype = next((d for d in record.dtypes if d in pairs), "")
        blank = Rung(
            name=record.name,
            title=record.title,
            source=record.source,
            order=record.order,
            published=record.published,
            device="cpu" if record.backend == "cpu" else self.device,
            dtype=dtype or record.dtypes[0],
            note="; ".join(filter(None, (record.limits, record.notes))),
        )
        if not dtype:
            return replace(blank, note=f"not run: takes {', '.join(record.dtypes)}, not {', '.join(pairs)}")
        a, b = pairs[dtype]
        reason = record.accepts(a.shape[0], b.shape[1], a.shape[1], dtype)
        if reason:
            return replace(blank, note=f"not run: {reason}")
        try:
            return self._cpu(blank, record, a, b) if record.backend == "cpu" else self._gpu(blank, record, a, b)
        except TilewrightError as error:
            return replace(blank, verified=False, error=str(error))

    def _cpu(self, blank: Rung, record: catalogue.Record, a: Array, b: Array) -> Rung:
        """Run a host record twice: the first call compiles it."""
        start = time.perf_counter()
        record.run_cpu(a, b)
        first = time.perf_counter() - start
        start = time.perf_counter()
        c = record.run_cpu(a, b)
        seconds = time.perf_counter() - start
        wrong = mismatches(c, record.reference(a, b))
        return replace(
            blank, verified=wrong == 0, mismatches=wrong, seconds=seconds, translate_seconds=max(0.0, first - seconds)
        )

    def _gpu(self, blank: Rung, record: catalogue.Record, a: Array, b: Array) -> Rung:
        """Run a GPU record plain for its time and bits, and once more with instruments for its counts."""
        program = record.program(blank.dtype, self.gpu.compute_capability)
        launch = record.launch_rule(a.shape[0], b.shape[1], a.shape[1])
        rung = replace(blank, grid=launch.grid, block=launch.block, footprint=self._footprint(program, launch.block))
        try:
            c, run = self.launch(record, program, a, b)
            seconds = run.seconds
            for _ in range(REPEATS - 1 if seconds < REPEAT_BELOW_SECONDS else 0):
                seconds = min(seconds, self.launch(record, program, a, b)[1].seconds)
            counts = self._counts(record, program, a, b) if self.device == "simulated" else Counts()
        except TilewrightError as error:
            return replace(rung, verified=False, error=str(error))
        wrong = mismatches(c, record.reference(a, b))
        return replace(
            rung,
            verified=wrong == 0,
            mismatches=wrong,
            seconds=seconds,
            translate_seconds=run.translate_seconds,
            counts=counts,
        )

    def launch(
        self, record: catalogue.Record, program: Program, a: Array, b: Array, instruments: Sequence[Any] = ()
    ) -> tuple[Array, Any]:
        """Launch a record and return c with the run."""
        m, n, k = a.shape[0], b.shape[1], a.shape[1]
        c: Array = np.zeros((m, n), a.dtype)
        shape = record.launch_rule(m, n, k)
        arguments = record.arguments(a, b, c)
        if self.device == "cuda":
            from tilewright.gpu import device

            return c, device.launch(program, shape.grid, shape.block, arguments)
        from tilewright import simt

        run = simt.launch(program, shape.grid, shape.block, arguments, instruments=tuple(instruments), seed=self.seed)
        return c, run

    def _counts(self, record: catalogue.Record, program: Program, a: Array, b: Array) -> Counts:
        """Launch with the counting instruments."""
        from tilewright.instruments import Banks, Coalescing, Mix

        results = self.launch(record, program, a, b, (Mix(), Coalescing(), Banks()))[1].results
        sectors, banks = results["coalescing"], results["banks"]
        return Counts(
            warp_instructions=results["mix"].warp_instructions,
            global_load_sectors=sectors.global_load_sectors,
            global_store_sectors=sectors.global_store_sectors,
            shared_load_wavefronts=banks.shared_load_wavefronts,
            shared_store_wavefronts=banks.shared_store_wavefronts,
            shared_bank_conflicts=banks.shared_bank_conflicts,
        )

    def _footprint(self, program: Program, block: Sequence[int]) -> Footprint:
        """Ask the assembler for the kernel's resources, and the machine for the occupancy they allow."""
        from tilewright.machine.occupancy import occupancy

        resources = program.resources()
        fit = occupancy(
            self.gpu,
            registers_per_thread=resources.registers_per_thread,
            shared_bytes=resources.shared_bytes,
            block_threads=int(np.prod(block)),
        )
        return Footprint(
            registers_per_thread=resources.registers_per_thread,
            shared_bytes=resources.shared_bytes,
            occupancy=fit.fraction,
            occupancy_limiter=fit.limiter,
        )


def _host() -> str:
    """The host processor's name, as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
