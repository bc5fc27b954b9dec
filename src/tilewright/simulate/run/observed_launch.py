"""Runs one launch once, with all its observers. Every kind of kernel launch on the simulated GPU ends here."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilewright.errors import KernelError, OutOfMemoryError, TilewrightError
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.simulate.events import Instrument
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.machine.host_memory import refused
from tilewright.simulate.observer import Launch, Observer, Part, Run
from tilewright.simulate.programs.clusters import cluster_of
from tilewright.simulate.programs.program import Program
from tilewright.simulate.run.execution import Execution
from tilewright.simulate.run.job import Job, Placed, Prepared, made_ready
from tilewright.simulate.run.memory import placed_again

#: Blocks to run for the other observers, if an observer needs only a part of a launch.
_LOOKED_AT = 32


class Alone:
    """Runs some blocks of a launch without the others; as a context manager it restores memory.

    Attributes
    ----------
    launch : Launch
        The whole launch.
    """

    def __init__(self, launch: Launch, values: Sequence[bytes], placed: Placed) -> None:
        self.launch = launch
        self._values, self._placed = values, placed
        self._restored = contextlib.ExitStack()
        self._changed: Callable[[], list[int]] | None = None

    def __enter__(self) -> Alone:
        return self

    def __exit__(self, *_: object) -> None:
        self._restored.close()

    @property
    def memory_bytes(self) -> int:
        """Bytes of global memory in use."""
        return self._placed.memory.used_bytes

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster, which run together; 1 without clusters."""
        about = self.launch
        return math.prod(cluster_of(about.program, about.cluster, about.grid, about.gpu) or ())

    @property
    def written(self) -> frozenset[int]:
        """Addresses of the allocations that the blocks have written."""
        changed = self._changed() if self._changed else ()
        return frozenset(changed) - {self._placed.params_address}

    def waits(self, instruments: Sequence[Instrument]) -> bool:
        """Whether blocks may wait for blocks of other clusters."""
        job = made_ready(self.launch, self._values, instruments)
        return self.launch.cooperative or job.ready.translation.waits_for_blocks

    def allowed(self, instruments: Sequence[Instrument]) -> bool:
        """Whether blocks may run without the others: no block waits for another, or prints and goes on."""
        job = made_ready(self.launch, self._values, instruments)
        clustered = math.prod(job.launch.cluster or ()) > 1
        prints = job.ready.translation.prints and self.launch.program.prints_on
        return not (clustered or self.waits(instruments) or prints)

    def run(
        self, part: Part, instruments: Sequence[Instrument], build: Program | None = None, limits: Limits | None = None
    ) -> Run:
        """Run blocks, of another build of the kernel or within other limits if such are given.

        Raises KernelError: the kernel failed; PtxError, LaunchError: another build cannot run.
        """
        placed = self._placed
        if self._changed is None:
            self._changed = self._restored.enter_context(placed.memory.restored())
        about = replace(self.launch, part=part, seed=None, limits=limits or self.launch.limits)
        if build is not None:
            about = replace(about, program=build)
            base = placed_again(about.program, self.launch.program, placed.memory, placed.module_base, self._restored)
            placed = replace(placed, module_base=base)
        job = made_ready(about, self._values, instruments)
        return _run(job, about.program.pack(self._values), placed, _Results([instruments]))


class Again:
    """Runs a launch again, from the memory with which it began."""

    def __init__(self, launch: Launch, values: Sequence[bytes], placed: Placed) -> None:
        self._launch, self._values, self._placed = launch, values, placed
        memory, places = placed.memory, placed.memory.allocations()
        self._refused = refused(sum(size for _, size in places))
        self._before = [(at, memory.view(at, size).copy()) for at, size in places if not self._refused]

    def run(self, seed: int, instruments: Sequence[Instrument], limits: Limits) -> Run:
        """Run it in the order of a seed, and restore what memory holds now.

        Raises KernelError: the kernel failed; OutOfMemoryError: the host has no room for the contents of its memory.
        """
        if self._refused:
            raise OutOfMemoryError(f"the contents of GPU memory are kept and restored, so {self._refused}")
        job = made_ready(replace(self._launch, seed=seed, limits=limits), self._values, instruments)
        with self._placed.memory.restored():
            for address, held in self._before:
                self._placed.memory.view(address, len(held))[:] = held
            return _run(job, self._launch.program.pack(self._values), self._placed, _Results([instruments]))


class _Results:
    """The results of a launch's instruments, for each observer that brings some."""

    def __init__(self, groups: Sequence[Sequence[Instrument]]) -> None:
        self._groups = groups
        #: Of all instruments, in their order; None if the launch has not ended.
        self.found: list[Any] | None = None

    def of(self, at: int) -> dict[str, Any]:
        """The results of one observer's instruments, by name."""
        if self.found is None:
            return {}
        start = sum(map(len, self._groups[:at]))
        group = self._groups[at]
        return {one.name: value for one, value in zip(group, self.found[start : start + len(group)], strict=True)}

    def all(self) -> dict[str, Any]:
        """All results by name; of several of one name, that of the last observer."""
        found: dict[str, Any] = {}
        for at in range(len(self._groups)):
            found |= self.of(at)
        return found


def observed(
    about: Launch, values: Sequence[bytes], placed: Placed, observers: Sequence[Observer], *, partly: bool = False
) -> Run:
    """Run a kernel whose arguments are bytes, as a driver gets them, with observers.

    Parameters
    ----------
    about : Launch
        The launch; the caller has checked its extents.
    values : sequence of bytes
        The bytes of each of the program's parameters; their addresses are in the memory of `placed`.
    placed : Placed
        Where it runs; with `params_address` 0 a parameter block is allocated for it, if it needs one.
    observers : sequence of Observer
        Each gets the launch, may add instruments, and gets its end.
    partly : bool
        Whether it is enough to run some blocks if an observer says so (`Observer.launching`).

    Raises
    ------
    LaunchError, PtxError, KernelError
        As :func:`tilewright.simt.launch`; observers have got it before.
    """
    results, groups = _Results(()), list[tuple[Instrument, ...]]()
    try:
        if observers:
            with Alone(about, values, placed) as blocks:
                enough = [observer.launching(about, blocks) for observer in observers]
                part = _part(about, blocks, observers) if partly and any(enough) else None
            if part is not None:
                ended(about, observers, part, None)
                return part
            groups += [tuple(observer.instruments(about)) for observer in observers]
            results = _Results(groups)
        job = made_ready(about, values, tuple(itertools.chain(*groups)))
        again = {at: Again(about, values, placed) for at, one in enumerate(observers) if one.repeats(about)}
        run = _run(job, about.program.pack(values), placed, results)
        for at, other in again.items():
            observers[at].again(about, replace(run, results=results.of(at)), other)
    except TilewrightError as error:
        ended(about, observers, None, error, results)
        raise
    except KeyboardInterrupt as interrupt:  # with the place, if the kernel was already running
        places = [one for one in interrupt.args if isinstance(one, KernelError)]
        ended(about, observers, None, places[0] if places else KernelError(f"{about.name}: stopped"), results)
        raise
    if observers:
        ended(about, observers, run, None, results)
    return run


def _part(about: Launch, blocks: Alone, observers: Sequence[Observer]) -> Run:
    """Run a few blocks, of a launch that need not run completely, for the other observers."""
    part = Part(0, min(_LOOKED_AT, math.prod(about.grid) // blocks.cluster_blocks))
    instruments = [instrument for observer in observers for instrument in observer.instruments(about)]
    nothing = Run(0.0, 0.0, True, 0, "", {}, about.program, about.grid, about.block, part)
    run = blocks.run(part, instruments) if instruments else nothing
    return replace(run, part=part, written=blocks.written)


def ended(
    about: Launch,
    observers: Sequence[Observer],
    run: Run | None,
    error: Exception | None,
    results: _Results | None = None,
) -> None:
    """Give every observer the end of a launch with its own results, even if Ctrl-C is pressed meanwhile."""
    with DeferredSigint():
        for at, observer in enumerate(observers):
            if results is not None and run is not None:
                observer.finished(about, replace(run, results=results.of(at)), None)
                continue
            if results is not None and isinstance(error, KernelError):
                error.results = results.of(at)
            observer.finished(about, run, error)
        if results is not None and isinstance(error, KernelError):
            error.results = results.all()


def unobserved(job: Job, params: bytes, placed: Placed) -> Run:
    """Run a job that nobody observes, with its packed parameters.

    Raises KernelError: as :func:`observed`.
    """
    return _run(job, params, placed, _Results(()))


def repeated(prepared: Prepared, params: bytes, placed: Placed) -> None:
    """Run a launch again that nobody observes, with packed parameters; it prints nothing.

    Raises LaunchError, PtxError, KernelError: as :func:`observed`.
    """
    job = prepared.job(params)
    if job.ready.translation.addresses_params:
        unobserved(job, params, placed)
    else:
        Execution(job, placed, params).run()


def _run(job: Job, params: bytes, placed: Placed, results: _Results) -> Run:
    """Run a job at its place, with its packed parameters: in device memory if something uses their addresses."""
    if not placed.params_address and (job.instruments or job.ready.translation.addresses_params):
        address = placed.memory.allocate(job.param_bytes)
        try:
            return _run(job, params, replace(placed, params_address=address), results)
        finally:
            placed.memory.free(address)
    launch, execution = job.launch, Execution(job, placed, params)
    try:
        execution.run()
    except (KernelError, KeyboardInterrupt) as error:
        results.found = execution.results()
        for failed in error.args if isinstance(error, KeyboardInterrupt) else (error,):
            failed.results = results.all()
        if isinstance(error, KernelError):
            error.printed = execution.printed()
        raise
    results.found = execution.results() if job.instruments else []
    return Run(
        execution.seconds,
        job.ready.seconds,
        job.ready.cached,
        execution.warp_instructions,
        execution.printed(),
        results.all(),
        launch.program,
        launch.grid,
        launch.block,
        launch.part,
        launch.cluster,
    )
