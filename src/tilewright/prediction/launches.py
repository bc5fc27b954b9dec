"""The predicted time of a launch: of one to be made, of one that was profiled, of one whose work is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from tilewright import machine
from tilewright.errors import ArgumentValueError, MissingExtraError
from tilewright.machine.timing import timing
from tilewright.prediction import multiprocessor, opcodes, workload
from tilewright.prediction.crew import Watched, watched
from tilewright.prediction.deadline import Deadline
from tilewright.prediction.model import Model, machine_cc
from tilewright.prediction.record import Change, Prediction, Share
from tilewright.prediction.sampling import Sampled, sampled
from tilewright.prediction.workload import Workload
from tilewright.profiling import instruments, profile
from tilewright.profiling.record import Profile
from tilewright.programs.program import Program
from tilewright.simt.following import Asked, Extents, LaunchOptions
from tilewright.simt.run.launch import alone
from tilewright.simt.run.limits import Limits
from tilewright.waiting import announced

#: What most published times are of predicted ones. Source: `benchmarks/prediction.py`.
BAND = (0.75, 1.35)
#: A stage that works for so much of the time is what limits.
_BUSY = 0.85


def predict(
    kernel: Any,
    grid: Extents,
    block: Extents,
    args: Sequence[Any],
    *,
    clock_mhz: int | None = None,
    all_blocks: bool = False,
    **options: Unpack[LaunchOptions],
) -> Prediction:
    """How long a launch takes on a GPU that need not be there.

    The launch is profiled on the simulated GPU; the vendor's assembler makes the machine code that the GPU would run.
    Of a large grid some blocks run that stand for the others, and arguments stay as they are.

    Parameters
    ----------
    kernel, grid, block, args
        As for :func:`tilewright.simt.launch`.
    clock_mhz : int, optional
        The clock that its multiprocessors sustain; the vendor's boost clock by default.
    all_blocks : bool
        Whether all blocks run, whose results are in the arguments then. They do in any case where the grid is small,
        where blocks wait for others, print or change global memory atomically, and where those that ran differ.
    **options
        `shared_bytes`, `gpu`, `seed`, `limits`, `memory`, `cooperative` and `cluster`, as for
        :func:`tilewright.simt.launch`. A GPU older than compute capability 7.5, which the assembler makes no code for,
        runs that of 7.5; the model's own work may take `limits.seconds` too. Clusters that the launch alone names count
        where warps wait for mbarriers; elsewhere each block is predicted by itself.

    Returns
    -------
    Prediction

    Raises
    ------
    ArgumentValueError
        The clock is no positive whole number.
    CompileError
        The machine code has what the model does not know: tensor memory, textures, bulk reductions, jump tables. Or the
        PTX is made for a newer compute capability than the GPU's.
    MissingExtraError
        The assembler or the disassembler is not installed.
    TilewrightError
        As :func:`tilewright.profile`.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright import catalogue
    >>> a = np.ones((64, 64), np.float32)
    >>> kernel = catalogue.find("results_8")
    >>> shape = kernel.launch_rule(64, 64, 64)
    >>> found = predict(kernel.program("float32"), shape.grid, shape.block, kernel.arguments(a, a, a.copy()))
    >>> found.kernel, 1e-6 < found.seconds < 1e-4
    ('several_results<float, 32, 8>', True)
    """
    asked = Asked(kernel, grid, block, args, **options)
    target = asked.target
    if clock_mhz is not None and not (isinstance(clock_mhz, int) and clock_mhz >= 1):
        raise ArgumentValueError(
            f"`clock_mhz` must be a whole number of 1 or more (got {clock_mhz!r}); leave it out for the boost clock"
        )
    program = asked.program
    machine_cc(program, target)
    with alone(program, grid, block, args, instruments(), **options) as blocks:
        found, roles = None if all_blocks else sampled(blocks, target), watched(blocks)
    if found is not None:
        return of_sample(found, program, target, clock_mhz, asked.limits, roles)
    seen = profile(program, grid, block, args, **options)
    return of_profile(seen, program, target, clock_mhz, asked.limits, roles)


def of_profile(
    seen: Profile,
    program: Program,
    gpu: machine.Gpu,
    clock_mhz: int | None = None,
    limits: Limits | None = None,
    roles: Watched | None = None,
    *,
    changes: bool = True,
) -> Prediction:
    """The time of a launch that was profiled; what a change would give takes as long again for each, if wanted.

    `roles` is what its first block was seen to do, where warps have roles.

    Raises MissingExtraError: the assembler or the disassembler is not installed.
    """
    if seen.resources is None or seen.occupancy is None:
        raise MissingExtraError("; ".join(seen.notes))
    work = workload.of_profile(seen, max(1, seen.occupancy.occupancy.active_blocks))
    work = replace(work, bulk_far=roles.far(work.blocks) if roles else 0.0)
    model = Model.of(program, work, gpu, Deadline.of(limits), roles)
    return of_work(seen, model, work, seen.grid, clock_mhz, changes=changes)


def of_sample(
    found: Sampled, program: Program, gpu: machine.Gpu, clock_mhz: int | None = None, limits: Limits | None = None,
    roles: Watched | None = None,
) -> Prediction:  # fmt: skip
    """The time of a launch of which some blocks were profiled."""
    work = replace(found.work, bulk_far=roles.far(found.work.blocks) if roles else 0.0)
    model = Model.of(program, work, gpu, Deadline.of(limits), roles)
    time = of_work(found.seen, model, work, found.seen.grid, clock_mhz)
    return replace(time, counted_blocks=found.blocks, notes=(found.note, *time.notes))


def of_work(
    seen: Profile,
    model: Model,
    work: Workload,
    grid: tuple[int, int, int],
    clock_mhz: int | None = None,
    *,
    changes: bool = True,
) -> Prediction:
    """The prediction of a workload, whose kernel was profiled in a launch of this or another grid."""
    gpu, mhz = model.gpu, clock_mhz or model.gpu.boost_mhz
    with announced("predicting", seen.kernel):
        time = model.time(work, mhz)
        different = _others(work, gpu) if changes else ()
        others = [Change(name, model.time(other, mhz).seconds) for name, other in different]
    found = time.simulated
    shares = sorted((Share(*item) for item in found.shares.items()), key=lambda share: -share.fraction)
    return Prediction(
        kernel=seen.kernel,
        launch=seen.launch,
        counted_in=seen.launch,
        launched_at=seen.launched_at,
        gpu=gpu.name,
        grid=grid,
        block=seen.block,
        seconds=time.seconds,
        least_seconds=time.seconds * BAND[0],
        most_seconds=time.seconds * BAND[1],
        clocks=round(found.clocks),
        clock_mhz=mhz,
        launch_seconds=timing(gpu).launch_us * 1e-6,
        registers=seen.resources.registers_per_thread if seen.resources else 0,
        resident_blocks=work.resident_blocks,
        counted_blocks=math.prod(seen.grid),
        waves=work.blocks / (work.resident_blocks * gpu.multiprocessors),
        instructions_per_clock=found.instructions / found.clocks,
        limiter=_limiter(found),
        shares=tuple(share for share in shares if share.fraction >= 0.005),
        busy=tuple(Share(*item) for item in found.busy.items()),
        copies_in_flight=found.flying / found.waits if found.waits else None,
        most_copies_in_flight=found.most_flying,
        changes=tuple(others),
        notes=(*_notes(model), *seen.notes),
    )


def _limiter(found: multiprocessor.Simulated) -> str:
    """The stage that always works, else issue where it takes most clocks, else what was waited for most."""
    stage = max(found.busy, key=lambda name: found.busy[name])
    if found.busy[stage] >= _BUSY:
        return {"requests": "memory instructions", "data": "shared memory and L1 bandwidth"}.get(stage, stage)
    waited = {name: share for name, share in found.shares.items() if name != multiprocessor.ISSUE}
    issues = found.shares[multiprocessor.ISSUE] >= 1 / 2
    return multiprocessor.ISSUE if issues else max(waited, key=lambda name: waited[name])


def _notes(model: Model) -> tuple[str, ...]:
    unknown = opcodes.unknown(one.name for one in model.code)
    return (f"taken as integer arithmetic, for the model does not know them: {', '.join(unknown)}",) * bool(unknown)


def _others(work: Workload, gpu: machine.Gpu) -> list[tuple[str, Workload]]:
    """The workload with one thing different each time."""
    found = []
    most = gpu.warps_per_multiprocessor // work.block_warps
    for blocks in (work.resident_blocks - 1, work.resident_blocks + 1):
        if 1 <= blocks <= most and work.blocks > gpu.multiprocessors:
            s = "s" * (blocks > 1)
            found.append((f"{blocks} block{s} on a multiprocessor", replace(work, resident_blocks=blocks)))
    if any(site.wavefronts > 1.02 * site.ideal_wavefronts for site in work.sites.values()):
        found.append(("without bank conflicts", work.without_conflicts()))
    if any(site.sectors > 1.02 * site.ideal_sectors for site in work.sites.values()):
        found.append(("all accesses coalesced", work.coalesced()))
    return found
