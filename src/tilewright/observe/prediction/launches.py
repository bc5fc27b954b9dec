"""The predicted time of a launch: of a new one, of a profiled one, or of a workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from tilewright.errors import ArgumentValueError, CompileError, LimitError, MissingExtraError
from tilewright.ground.lazy_exports import public
from tilewright.ground.progress import announced
from tilewright.observe import profiling
from tilewright.observe.prediction import multiprocessor, opcodes, workload
from tilewright.observe.prediction.crew import Watched, watched
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.model import Model, Time, machine_cc
from tilewright.observe.prediction.polls import polled_once
from tilewright.observe.prediction.record import Change, Prediction, Share
from tilewright.observe.prediction.sampling import Sampled, sampled
from tilewright.observe.prediction.workload import Workload
from tilewright.observe.profiling.record import Profile, Unit, Verdict
from tilewright.observe.profiling.verdict import COALESCED, IN_REGISTERS, WITHOUT_CONFLICTS, Evidence, verdict
from tilewright.simulate import machine
from tilewright.simulate.events import Instrument
from tilewright.simulate.installed_device import completed, installed_device
from tilewright.simulate.launch_request import Extents, LaunchOptions, LaunchRequest, Limits
from tilewright.simulate.machine.timing import timing
from tilewright.simulate.observer import BlocksAlone, Launch, Run
from tilewright.simulate.programs.program import Program
from tilewright.simulate.run.launch import OfCaller

#: Errors that leave a finished launch without a prediction.
REFUSED = (CompileError, LimitError, MissingExtraError)
#: Least part of the time that a mended kernel must save for its rule to apply.
WORTH = 0.1
#: Most published times are within these multiples of the predicted ones. Source: `benchmarks/prediction.py`.
BAND = (0.75, 1.35)


@public
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
    """The time of a launch on a GPU that need not be present.

    The launch is profiled on the simulated GPU, and the vendor's assembler makes the GPU's machine code. For a large
    grid, some blocks run and represent the others; then the arguments do not change.

    Parameters
    ----------
    kernel, grid, block, args
        As for :func:`tilewright.simt.launch`.
    clock_mhz : int, optional
        The clock that the multiprocessors sustain; by default the vendor's boost clock.
    all_blocks : bool
        Whether all blocks run; then their results are in the arguments. All run in any case if the grid is small,
        if blocks wait for others, print or change global memory atomically, or if the sampled blocks differ.
    **options
        `shared_bytes`, `gpu`, `seed`, `limits`, `memory`, `cooperative` and `cluster`, as for
        :func:`tilewright.simt.launch`. A GPU older than compute capability 7.5, for which the assembler makes no
        code, gets that of 7.5. The model itself may also take `limits.seconds`. Clusters given only at the launch
        count if warps wait for mbarriers; otherwise each block is predicted alone.

    Returns
    -------
    Prediction

    Raises
    ------
    ArgumentValueError
        The clock is no positive whole number.
    CompileError
        The model does not support the machine code: textures, bulk reductions, jump tables. Or the
        PTX targets a newer compute capability than the GPU's.
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
    asked = completed(LaunchRequest.by("predict", kernel, grid, block, args, options), installed_device())
    target = asked.target
    if clock_mhz is not None and not (isinstance(clock_mhz, int) and clock_mhz >= 1):
        raise ArgumentValueError(
            f"`clock_mhz` must be a whole number of 1 or more (got {clock_mhz!r}); leave it out for the boost clock"
        )
    program = asked.program
    machine_cc(program, target)
    counting = _Counting(target, sample=not all_blocks)
    run = counting.launched(replace(asked, kernel=program), partly=True)
    if counting.sample is not None:
        return of_sample(counting.sample, program, target, clock_mhz, asked.limits, counting.roles)
    seen = profiling.of_run(run, target, shared_bytes=asked.shared_bytes)
    return of_profile(seen, program, target, clock_mhz, asked.limits, counting.roles)


class _Counting(OfCaller):
    """The instruments of a profile; and what the first block's warps do, if they have roles.

    With `sample` some blocks run first, and the others need not run if these represent them.
    """

    def __init__(self, gpu: machine.Gpu, *, sample: bool) -> None:
        super().__init__(profiling.instruments())
        self.sample: Sampled | None = None
        self.roles: Watched | None = None
        self._gpu, self._may_sample, self._began = gpu, sample, False

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        """Run some blocks of the launch, and none of those that its kernel makes."""
        if alone is None or self._began:
            return False
        self._began = True
        self.sample = sampled(alone, self._gpu) if self._may_sample else None
        self.roles = watched(alone)
        return self.sample is not None

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """None where a sample is enough."""
        given = super().instruments(launch) if self.sample is None else ()
        return (*given, *self.roles.instruments) if given and self.roles else given

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Keep the results, and what the first cluster did."""
        super().finished(launch, run, error)
        if self.roles and run is not None and "roles" in run.results:
            self.roles = self.roles.of_run(run)


@public
def profile(
    kernel: Any, grid: Extents, block: Extents, args: Sequence[Any], **options: Unpack[LaunchOptions]
) -> Profile:
    """Run a kernel on the simulated GPU, and report what it did and what bounds it.

    Parameters
    ----------
    kernel, grid, block, args
        As for :func:`tilewright.simt.launch`.
    **options
        `shared_bytes`, `gpu`, `seed`, `limits`, `memory`, `cooperative` and `cluster`, as there. The model uses the
        rates, caches and limits of `gpu`. Counts do not depend on `seed`.

    Returns
    -------
    Profile
        With the limits and the verdict of the GPU's machine code; of the PTX, if the assembler is not installed or the
        model of :func:`tilewright.predict` rejects the kernel.

    Raises
    ------
    TilewrightError
        As :func:`tilewright.simt.launch`.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright.programs import Program
    >>> text = 'extern "C" __global__ void double_it(int *x) { x[threadIdx.x] *= 2; }'
    >>> seen = profile(Program.from_cuda(text, "double_it"), 1, 64, (np.arange(64, dtype=np.int32),))
    >>> seen.totals.global_loads.requests, seen.totals.global_loads.sectors_per_request, seen.verdict.rule
    (2, 4.0, 'few blocks')
    """
    asked = completed(LaunchRequest.by("profile", kernel, grid, block, args, options), installed_device())
    program, counting = asked.program, _Counting(asked.target, sample=False)
    run = counting.launched(replace(asked, kernel=program))
    seen = profiling.of_run(run, asked.target, shared_bytes=asked.shared_bytes)
    try:
        return judged(seen, of_profile(seen, program, asked.target, None, asked.limits, counting.roles))
    except REFUSED:
        return seen


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
    """The time of a profiled launch. With `changes`, each change takes as long again.

    `roles` says what the first block's warps did, if they have roles.
    """
    if seen.resources is None or seen.occupancy is None:
        raise MissingExtraError("; ".join(seen.notes))
    work = workload.of_profile(seen, max(1, seen.occupancy.occupancy.active_blocks))
    work = work.executing(polled_once(program, work.executed))
    work = replace(work, bulk_far=roles.far(work) if roles else 0.0)
    model = Model.of(program, work, gpu, Deadline.of(limits), roles)
    return of_work(seen, model, work, seen.grid, clock_mhz, changes=changes)


def of_sample(
    found: Sampled,
    program: Program,
    gpu: machine.Gpu,
    clock_mhz: int | None = None,
    limits: Limits | None = None,
    roles: Watched | None = None,
) -> Prediction:
    """The time of a launch from the profile of some blocks."""
    work = replace(found.work, bulk_far=roles.far(found.work) if roles else 0.0)
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
    """The prediction for a workload whose kernel was profiled, in a launch of this or another grid."""
    gpu, mhz = model.gpu, clock_mhz or model.gpu.boost_mhz
    with announced("predicting", seen.kernel):
        time = model.time(work, mhz)
        limits = multiprocessor.works(time.simulated, gpu, min(gpu.multiprocessors, work.blocks), mhz)
        found, tried = _verdict(seen, model, work, time, limits, mhz)
        others = tuple(_others(work, model, mhz, tried)) if changes else ()
    simulated = time.simulated
    shares = sorted((Share(*item) for item in simulated.shares.items()), key=lambda share: -share.fraction)
    return Prediction(
        kernel=seen.kernel,
        launch=seen.launch,
        counted_in=seen.launch,
        launched_at=seen.launched_at,
        gpu=gpu.name,
        grid=grid,
        block=seen.block,
        seconds=time.seconds,
        least_seconds=max(time.seconds * BAND[0], *(unit.seconds for unit in limits)),
        most_seconds=time.seconds * BAND[1],
        clocks=round(simulated.clocks),
        clock_mhz=mhz,
        launch_seconds=timing(gpu).launch_us * 1e-6,
        registers=seen.resources.registers_per_thread if seen.resources else 0,
        resident_blocks=work.resident_blocks,
        counted_blocks=math.prod(seen.grid),
        waves=work.blocks / (work.resident_blocks * gpu.multiprocessors),
        instructions_per_clock=simulated.instructions / simulated.clocks,
        verdict=found,
        limits=limits,
        shares=tuple(share for share in shares if share.fraction >= 0.005),
        copies_in_flight=simulated.flying / simulated.waits if simulated.waits else None,
        most_copies_in_flight=simulated.most_flying,
        changes=others,
        notes=(*_notes(model), *seen.notes),
    )


def _verdict(
    seen: Profile, model: Model, work: Workload, time: Time, limits: Sequence[Unit], mhz: int
) -> tuple[Verdict, dict[str, float]]:
    """The verdict on a launch, from its predicted time and its counts; and the times of the changes that were tried."""
    fit, shares = seen.occupancy.occupancy if seen.occupancy else None, time.simulated.shares | time.simulated.busy
    counted = (seen.totals, limits, seen.traffic, seen.lines, seen.sites)
    evidence = Evidence(model.gpu, work.blocks, *counted, fit, shares, *model.local(), model.cap)
    tried: dict[str, float] = {}
    while True:
        found = verdict(evidence, tried)
        assert found is not None, "a kernel issues at least its exit"
        if not found.change:
            return found, tried
        seconds = tried[found.change] = model.time(_MENDED[found.change](work), mhz).seconds
        if seconds <= (1 - WORTH) * time.seconds:
            return replace(found, mended_seconds=seconds), tried


def judged(seen: Profile, time: Prediction | None) -> Profile:
    """A profile with the limits and the verdict of its machine code, if its time is predicted."""
    return seen if time is None else replace(seen, units=time.limits, verdict=time.verdict)


def _notes(model: Model) -> tuple[str, ...]:
    unknown = opcodes.unknown(one.name for one in model.code)
    return (f"taken for ALU instructions, being unknown to the model: {', '.join(unknown)}",) * bool(unknown)


#: Workloads of mended kernels, by change.
_MENDED: dict[str, Callable[[Workload], Workload]] = {
    WITHOUT_CONFLICTS: Workload.without_conflicts,
    COALESCED: Workload.coalesced,
    IN_REGISTERS: lambda work: replace(work, local=False),
}


def _others(work: Workload, model: Model, mhz: int, known: Mapping[str, float]) -> Iterator[Change]:
    """The times with one thing different, of which some are known."""
    gpu, names = model.gpu, set(known)
    most = min(gpu.warps_per_multiprocessor // work.block_warps, gpu.blocks_per_multiprocessor)
    filling = -(-work.blocks // gpu.multiprocessors)  # blocks of the grid for each multiprocessor
    for blocks in (work.resident_blocks - 1, work.resident_blocks + 1):
        if 1 <= blocks <= most and filling > min(blocks, work.resident_blocks):
            other = model.time(replace(work, resident_blocks=blocks), mhz)
            yield Change(f"{blocks} block{'s' * (blocks > 1)} on a multiprocessor", other.seconds)
    if any(site.wavefronts > 1.02 * site.ideal_wavefronts for site in work.sites.values()):
        names.add(WITHOUT_CONFLICTS)
    if any(site.sectors > 1.02 * site.ideal_sectors for site in work.sites.values()):
        names.add(COALESCED)
    for name, mend in _MENDED.items():
        if name in names:
            yield Change(name, known[name] if name in known else model.time(mend(work), mhz).seconds)
