"""Launching a kernel on the simulated GPU."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError, KernelError, LaunchError, TilewrightError
from tilewright.native.interrupts import HeldBack
from tilewright.programs import extent, residency
from tilewright.programs.clusters import cluster_of
from tilewright.programs.launch_rules import broken
from tilewright.programs.program import Program
from tilewright.programs.staging import StagedArguments, stage
from tilewright.public import public
from tilewright.simt.events import GLOBAL_BASE, Instrument
from tilewright.simt.following import Asked, Extents, LaunchOptions, followed
from tilewright.simt.observer import Launch, Observer, Part, Run
from tilewright.simt.run.allocations import ALIGNMENT_BYTES
from tilewright.simt.run.execution import Execution
from tilewright.simt.run.job import Job, Placed, made_ready
from tilewright.simt.run.limits import Limits
from tilewright.simt.run.memory import Memory
from tilewright.simt.run.nested import Device, device_of, room_bytes, run_with_launches
from tilewright.simt.run.staging import Scene, argument_facts, given_memory, needed_bytes
from tilewright.simt.run.variables import placed_again
from tilewright.waiting import announced

#: Most bytes of one access to shared memory. Source: PTX ISA, 9.7.9.8 (ld: .v4 of 32 bits).
_VECTOR_BYTES = 16
#: Blocks to run for the other observers, if an observer needs only a part of a launch.
_LOOKED_AT = 32


@public
def launch(
    kernel: Any,
    grid: Extents,
    block: Extents,
    args: Sequence[Any],
    shared_bytes: int = 0,
    instruments: Sequence[Instrument] = (),
    limits: Limits | None = None,
    seed: int | None = None,
    memory: Memory | None = None,
    gpu: str | None = None,
    *,
    cooperative: bool = False,
    cluster: Extents | None = None,
) -> Run:
    """Run a kernel on the simulated GPU and wait for it.

    Parameters
    ----------
    kernel : Program, Python function or numba.cuda.jit object
        The latter two are specialised for the arguments as Numba does.
    grid, block : int or sequence of 1 to 3 int
        Blocks of the grid and threads of a block, x first.
    args : sequence
        NumPy arrays of any strides (copied in, and back unless read-only; views that share elements share memory),
        `DeviceArray`, or numbers; None is a null pointer.
    shared_bytes : int
        Dynamic shared memory of a block.
    instruments : sequence of Instrument
        Observers; their results are in `Run.results` by name.
    limits : Limits, optional
        Limits of instructions and time.
    seed : int, optional
        Shuffles the order of blocks, and of warps in a block; without it both ascend.
    memory : Memory, optional
        Global memory to use; by default that of the `with` block or of the `DeviceArray` arguments, or else a fresh
        one. It keeps the variables of C++ and PTX programs from launch to launch.
    gpu : str, optional
        GPU whose limits apply, by its name in `tilewright gpus`; `TILEWRIGHT_GPU`, or the H100, by default.
    cooperative : bool
        Whether the grid's blocks may wait for each other (`cooperative_groups::this_grid().sync()`). Such a grid must
        not have more blocks than the GPU holds at once. Numba kernels that do so are always launched this way.
    cluster : int or sequence of 1 to 3 int, optional
        Blocks of a cluster, at most 16 in all; the grid must be a multiple of it. The default is the kernel's own
        (`__cluster_dims__`).

    Returns
    -------
    Run

    Raises
    ------
    LaunchError, ArgumentTypeError
        A launch that no GPU would accept, or arguments that do not fit the kernel.
    PtxError
        The kernel uses an instruction that the machine does not have.
    KernelError
        The kernel failed: an access out of bounds, a deadlock, a limit. NumPy arguments are unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright.programs import Program
    >>> text = '''
    ... .version 8.0 .target sm_90 .address_size 64
    ... .visible .entry double_it(.param .u64 x) {
    ...   .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ...   ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    ...   ld.global.u32 %r2, [%rd3]; add.s32 %r2, %r2, %r2; st.global.u32 [%rd3], %r2; ret;
    ... }'''
    >>> x = np.arange(4, dtype=np.int32)
    >>> run = launch(Program.from_ptx(text), 1, 4, (x,))
    >>> x.tolist()
    [0, 2, 4, 6]
    """
    asked = Asked(kernel, grid, block, args, shared_bytes, limits, seed, memory, gpu, cooperative, cluster)
    return launched(asked, instruments)


def launched(asked: Asked, instruments: Sequence[Instrument]) -> Run:
    """Run a requested launch with instruments.

    Raises LaunchError, ArgumentTypeError, PtxError, KernelError: as :func:`launch`.
    """
    check_options(asked)
    _check_instruments(instruments)
    asked = followed(asked)
    about = _about(asked)
    program = about.program
    observers = [instrument.name for instrument in instruments]
    if len(set(observers)) < len(observers):
        raise LaunchError(
            f"{program.name}: `instruments` must have different names, since results are found by name (got "
            f"{', '.join(observers)}); leave one out, or give it another `name`"
        )
    memory = given_memory(program.name, asked.args, asked.memory)
    with _staged(about, asked.args, instruments, memory) as (job, values, placed, staged):
        device = _device(placed, job.launch, lambda: _run(job, values, placed), ())
        run = run_with_launches(job.launch, values, device)
        staged.copy_back(placed.memory.clear)
        return run


def run_apart(asked: Asked, observers: Sequence[Observer], *, index: int, source_line: str) -> None:
    """Run a launch only for observers: arguments and memory stay unchanged.

    Raises LaunchError, ArgumentTypeError, PtxError, KernelError: as :func:`launch`.
    """
    about = replace(_about(asked), index=index, source_line=source_line)
    for observer in observers:
        if observer.launches_only:
            observer.launching(about)
    needing = [observer for observer in observers if not observer.launches_only]
    if not needing:
        return
    memory = given_memory(about.name, asked.args, asked.memory) or Memory()
    with _staged(about, asked.args, (), memory) as (_, values, placed, staged), memory.restored():
        about = replace(about, arguments=tuple(argument_facts(about.program, asked.args, staged)))

        def first() -> Run:
            return observed(about, values, memory, placed.module_base, needing, placed.workspace)

        run_with_launches(about, values, _device(placed, about, first, needing))


def _device(placed: Placed, about: Launch, first: Callable[[], Run], observers: Sequence[Observer]) -> Device:
    """The device of a launch; its kernel's own launches run there with the observers."""

    def run(one: Launch, values: Sequence[bytes]) -> Run:
        return first() if one is about else observed(one, values, placed.memory, placed.module_base, observers)

    return device_of(placed, about.program.ptx, run, observers)


def _about(asked: Asked) -> Launch:
    """The requested launch, checked as a GPU would."""
    program, target = asked.program, asked.target
    blocks, threads = extent.checked(program.name, asked.grid, asked.block)
    shared_bytes = _whole(program.name, asked.shared_bytes)
    for broken_rule in broken(target, blocks, threads, program.shared_bytes, shared_bytes):
        raise LaunchError(f"{program.name}: {broken_rule.sentence}")
    about = Launch(
        program.name, program, blocks, threads, shared_bytes, gpu=target, limits=asked.limits or Limits(),
        seed=asked.seed, cooperative=asked.cooperative or residency.waits_for_grid(program),
        cluster=extent.cluster(program.name, asked.cluster),
    )  # fmt: skip
    if about.cooperative and (wrong := residency.too_many(program, target, blocks, threads, about.shared_bytes)):
        raise LaunchError(f"{program.name}: {wrong}; launch fewer, and let each do several parts in a loop")
    return about


def _whole(name: str, shared_bytes: Any) -> int:
    """A block's dynamic shared memory, which must be a number of bytes."""
    if not isinstance(shared_bytes, int | np.integer) or isinstance(shared_bytes, bool) or shared_bytes < 0:
        raise LaunchError(f"{name}: `shared_bytes` must be a whole number from 0 on (got {shared_bytes!r})")
    return int(shared_bytes)


def check_options(asked: Asked) -> None:
    """Refuse options of the wrong type.

    Raises ArgumentTypeError, ArgumentValueError: an option is wrong; the message names it.
    """
    for name, value, kind in (("limits", asked.limits, Limits), ("memory", asked.memory, Memory)):
        if value is not None and not isinstance(value, kind):
            raise ArgumentTypeError(
                f"`{name}` must be a tilewright.simt.{kind.__name__} (got {value!r}); leave it out for the default"
            )
    seed = asked.seed
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if seed is not None and (not whole or seed < 0):
        raise ArgumentValueError(
            f"`seed` must be a whole number from 0 on (got {seed!r}); leave it out for no shuffling"
        )


def _check_instruments(instruments: Any) -> None:
    if not isinstance(instruments, Sequence):
        raise ArgumentTypeError(
            f"`instruments` must be a sequence (got {instruments!r}); write instruments=(x,) for one"
        )
    for i, instrument in enumerate(instruments):
        if not isinstance(instrument, Instrument):
            raise ArgumentTypeError(
                f"`instruments[{i}]` must be an instrument (got {instrument!r}), as tilewright.instruments.Banks()"
            )


@contextlib.contextmanager
def _staged(
    about: Launch, args: Sequence[Any], instruments: Sequence[Instrument], memory: Memory | None
) -> Iterator[tuple[Job, Sequence[bytes], Placed, StagedArguments]]:
    """A launch with its arguments copied in; in a new memory if none is given."""
    program = about.program
    # Nothing is placed yet; any address works that does not count as a small number.
    job = made_ready(about, program.marshal(args, lambda value: GLOBAL_BASE), instruments)
    layout = job.ready.translation.layout
    kept = memory is not None
    if memory is None:
        needed = needed_bytes(args) + layout.module_bytes + room_bytes(program)
        memory = Memory(needed + layout.param_bytes + ALIGNMENT_BYTES * 5)
    scene = Scene(memory)
    try:
        # Arrays come last, so that an access past the last one is outside the memory in use.
        module_base = scene.variables(program, kept=kept) if layout.module_bytes else 0
        workspace = scene.workspace(about.cooperative)
        placed = Placed(memory, module_base, scene.allocate(job.param_bytes), workspace)
        staged = stage(args, scene)
        yield job, program.marshal(args, staged.address_of), placed, staged
    finally:
        scene.close()


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
        job = made_ready(self.launch, self._values, instruments, _VECTOR_BYTES)
        return self.launch.cooperative or job.ready.translation.waits_for_blocks

    def allowed(self, instruments: Sequence[Instrument]) -> bool:
        """Whether blocks may run without the others: no block waits for another or prints."""
        job = made_ready(self.launch, self._values, instruments, _VECTOR_BYTES)
        clustered = math.prod(job.launch.cluster or ()) > 1
        return not (clustered or self.waits(instruments) or job.ready.translation.prints)

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
        return _run(made_ready(about, self._values, instruments, _VECTOR_BYTES), self._values, placed)


@contextlib.contextmanager
def alone(
    kernel: Any, grid: Extents, block: Extents, args: Sequence[Any], instruments: Sequence[Instrument] = (),
    **options: Unpack[LaunchOptions],
) -> Iterator[Alone]:  # fmt: skip
    """A launch of which some blocks can run alone, with such instruments; arguments stay unchanged.

    Parameters are those of :func:`launch`.

    Raises LaunchError, ArgumentTypeError, PtxError: as :func:`launch`.
    """
    asked = Asked(kernel, grid, block, args, **options)
    check_options(asked)
    about, memory = _about(asked), given_memory(asked.program.name, args, asked.memory)
    with (
        _staged(about, args, instruments, memory) as (_, values, placed, _),
        Alone(about, values, placed) as blocks,
    ):
        yield blocks


def observed(
    about: Launch, values: Sequence[bytes], memory: Memory, module_base: int, observers: Sequence[Observer],
    workspace: int = 0,
) -> Run:  # fmt: skip
    """Run a kernel whose arguments are bytes, as a driver gets them, with observers.

    Parameters
    ----------
    about : Launch
        The launch; the caller has checked its extents.
    values : sequence of bytes
        The bytes of each of the program's parameters; their addresses are in `memory`.
    memory, module_base, workspace
        As in :class:`tilewright.simt.run.job.Placed`.
    observers : sequence of Observer
        Each gets the launch, may add instruments, and gets its end.

    Raises
    ------
    LaunchError, PtxError, KernelError
        As :func:`launch`; observers have got it before.
    """
    for observer in observers:
        observer.launching(about)
    try:
        params_address = memory.allocate(max(len(about.program.pack(values)), 1))
        placed = Placed(memory, module_base, params_address, workspace)
        try:
            with Alone(about, values, placed) as blocks:
                for observer in observers:
                    observer.beforehand(about, blocks)
                part = _enough(about, blocks, observers)
            if part is not None:
                ended(about, observers, part, None)
                return part
            instruments = [instrument for observer in observers for instrument in observer.instruments(about)]
            # Compilers read the end of dynamic shared memory in whole vectors, because a GPU allocates it in larger
            # pieces.
            run = _run(made_ready(about, values, instruments, _VECTOR_BYTES), values, placed)
        finally:
            memory.free(params_address)
    except TilewrightError as error:
        ended(about, observers, None, error)
        raise
    except KeyboardInterrupt as interrupt:  # with the place, if the kernel was already running
        places = [one for one in interrupt.args if isinstance(one, KernelError)]
        ended(about, observers, None, places[0] if places else KernelError(f"{about.name}: stopped"))
        raise
    ended(about, observers, run, None)
    return run


def _enough(about: Launch, blocks: Alone, observers: Sequence[Observer]) -> Run | None:
    """Run a part of a launch if an observer needs no more: a few blocks for the other observers."""
    if not any(observer.enough(about) for observer in observers):
        return None
    part = Part(0, min(_LOOKED_AT, math.prod(about.grid) // blocks.cluster_blocks))
    instruments = [instrument for observer in observers for instrument in observer.instruments(about)]
    nothing = Run(0.0, 0.0, True, 0, "", {}, about.program, about.grid, about.block, part)
    run = blocks.run(part, instruments) if instruments else nothing
    return replace(run, part=part, written=blocks.written)


def ended(about: Launch, observers: Sequence[Observer], run: Run | None, error: Exception | None) -> None:
    """Give every observer the end of a launch, even if Ctrl-C is pressed meanwhile."""
    with HeldBack():
        for observer in observers:
            observer.finished(about, run, error)


def _run(job: Job, values: Sequence[bytes], placed: Placed) -> Run:
    """Run a job at its place, with the bytes of its parameters."""
    launch, program = job.launch, job.launch.program
    params = program.pack(values)
    placed.memory.view(placed.params_address, len(params))[:] = np.frombuffer(params, np.uint8)
    execution = Execution(job, placed)
    start = time.perf_counter()
    try:
        with announced("running", program.name, execution.blocks, "blocks", execution.blocks_done, launch=True):
            execution.run()
    except KernelError as error:
        error.results, error.printed = execution.results(), execution.printed()
        raise
    except KeyboardInterrupt:
        stopped = execution.stopped_by_hand()
        stopped.results = execution.results()
        raise KeyboardInterrupt(stopped) from None  # not a subclass: the interpreter's exit status needs this class
    seconds = time.perf_counter() - start
    if job.improvement is not None:
        job.improvement.over(seconds)
    return Run(
        seconds, job.ready.seconds, job.ready.cached, execution.warp_instructions, execution.printed(),
        execution.results(), program, launch.grid, launch.block, launch.part,
        launch.cluster,
    )  # fmt: skip
