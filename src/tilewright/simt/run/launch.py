"""Launching a kernel on the simulated GPU."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright import machine
from tilewright.errors import ArgumentTypeError, ArgumentValueError, KernelError, LaunchError
from tilewright.gpu import extent, residency
from tilewright.gpu.program import Program, program_for
from tilewright.settings import Settings
from tilewright.simt.events import Instrument
from tilewright.simt.run.execution import Execution
from tilewright.simt.run.grid_barrier import WORKSPACE_BYTES, GridBarrier
from tilewright.simt.run.kernels import kernel_store
from tilewright.simt.run.limits import Limits
from tilewright.simt.run.memory import ALIGNMENT_BYTES, Memory
from tilewright.simt.run.staging import given_memory, needed_bytes, stage
from tilewright.simt.run.variables import keeps_variables, loaded, place_module
from tilewright.simt.translate.layout import Layout, align_up
from tilewright.simt.translate.special import SMALL, LaunchClass
from tilewright.waiting import announced

#: Most bytes of one access to shared memory. Source: PTX ISA, 9.7.9.8 (ld: .v4 of 32 bits).
_VECTOR_BYTES = 16
#: What to do about too much shared memory.
_REMEDY = "use smaller tiles, or another GPU (`gpu`, --gpu, TILEWRIGHT_GPU)"


@dataclass(frozen=True)
class Run:
    """What a launch did.

    Attributes
    ----------
    seconds : float
        Host time of the kernel alone. It is the simulator's speed, never a GPU's.
    translate_seconds : float
        Time until the kernel was machine code.
    cached : bool
        Whether a kept translation was used.
    warp_instructions : int
        PTX instructions, counted once a warp.
    printed : str
        What the kernel printed, in order of blocks and threads.
    results : dict
        Each instrument's result, by its name.
    program : Program
    grid, block : (int, int, int)
    """

    seconds: float
    translate_seconds: float
    cached: bool
    warp_instructions: int
    printed: str
    results: dict[str, Any] = field(repr=False)
    program: Program = field(repr=False)
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


def launch(
    kernel: Any,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    instruments: Sequence[Instrument] = (),
    limits: Limits | None = None,
    seed: int | None = None,
    memory: Memory | None = None,
    gpu: str | None = None,
    *,
    cooperative: bool = False,
) -> Run:
    """Run a kernel on the simulated GPU and wait for it.

    Parameters
    ----------
    kernel : Program, Python function or numba.cuda.jit object
        The latter two are specialised for the arguments as Numba does.
    grid, block : int or sequence of 1 to 3 int
        Blocks of the grid and threads of a block, x first.
    args : sequence
        NumPy arrays of any strides (copied in, and back unless read-only; views that share elements are one memory),
        `DeviceArray`, numbers; None is a null pointer.
    shared_bytes : int
        Dynamic shared memory of a block.
    instruments : sequence of Instrument
        Observers; their results are in `Run.results` by name.
    limits : Limits, optional
        When to give up.
    seed : int, optional
        Shuffles the order of blocks, and of warps in a block; without it both ascend.
    memory : Memory, optional
        Global memory to use; by default that of the `with` block or of the `DeviceArray` arguments, or a fresh one. The
        variables of C++ and PTX programs live in it from launch to launch.
    gpu : str, optional
        GPU whose shared memory is the limit, as `tilewright gpus` lists it; `TILEWRIGHT_GPU`, or the H100, by default.
    cooperative : bool
        Whether the grid's blocks can wait for each other (`cooperative_groups::this_grid().sync()`): such a grid may
        have no more blocks than the GPU holds at once. Kernels of Numba that do are launched so in any case.

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
        The kernel went wrong: an access out of bounds, a deadlock, a limit. NumPy arguments are left as they were.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright.gpu import Program
    >>> text = '''
    ... .version 8.0
    ... .target sm_90
    ... .address_size 64
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
    _check_options(instruments, limits, seed, memory)
    settings = Settings.from_environ()
    limits = limits or Limits()
    if limits.threads is None:
        limits = replace(limits, threads=settings.threads)
    program = program_for(kernel, args)
    blocks, threads = extent.checked(program.name, grid, block)
    target = machine.gpu(gpu or settings.gpu)
    most = target.shared_per_block_optin_bytes
    whole = isinstance(shared_bytes, int | np.integer) and not isinstance(shared_bytes, bool)
    if not whole or not 0 <= shared_bytes <= most:
        raise LaunchError(
            f"{program.name}: `shared_bytes` must be between 0 and {most:,}, what a block of {target.name} may have "
            f"(got {shared_bytes!r}); {_REMEDY}"
        )
    observers = [instrument.name for instrument in instruments]
    if len(set(observers)) < len(observers):
        raise LaunchError(
            f"{program.name}: `instruments` must have names of their own, which results are found by (got "
            f"{', '.join(observers)}); leave one out, or give it another `name`"
        )
    cooperative = cooperative or residency.waits_for_grid(program)
    if cooperative and (wrong := residency.too_many(program, target, blocks, threads, int(shared_bytes))):
        raise LaunchError(f"{program.name}: {wrong}; launch fewer, and let each do several parts in a loop")
    return _launch(
        program, blocks, threads, args, int(shared_bytes), instruments, limits, seed, memory, target,
        cooperative=cooperative,
    )  # fmt: skip


def _check_options(instruments: Any, limits: Any, seed: Any, memory: Any) -> None:
    """Refuse arguments of the wrong kind by their names."""
    for name, value, kind in (("limits", limits, Limits), ("memory", memory, Memory)):
        if value is not None and not isinstance(value, kind):
            raise ArgumentTypeError(
                f"`{name}` must be a tilewright.simt.{kind.__name__} (got {value!r}); leave it out for the default"
            )
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if seed is not None and (not whole or seed < 0):
        raise ArgumentValueError(
            f"`seed` must be a whole number from 0 on (got {seed!r}); leave it out for no shuffling"
        )
    if not isinstance(instruments, Sequence):
        raise ArgumentTypeError(
            f"`instruments` must be a sequence (got {instruments!r}); write instruments=(x,) for one"
        )
    for i, instrument in enumerate(instruments):
        if not isinstance(instrument, Instrument):
            raise ArgumentTypeError(
                f"`instruments[{i}]` must be an instrument (got {instrument!r}), as tilewright.instruments.Banks()"
            )


def _launch(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: Sequence[Any],
    shared_bytes: int,
    instruments: Sequence[Instrument],
    limits: Limits,
    seed: int | None,
    memory: Memory | None,
    target: machine.Gpu,
    *,
    cooperative: bool,
) -> Run:
    memory = given_memory(program.name, args, memory)
    # The kernel is made before anything is placed: it depends on the values of small parameters, on no address.
    draft = program.marshal(args, lambda value: 0)
    job = _Job(program, grid, block, draft, shared_bytes, instruments, limits, seed, target)
    layout = job.ready.translation.layout
    kept = memory is not None and keeps_variables(program) and layout.module_bytes > 0
    if memory is None:
        memory = Memory(needed_bytes(args) + layout.module_bytes + layout.param_bytes + ALIGNMENT_BYTES * 5)
    scratch: list[int] = []

    def allocate(size_bytes: int) -> int:
        scratch.append(memory.allocate(size_bytes))
        return scratch[-1]

    try:
        # Arrays come last, so that running past the last one leaves the memory in use.
        module_base = loaded(program.ptx, memory) if kept else place_module(program, layout, memory, allocate)
        workspace = allocate(WORKSPACE_BYTES) if cooperative else 0
        params_address = allocate(job.param_bytes)
        staged = stage(args, memory, allocate)
        params = program.pack(program.marshal(args, lambda value: staged[id(value)].start))
        run = job.run(memory, params, params_address, module_base, workspace)
        for item in staged.values():
            item.copy_back(memory)
        return run
    finally:
        for address in reversed(scratch):
            memory.free(address)


def launch_packed(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    values: Sequence[bytes],
    memory: Memory,
    module_base: int,
    target: machine.Gpu,
    *,
    shared_bytes: int = 0,
    instruments: Sequence[Instrument] = (),
    limits: Limits | None = None,
    seed: int | None = None,
    workspace: int = 0,
) -> Run:
    """Run a kernel whose arguments are bytes already, as a driver is given them, and wait for it.

    Parameters
    ----------
    program : Program
    grid, block : (int, int, int)
        Checked by the caller.
    values : sequence of bytes
        One for each of the program's parameters, of its size; addresses in them are of `memory`.
    memory : Memory
    module_base : int
        Where the module's variables lie in it; see :mod:`tilewright.simt.run.variables`.
    target : Gpu
        Whose limits hold for shared and local memory.
    shared_bytes, instruments, limits, seed
        As :func:`launch` takes them.
    workspace : int
        Device address of a cooperative launch's workspace, `WORKSPACE_BYTES` of `memory`; 0 for any other launch, whose
        blocks wait for ever where they wait for others that have ended.

    Raises
    ------
    LaunchError, PtxError, KernelError
        As :func:`launch`.
    """
    limits = limits or Limits()
    if limits.threads is None:
        limits = replace(limits, threads=Settings.from_environ().threads)
    job = _Job(program, grid, block, values, shared_bytes, instruments, limits, seed, target)
    # Compilers read the end of dynamic shared memory by whole vectors, for a GPU gives it in larger pieces.
    job.shared_bytes = align_up(job.shared_bytes, _VECTOR_BYTES)
    params_address = memory.allocate(job.param_bytes)
    try:
        return job.run(memory, program.pack(values), params_address, module_base, workspace)
    finally:
        memory.free(params_address)


class _Job:
    """A launch whose kernel is ready, before its arguments are in memory."""

    def __init__(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        values: Sequence[bytes],
        shared_bytes: int,
        instruments: Sequence[Instrument],
        limits: Limits,
        seed: int | None,
        target: machine.Gpu,
    ) -> None:
        self.program, self.grid, self.block = program, grid, block
        self.instruments, self.limits, self.seed = tuple(instruments), limits, seed
        kind = _launch_class(program, grid, block, values)
        with announced("translating", program.name):
            self.ready, self.improvement = kernel_store().first(program.ptx, program.entry, kind, instruments)
        self.dynamic_shared_bytes = shared_bytes
        self.shared_bytes = _checked_bytes(program, self.ready.translation.layout, shared_bytes, target)
        self.shared_bytes += max((i.gap_bytes for i in instruments), default=0)  # behind the last variable too

    @property
    def param_bytes(self) -> int:
        """Bytes of the parameter block, at least 1."""
        return max(self.ready.translation.layout.param_bytes, 1)

    def run(
        self,
        memory: Memory,
        params: bytes,
        params_address: int,
        module_base: int,
        workspace: int,
    ) -> Run:
        """Run it with packed parameters."""
        memory.view(params_address, len(params))[:] = np.frombuffer(params, np.uint8)
        execution = Execution(
            program=self.program, ready=self.ready, grid=self.grid, block=self.block, memory=memory,
            params_address=params_address, shared_bytes=self.shared_bytes,
            dynamic_shared_bytes=self.dynamic_shared_bytes, instruments=self.instruments, limits=self.limits,
            seed=self.seed, module_base=module_base,
            grid_barrier=GridBarrier(memory, workspace, math.prod(self.grid)) if workspace else None,
        )  # fmt: skip
        execution.improvement = self.improvement
        start = time.perf_counter()
        try:
            with announced("running", self.program.name, execution.blocks, "blocks", execution.blocks_done):
                execution.run()
        except KernelError as error:
            error.results, error.printed = execution.results(), execution.printed()
            raise
        except KeyboardInterrupt:
            stopped = execution.stopped_by_hand()
            stopped.results = execution.results()
            raise KeyboardInterrupt(stopped) from None  # of no class of ours: the interpreter's status asks for itself
        seconds = time.perf_counter() - start
        if self.improvement is not None:
            self.improvement.over(seconds)
        return Run(
            seconds, self.ready.seconds, self.ready.cached, execution.warp_instructions, execution.printed(),
            execution.results(), self.program, self.grid, self.block,
        )  # fmt: skip


def _checked_bytes(program: Program, layout: Layout, shared_bytes: int, target: machine.Gpu) -> int:
    """Shared memory of a block; refuses more shared or local memory than the GPU has."""
    total = align_up(layout.shared_bytes, 16) + shared_bytes if shared_bytes else layout.shared_bytes
    most = target.shared_per_block_optin_bytes
    static = layout.shared_bytes - layout.shared_gap_bytes
    if static + shared_bytes > most:
        raise LaunchError(
            f"{program.name}: shared memory of a block of {target.name} must be at most {most:,} bytes "
            f"(got {static:,} static and {shared_bytes:,} dynamic); {_REMEDY}"
        )
    if layout.local_bytes > target.launch.local_per_thread_bytes:
        raise LaunchError(
            f"{program.name}: local memory of a thread must be at most {target.launch.local_per_thread_bytes:,} bytes "
            f"(got {layout.local_bytes:,}); put large arrays in global memory"
        )
    return total


def _launch_class(
    program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], values: Sequence[bytes]
) -> LaunchClass:
    """What the translation may assume of this launch."""
    small, offset = set(), 0
    for parameter, value in zip(program.parameters, values, strict=True):
        offset = align_up(offset, parameter.align)
        if parameter.bytes == 4 and parameter.kind == "integer" and int.from_bytes(value, "little") <= SMALL:
            small.add(offset)
        offset += parameter.bytes
    fits = tuple(g * b <= SMALL for g, b in zip(grid, block, strict=True))
    return LaunchClass(block, (fits[0], fits[1], fits[2]), frozenset(small))
