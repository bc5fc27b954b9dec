"""Profiles one launch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Unpack

from tilewright.errors import CompileError, MissingExtraError
from tilewright.observe.instruments import Banks, Coalescing, Divergence, Mix
from tilewright.observe.instruments.tensor_work import TensorWork
from tilewright.observe.profiling import caching, gathering
from tilewright.observe.profiling.counts import Served
from tilewright.observe.profiling.faults import findings
from tilewright.observe.profiling.products import products
from tilewright.observe.profiling.record import Profile
from tilewright.observe.profiling.units import position, traffic, units
from tilewright.observe.profiling.verdict import Evidence, verdict
from tilewright.simulate import machine
from tilewright.simulate.events import Instrument
from tilewright.simulate.launch_request import Extents, LaunchOptions, LaunchRequest
from tilewright.simulate.machine.alternatives import Alternatives, Demand, alternatives
from tilewright.simulate.machine.occupancy import Occupancy
from tilewright.simulate.observer import Run
from tilewright.simulate.programs.assembler import Resources
from tilewright.simulate.programs.launch_rules import tensor_columns
from tilewright.simulate.programs.program import Program
from tilewright.simulate.run.launch import launch


def instruments() -> tuple[Instrument, ...]:
    """New instruments for one profiled launch."""
    return Mix(), Divergence(), Coalescing(("global", "local"), record=True), Banks(), TensorWork()


def profile(
    kernel: Any, grid: Extents, block: Extents, args: Sequence[Any], **options: Unpack[LaunchOptions]
) -> Profile:
    """The profile of a launch from its PTX alone; :func:`tilewright.profile` adds what its machine code says."""
    request = LaunchRequest.by("profile", kernel, grid, block, args, options)
    run = launch(kernel, grid, block, args, instruments=instruments(), **options)
    return of_run(run, request.target, shared_bytes=request.shared_bytes)


def of_run(run: Run, gpu: machine.Gpu, *, shared_bytes: int = 0, launch: int = 0, launched_at: str = "") -> Profile:
    """The profile of a run with :func:`instruments`."""
    program = run.program
    resources, missing = _resources(program, gpu)
    fits = _occupancy(gpu, _demand(resources, run.block, program, shared_bytes))
    served, written, unknown = _served(run, gpu, fits.occupancy, shared_bytes)
    sites, lines, totals = gathering.gathered(run.results, program, served)
    moved = traffic(gpu, totals, written)
    blocks, fit = math.prod(run.grid), fits.occupancy if resources else None
    slow = units(gpu, totals, moved, blocks)
    return Profile(
        kernel=program.name,
        gpu=gpu.name,
        grid=run.grid,
        block=run.block,
        shared_bytes=shared_bytes,
        launch=launch,
        launched_at=launched_at,
        totals=totals,
        lines=lines,
        sites=sites,
        traffic=moved,
        resources=resources,
        occupancy=fits if resources else None,
        units=slow,
        products=products(gpu, sites, blocks, run.results["tensor work"].rows),
        position=position(gpu, totals, moved),
        verdict=verdict(Evidence(gpu, blocks, totals, slow, moved, lines, sites, fit)),
        findings=findings(program.name, sites, launch),
        notes=(*missing, *unknown),
        seconds=run.seconds,
    )


def _resources(program: Program, gpu: machine.Gpu) -> tuple[Resources | None, tuple[str, ...]]:
    """The assembler's report, or the reason why there is none; and its compute capability if that is not the GPU's."""
    cc = max(gpu.compute_capability, program.cc)
    made_for = f"registers are those on compute capability {cc[0]}.{cc[1]}, the target of the PTX"
    try:
        return program.resources(cc), (made_for,) * (cc != gpu.compute_capability)
    except (MissingExtraError, CompileError) as error:
        first = str(error).splitlines()[0]
        return None, (f"registers, spills and occupancy are unknown: {first}",)


def fits(program: Program, block: tuple[int, int, int], gpu: machine.Gpu, shared_bytes: int = 0) -> Alternatives:
    """A launch's occupancy, from the assembler's report.

    Raises MissingExtraError: there is no assembler; CompileError: it refuses the kernel.
    """
    resources = program.resources(max(gpu.compute_capability, program.cc))
    return _occupancy(gpu, _demand(resources, block, program, shared_bytes))


def _demand(resources: Resources | None, block: tuple[int, int, int], program: Program, shared_bytes: int) -> Demand:
    """The resources of a block; unknown registers count as no limit."""
    return Demand(
        registers_per_thread=resources.registers_per_thread if resources else 0,
        shared_bytes=(resources.shared_bytes if resources else program.shared_bytes) + shared_bytes,
        block_threads=math.prod(block),
        barriers=resources.barriers if resources else 0,
        tensor_columns=tensor_columns(program),
    )


@functools.lru_cache(maxsize=64)
def _occupancy(gpu: machine.Gpu, demand: Demand) -> Alternatives:
    """How many blocks fit, and how many with other resources; cached, because programs repeat launches."""
    return alternatives(gpu, demand)


def _served(
    run: Run, gpu: machine.Gpu, fit: Occupancy, shared_bytes: int
) -> tuple[tuple[Served, ...], int | None, tuple[str, ...]]:
    """The levels that served the sectors, the number of sectors written, and the reason if these are unknown."""
    asked = run.results["coalescing"]
    if not fit.active_blocks:
        return (), None, (f"caches are not modelled: no block of this kernel fits on {gpu.name}, by {fit.limiter}",)
    if not asked.requests.complete:
        return (), None, ("caches are not modelled: the launch requests more than is kept; profile a smaller one",)
    found, written = caching.served(
        asked,
        gpu,
        run.grid,
        run.block,
        shared_bytes=run.program.shared_bytes + shared_bytes,
        resident_blocks=fit.active_blocks,
        part=run.part,
        cluster=run.cluster,
    )
    return found, written, ()
