"""A launch that is ready to execute: its kernel as machine code, and the addresses of its memory."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import LaunchError, TargetError
from tilewright.simulate.events import Instrument
from tilewright.simulate.isa import table
from tilewright.simulate.observer import Launch
from tilewright.simulate.programs.arguments import array_fields, last_strides
from tilewright.simulate.programs.clusters import cluster_of
from tilewright.simulate.programs.launch_rules import broken
from tilewright.simulate.programs.listing import parsed, unfit
from tilewright.simulate.ptx import tree
from tilewright.simulate.run.integers import Integers
from tilewright.simulate.run.kernels import ReadyKernel, TierUp, kernel_store
from tilewright.simulate.run.memory import Memory
from tilewright.simulate.run.plan import Plan
from tilewright.simulate.translate.analysis.graph import is_strong
from tilewright.simulate.translate.analysis.layout import Layout
from tilewright.simulate.translate.analysis.special import LaunchClass

#: With a driver, shared memory of a block is a multiple of this, the most bytes of one access: compilers read the end
#: of dynamic shared memory in whole vectors, because a GPU allocates it in larger pieces. Source: PTX ISA, 9.7.9.8.
_VECTOR_BYTES = 16
#: Kinds of values of parameters that a launch knows at once, and shapes of launches that a kernel does.
_MOST_CLASSES, _MOST_PLANS = 64, 4


@dataclass(frozen=True, slots=True)
class Placed:
    """The places of the parts of a launch."""

    memory: Memory
    module_base: int  #: Device address of the module's variables; see :mod:`tilewright.simulate.run.memory`.
    #: Device address of the parameter block; 0 if only the host has it, as of kernels that do not take its address.
    params_address: int
    #: Device address of a cooperative launch's workspace, `WORKSPACE_BYTES`; 0 for other launches, whose blocks wait
    #: for ever if they wait for blocks that have ended.
    workspace: int = 0


@dataclass(frozen=True)
class Job:
    """A launch whose kernel is ready, before its arguments are in memory."""

    launch: Launch  #: The launch, with the clusters that the kernel declares.
    instruments: tuple[Instrument, ...]
    ready: ReadyKernel  #: The code that it starts with.
    improvement: TierUp | None  #: Makes better code in the meantime.
    shared_bytes: int  #: Shared memory of a block, with the gaps of instruments.
    #: Whether its seed says, too, when warps give way to others; then one host thread runs it, so that it repeats.
    gives_way: bool = False

    @functools.cached_property
    def plan(self) -> Plan:
        """What it has in common with other launches of its shape."""
        launch, plans = self.launch, self.ready.plans
        key = (
            launch.grid, launch.block, launch.cluster, launch.seed, launch.part, launch.limits.call_depth,
            launch.gpu.compute_capability, launch.shared_bytes, self.shared_bytes, self.gives_way,
        )  # fmt: skip
        found: Plan | None = plans.get(key)
        if found is None:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            found = plans[key] = Plan(launch, self.ready, self.shared_bytes, gives_way=self.gives_way)
        return found

    @property
    def param_bytes(self) -> int:
        """Bytes of the parameter block, at least 1."""
        return max(self.ready.translation.layout.param_bytes, 1)


class Prepared:
    """A launch, ready for any values of its parameters: what does not depend on them is decided once.

    The code depends on which of them are small and which arrays have a last stride of one element, but on no address.

    Raises TargetError: the PTX is for other GPUs only.
    """

    def __init__(self, launch: Launch) -> None:
        _check_target(launch)
        program = launch.program
        if launch.cluster is not None or _has_clusters(program.ptx, program.entry):
            launch = replace(launch, cluster=cluster_of(program, launch.cluster, launch.grid, launch.gpu))
        self.launch = launch
        self.integers = program.kept.get(Integers) or Integers(program.parameters, program.offsets)
        program.kept[Integers] = self.integers
        arrays = program.last_strides
        if program.abi != "numba":
            dimensions = tuple([0 if fact.dtype is None else len(fact.shape) for fact in launch.arguments])
            arrays = _last_strides(dimensions, len(program.parameters))
        at = self.integers.numbers
        self._strides = [(at[size], at[stride]) for size, stride in arrays if size in at and stride in at]
        self._jobs: dict[Any, Job] = {}

    def job(self, params: bytes) -> Job:
        """The launch with packed parameters, without instruments."""
        kind = self._kind(params)
        job = self._jobs.get(kind)
        if job is None or (job.improvement is not None and job.improvement.made()):
            job = self._made(kind, ())
            if len(self._jobs) >= _MOST_CLASSES:
                self._jobs.clear()
            self._jobs[kind] = job
        return job

    def observed(self, params: bytes, instruments: Sequence[Instrument]) -> Job:
        """The launch with packed parameters and instruments."""
        return self._made(self._kind(params), instruments)

    def _kind(self, params: bytes) -> tuple[tuple[bool, ...], tuple[int, ...]]:
        """Which integers are small, and the last strides of arrays that are one element, else 0."""
        values = self.integers.read(params)
        units = [values[stride] if values[size] == values[stride] else 0 for size, stride in self._strides]
        return tuple(map(operator.le, values, self.integers.most_small)), tuple(units)

    def _made(self, kind: tuple[tuple[bool, ...], tuple[int, ...]], instruments: Sequence[Instrument]) -> Job:
        """Translate the kernel for launches of a kind, or take it from the store."""
        launch, integers = self.launch, self.integers
        small = frozenset(itertools.compress(integers.places, kind[0]))
        strides = zip(self._strides, kind[1], strict=True)
        units = frozenset([(integers.places[at][0], unit) for (_, at), unit in strides if unit])
        gives_way = launch.seed is not None and _talks(launch.program.ptx)
        stack_bytes = launch.limits.stack_bytes + -launch.limits.stack_bytes % 16
        program = launch.program
        of = LaunchClass.of(
            launch.block, launch.grid, small, units, launch.cluster, stack_bytes, gives_way=gives_way
        )  # fmt: skip
        ready, improvement = kernel_store().first(program.ptx, program.entry, of, instruments, name=program.name)
        shared_bytes = _checked_bytes(launch, ready.translation.layout)
        if instruments:
            shared_bytes += max(instrument.gap_bytes for instrument in instruments)  # after the last variable too
        if launch.written is None:
            shared_bytes += -shared_bytes % _VECTOR_BYTES
        return Job(launch, tuple(instruments), ready, improvement, shared_bytes, gives_way)


def made_ready(launch: Launch, values: Sequence[bytes], instruments: Sequence[Instrument]) -> Job:
    """Translate a launch's kernel, or take it from the store; `values` has the bytes of each of its parameters.

    Raises LaunchError, PtxError: the PTX is for other GPUs only (TargetError), the GPU has less shared or local memory,
    or the machine does not have an instruction.
    """
    return Prepared(launch).observed(launch.program.pack(values), instruments)


@functools.lru_cache(maxsize=256)
def _has_clusters(ptx: str, entry: str) -> bool:
    """Whether a kernel has directives of clusters."""
    function = parsed(ptx).functions.get(entry)
    return function is not None and any("cluster" in directive for directive in function.directives)


@functools.lru_cache(maxsize=256)
def _talks(ptx: str) -> bool:
    """Whether threads of a module talk to each other through memory, so that their order may matter."""
    names = {
        item.name
        for function in parsed(ptx).functions.values()
        for item in function.body
        if isinstance(item, tree.Instruction)
    }
    return any(form is not None and is_strong(form) for form in map(table().find, names))


@functools.lru_cache(maxsize=256)
def _unfit(ptx: str, cc: tuple[int, int]) -> str:
    return unfit(parsed(ptx), cc)


def _check_target(launch: Launch) -> None:
    """Refuse PTX that is only for another GPU."""
    gpu = launch.gpu
    if wrong := _unfit(launch.program.ptx, gpu.compute_capability):
        cc = ".".join(map(str, gpu.compute_capability))
        raise TargetError(
            f"{launch.name}: {wrong} (got the {gpu.name} of {cc}); compile it for {cc} (`cc`), or without the letter "
            "if it needs nothing of one architecture, or choose another GPU (`gpu`, TILEWRIGHT_GPU)"
        )


def check_variables(launch: Launch, module_bytes: int) -> None:
    """Refuse variables that do not fit the GPU's memory."""
    gpu = launch.gpu
    if module_bytes > gpu.memory_bytes:
        raise LaunchError(
            f"{launch.name}: variables of a module must fit the {gpu.memory_bytes:,} bytes of memory of {gpu.name} "
            f"(got {module_bytes:,}); declare smaller arrays"
        )


def _checked_bytes(launch: Launch, layout: Layout) -> int:
    """Shared memory of a block; refuses more global, shared or local memory than the GPU has."""
    dynamic, gpu = launch.shared_bytes, launch.gpu
    if layout.module_bytes:
        check_variables(launch, layout.module_bytes)
    static = layout.shared_bytes - layout.shared_gap_bytes
    if static + dynamic > gpu.shared_per_block_optin_bytes:  # with the static memory of functions that it calls
        for wrong in broken(gpu, launch.grid, launch.block, static, dynamic):
            raise LaunchError(f"{launch.name}: {wrong.sentence}")
    if layout.local_bytes > gpu.launch.local_per_thread_bytes:
        raise LaunchError(
            f"{launch.name}: local memory of a thread must be at most {gpu.launch.local_per_thread_bytes:,} bytes "
            f"(got {layout.local_bytes:,}); put large arrays in global memory"
        )
    return layout.dynamic_start + dynamic if dynamic else layout.shared_bytes


@functools.lru_cache(maxsize=256)
def _last_strides(dimensions: tuple[int, ...], count: int) -> tuple[tuple[int, int], ...]:
    """`Program.last_strides` of a program that came through a driver, from each argument's dimensions."""
    return last_strides([(array_fields(ndim) if ndim else 1, ndim) for ndim in dimensions], count)
