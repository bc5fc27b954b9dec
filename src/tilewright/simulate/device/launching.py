"""Launches: the replacement of `cuda.core.launch`, and its reports to observers.

Source: CUDA Driver API, "cuLaunchKernelEx"; CUDA Programming Guide, appendix "Cooperative Groups".
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import (
    ArgumentValueError,
    AssertionFailedError,
    DeadlockError,
    KernelError,
    LaunchError,
    LimitError,
    MemoryAccessError,
    OutOfMemoryError,
    PtxError,
    TargetError,
    TilewrightError,
)
from tilewright.simulate.device.gpu import STICKY, DriverError, SimulatedGpu
from tilewright.simulate.device.graphs import submit
from tilewright.simulate.device.modules import Kernel, Library, allowed_shared_bytes
from tilewright.simulate.device.pending_work import Task, UsedBytes
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.observer import ArgumentFact, Launch, PassedArguments, Run, StreamRace
from tilewright.simulate.programs.launch_rules import broken, too_many
from tilewright.simulate.programs.listing import Parameter
from tilewright.simulate.programs.program import Program
from tilewright.simulate.run.grid_barrier import WORKSPACE_BYTES
from tilewright.simulate.run.job import Placed, Prepared
from tilewright.simulate.run.nested import PENDING, Device, run_with_launches
from tilewright.simulate.run.observed_launch import ended, repeated
from tilewright.simulate.state import GLOBAL_BASE

#: The driver's code for each of the machine's errors; the first match counts.
_CODES: tuple[tuple[type[TilewrightError], str], ...] = (
    (MemoryAccessError, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (AssertionFailedError, "CUDA_ERROR_ASSERT"),
    (LimitError, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (DeadlockError, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (KernelError, "CUDA_ERROR_LAUNCH_FAILED"),
    (PtxError, "CUDA_ERROR_INVALID_PTX"),
    (TargetError, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (LaunchError, "CUDA_ERROR_INVALID_VALUE"),
    (OutOfMemoryError, "CUDA_ERROR_OUT_OF_MEMORY"),
    (ArgumentValueError, "CUDA_ERROR_INVALID_VALUE"),
)

#: Errors of packages whose handlers shall catch a failed launch: module and class.
_ERRORS = (("numba.cuda.cudadrv.driver", "CudaAPIError"), ("cuda.core._utils.cuda_utils", "CUDAError"))
#: Arguments that are their own bytes.
_PLAIN = (bytes, ctypes._SimpleCData, ctypes.Structure, ctypes.Array)
#: Any stack that a program requests is available. Source: cuda.h, CU_LIMIT_STACK_SIZE.
_STACK_LIMIT = 0
#: Limit of pending launches by kernels: CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT.
PENDING_LIMIT = 4
_NO_LIMITS = Limits()
#: Launches of a GPU that later ones may repeat.
_MOST_ACCEPTED = 1024
#: Operations with which concurrent kernels may use the same memory.
_ATOMIC = re.compile(r"\b(atom|red|multimem)\.|\b(ld|st)\.(volatile|relaxed|acquire|release|mmio)")


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Extents and shared memory of a launch, like `cuda.core.LaunchConfig`."""

    grid: Any = None
    block: Any = None
    cluster: Any = None
    shmem_size: int = 0
    is_cooperative: bool = False
    cooperative_launch: bool = False
    overlaps: bool = False  #: It may begin while the launch before it in its stream runs.

    @property
    def cooperative(self) -> bool:
        """Whether all blocks must be resident at once."""
        return self.is_cooperative or self.cooperative_launch


@dataclass(slots=True)
class Accepted:
    """A launch that was made, ready to be repeated with other values while what its checks depended on holds."""

    library: Library
    state: Any
    prepared: Prepared
    placed: Placed
    params: bytes  #: The last ones, whose addresses may be used.


class Launcher:
    """Launches kernels on one simulated GPU.

    A rejected launch raises the result of `refused`, which gets a code and a message; a failed one raises that of
    `failed`, which gets the machine's error. `show` gets what kernels print; `line` gives the program's launching line.
    `streams_known`: whether all ordering between streams is known, so that races between their launches can be
    detected. `extents_code`: the error of a grid or block that no GPU accepts; that of other limits is the driver's.
    """

    def __init__(
        self,
        gpu: SimulatedGpu,
        refused: Callable[[str, str], Exception] | None = None,
        failed: Callable[[TilewrightError], Exception] | None = None,
        show: Callable[[str], None] | None = None,
        *,
        streams_known: bool = True,
        extents_code: str = "CUDA_ERROR_INVALID_VALUE",
    ) -> None:
        self.gpu = gpu
        self._refusal = refused or driver_error
        self._failure = failed or kernel_error
        self._show = show or _print
        self._streams_known = streams_known
        self._extents_code = extents_code
        self._noted = threading.local()

    def note(
        self, facts: Callable[[Sequence[bytes]], Iterable[ArgumentFact]], passed: PassedArguments | None = None
    ) -> None:
        """Set what describes the arguments of this thread's next launch, from the bytes of its parameters.

        `passed` is as in :class:`Launch`.
        """
        self._noted.about = facts, passed

    def launch(self, stream: Any, config: Any, kernel: Kernel, *arguments: Any) -> None:
        """Run a kernel and wait for it.

        Raises CudaAPIError: with the driver's code. If the kernel failed, the error has the machine's message too, and
        is also a `tilewright.KernelError`.
        """
        gpu = self.gpu
        with gpu.call():
            about_arguments, self._noted.about = getattr(self._noted, "about", None), None
            noted, passed = about_arguments or (None, None)
            is_whole = passed is None or len(passed.arguments) >= len(arguments)
            if is_whole and not gpu.observers and self._repeated(stream, config, kernel, arguments):
                return
            library = Library.of(gpu, kernel.code)
            program = library.entry(kernel.name)
            block, cluster = _extents(config.block), _cluster(config)
            grid = _grid(config, cluster)
            try:
                handle = int(getattr(stream, "handle", stream) or 0)
                gpu.working_stream(handle)
                values = packed(program.parameters, arguments)
                if gpu.graphs.captures and self._captured(handle, about_arguments, (config, kernel, *values)):
                    return
                facts = tuple(noted(values)) if noted else ()
                gpu.refuse_ended(*[fact.address for fact in facts if fact.address])
            except DriverError as error:
                raise self._refusal(error.code, f"{error} ({program.name}, grid {grid}, block {block})") from None
            limits = gpu.limits or _NO_LIMITS
            if stack_bytes := gpu.set_limits.get(_STACK_LIMIT, 0):
                limits = limits.with_stack(stack_bytes)
            addresses = [(fact.given or (fact.address,))[0] for fact in facts]
            index, line = gpu.numbered(program.name, addresses=addresses)
            about = Launch(
                program.name, program, grid, block, int(config.shmem_size or 0), facts, line, index,
                _is_cooperative(config), gpu.record, limits, gpu.seed, cluster=cluster,
                overlaps=gpu.outstanding.latest.get(handle) if getattr(config, "overlaps", False) else None,
                allowed_shared_bytes=allowed_shared_bytes(gpu, library, program), passed=passed,
            )  # fmt: skip
            try:
                self._check(about, library, kernel.name)
            except DriverError as error:
                raise self._refused(about, error) from None
            workspace = gpu.allocate(WORKSPACE_BYTES, host_visible=True) if about.cooperative else 0
            try:
                run = self._observed(library, about, values, workspace)
            finally:
                if workspace:
                    gpu.free(workspace)
            self._accept(library, kernel, config, values, about, run)
            if run.written:
                uses = gpu.allocations_at(fact.address for fact in facts)
                again = functools.partial(self._observed, library, about, values, workspace)
                gpu.left_out.add(about.name, values, gpu.allocations_at(run.written), uses, again)
            gpu.outstanding.latest[handle] = index
            task = self._task(about, run, workspace)
            if task is not None and task.launch is not None:
                self._compared(handle, task)
            gpu.outstanding.queued(handle, task)
        if run.printed:
            self._show(run.printed)

    def _repeated(self, stream: Any, config: Any, kernel: Kernel, arguments: Sequence[Any]) -> bool:
        """Repeat a launch that an earlier call made; False if there is none."""
        known = self.gpu.accepted.get(key := launch_key(config, kernel))
        if known is None or len(arguments) != len(known.prepared.launch.program.parameters):
            return False
        handle = int(getattr(stream, "handle", stream) or 0)
        return self.repeat(key, handle, _params(known.prepared.launch.program, arguments))

    def repeat(self, key: Any, stream: int, params: bytes) -> bool:
        """Repeat a launch that an earlier call made, which needs none of the checks; False if there is none.

        What the checks depend on is unchanged, and there is no observer. The values of parameters may differ.
        """
        gpu = self.gpu
        known = gpu.accepted.get(key)
        if known is None or gpu.observers or gpu.broken or stream not in gpu.streams:
            return False
        if gpu.graphs.captures or gpu.left_out.launches:
            return False
        if known.state != self._state(known.library, known.prepared.launch.program.entry):
            return False
        if params != known.params and not self._may_use(known, params):
            return False
        known.params = params
        gpu.launches += 1
        try:
            with gpu.host.in_step():
                repeated(known.prepared, params, known.placed)
        except TilewrightError as error:
            raise self._failed(error) from None
        return True

    def _may_use(self, known: Accepted, params: bytes) -> bool:
        """Whether no parameter is an address outside allocations; notes the allocations as used by the kernel."""
        gpu, integers, name = self.gpu, known.prepared.integers, known.prepared.launch.name
        end, before = GLOBAL_BASE + gpu.addresses.addresses.end, integers.addresses(known.params)
        changed = [now for now, old in zip(integers.addresses(params), before, strict=True) if now != old]
        return all(gpu.note_user(name, address) for address in changed if GLOBAL_BASE <= address < end)

    def _accept(
        self, library: Library, kernel: Kernel, config: Any, values: Sequence[bytes], about: Launch, run: Run
    ) -> None:
        """Note a launch that a later call may repeat."""
        gpu, program = self.gpu, about.program
        if gpu.observers or about.cooperative or about.cluster or program.launches_kernels:
            return
        if run.part is None and not program.prints and (key := launch_key(config, kernel)) is not None:
            if len(gpu.accepted) >= _MOST_ACCEPTED:
                gpu.accepted.clear()
            prepared, placed = Prepared(replace(about, passed=None)), Placed(gpu.memory, library.base, 0)
            state = self._state(library, kernel.name)
            gpu.accepted[key] = Accepted(library, state, prepared, placed, program.pack(values))

    def _state(self, library: Library, name: str) -> Any:
        """What a launch and its checks depend on, besides the kernel and the stream."""
        gpu = self.gpu
        limits = gpu.limits, gpu.set_limits.get(_STACK_LIMIT), gpu.kernel_limits.get((library.handle, name))
        return limits, gpu.seed

    def _captured(self, stream: int, noted: Any, given: tuple[Any, ...]) -> bool:
        """Add a launch to the graph that captures its stream; return False if none does.

        Raises DriverError: a capture forbids the launch.
        """
        graphs = self.gpu.graphs

        def again(where: int) -> None:
            self._noted.about = noted
            self.launch(where, *given)

        if graphs.captured(stream) is None:
            submit(self.gpu, stream, lambda _: None, "kernel")
            return False
        submit(self.gpu, stream, again, "kernel")
        return True

    def _observed(self, library: Library, about: Launch, values: Sequence[bytes], workspace: int) -> Run:
        """Run a kernel; mapped host memory is synchronised before and after."""
        gpu = self.gpu
        if gpu.left_out.launches:
            gpu.repeated(about.name, values)
            if not any(observer.leaves_out for observer in gpu.observers):
                gpu.used(fact.address for fact in about.arguments)
        for observer in gpu.observers:
            for address, size in gpu.host_visible.items():
                observer.host_wrote(address, size)
        try:
            with gpu.host.in_step():
                return run_with_launches(about, values, self._device(library, workspace))
        except TilewrightError as error:
            raise self._failed(error) from None

    def _failed(self, error: TilewrightError) -> Exception:
        """The program's error for a launch that failed; the device is broken if its error stays."""
        if isinstance(error, KernelError) and error.printed:
            self._show(error.printed)
        if code_of(error) in STICKY:
            self.gpu.broken = code_of(error)
        return self._failure(error)

    def _device(self, library: Library, workspace: int) -> Device:
        """The device of a launch and of the launches by its kernel."""
        gpu = self.gpu
        placed = Placed(gpu.memory, library.base, 0, workspace)
        pending = max(1, gpu.set_limits.get(PENDING_LIMIT, PENDING))
        allocate = functools.partial(gpu.allocate, host_visible=True)
        return Device(
            placed, gpu.observers, library.entry, allocate, gpu.free, lambda kernel: gpu.numbered(kernel, str)[0],
            pending, partly=True,
        )  # fmt: skip

    def _task(self, about: Launch, run: Run, workspace: int) -> Task | None:
        """The memory of a launch that the host or other streams use too; None if no observer needs it."""
        if not self.gpu.host_races:
            return None
        concurrent = self._streams_known and not self.gpu.graphs.running and self.gpu.concurrent_streams
        places = self.gpu.memory.allocations() if concurrent else self.gpu.host_visible.items()
        used = [
            (address, observer.used(run, address, size))
            for observer in self.gpu.observers
            if observer.host_races
            for address, size in places
            if address != workspace
        ]
        reads, writes = (tuple(s for at, both in used for s in UsedBytes.of(at, both[i])) for i in (0, 1))
        if not (reads or writes):
            return None
        launch = about if concurrent else None
        return Task(f"`{about.name}`", about.name, about.source_line, reads, writes, launch=launch)

    def _compared(self, stream: int, task: Task) -> None:
        """Report launches of other streams that may run at the same time and use the same memory.

        Two kernels that both use atomic operations may synchronise by them: which of their accesses race is unknown.
        """
        for other, writes, other_writes in self.gpu.outstanding.unordered(stream, task):
            assert task.launch is not None
            assert other.launch is not None
            if all(_ATOMIC.search(one.program.ptx) for one in (task.launch, other.launch)):
                continue
            race = StreamRace(task.launch, other.launch, writes, other_writes)
            for observer in self.gpu.observers:
                observer.raced(race)

    def _refused(self, about: Launch, error: DriverError) -> Exception:
        """The program's error for a launch that a driver rejects; observers get it first."""
        for observer in self.gpu.observers:
            observer.launching(about, None)
        ended(about, self.gpu.observers, None, LaunchError(f"{about.name}: {error}"))
        return self._refusal(error.code, f"{error} ({about.name}, grid {about.grid}, block {about.block})")

    def _check(self, about: Launch, library: Library, entry: str) -> None:
        """Reject what a driver rejects."""
        large = (library.handle, entry) in self.gpu.large_clusters
        limits, dynamic = about.gpu.launch, about.shared_bytes
        most = limits.cluster_blocks if large else limits.cluster_blocks_portable
        if math.prod(about.cluster or ()) > most:
            code = "CUDA_ERROR_INVALID_CLUSTER_SIZE"
            reason = "" if large else ", unless the kernel has the attribute NonPortableClusterSizeAllowed"
            raise DriverError(code, f"{code}: a cluster has at most {most} blocks{reason} (got {about.cluster})")
        given, parameters = about.passed, about.program.parameters
        if given is not None and len(given.arguments) < len(parameters):
            rule = f"takes {len(parameters)} kernel parameters (got {len(given.arguments)})"
            raise DriverError("CUDA_ERROR_INVALID_VALUE", rule)
        static, allowed = about.program.shared_bytes, about.allowed_shared_bytes
        for one in broken(about.gpu, about.grid, about.block, static, dynamic, allowed=allowed):
            code = self._extents_code if one.rule.is_of_extents else "CUDA_ERROR_INVALID_VALUE"
            raise DriverError(code, f"{code}: {one.sentence}")
        if about.cooperative:
            wrong = too_many(about.program, about.gpu, about.grid, about.block, dynamic)
            if wrong:
                code = "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
                raise DriverError(code, f"{code}: {wrong}")


def launch_key(config: Any, kernel: Kernel) -> Any:
    """A kernel and a configuration as a key; None if it has none."""
    key = kernel, config.grid, config.block, config.cluster, config.shmem_size, _is_cooperative(config)
    try:
        hash(key)
    except TypeError:  # extents in a list
        return None
    return key


def _is_cooperative(config: Any) -> bool:
    return bool(config.cooperative if isinstance(config, LaunchConfig) else config.is_cooperative)


def _cluster(config: Any) -> tuple[int, int, int] | None:
    """Blocks of a cluster, if the configuration has clusters."""
    return _extents(config.cluster) if config.cluster is not None else None


def _grid(config: Any, cluster: tuple[int, int, int] | None) -> tuple[int, int, int]:
    """Blocks of the grid: in a configuration with clusters, the grid counts clusters (`cuda.core.LaunchConfig`)."""
    x, y, z = _extents(config.grid)
    return (x, y, z) if cluster is None else (x * cluster[0], y * cluster[1], z * cluster[2])


def _extents(value: Any) -> tuple[int, int, int]:
    """Three extents from the value in a launch configuration."""
    given = value if isinstance(value, Sequence) else (value,)
    x, y, z = (*map(int, given), 1, 1, 1)[:3]
    return x, y, z


def packed(parameters: Sequence[Parameter], arguments: Sequence[Any]) -> tuple[bytes, ...]:
    """The bytes of each parameter: like a driver, the first bytes that each argument points to.

    Raises DriverError: the number of arguments is wrong.
    """
    if len(arguments) != len(parameters):
        raise DriverError(
            "CUDA_ERROR_INVALID_VALUE", f"takes {len(parameters)} kernel parameters (got {len(arguments)})"
        )
    values = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        if type(argument) is int:
            data = (argument & (2**64 - 1)).to_bytes(8, "little")
        else:
            data = bytes(argument) if isinstance(argument, _PLAIN) else _bytes(argument)
        values.append(data[: parameter.bytes].ljust(parameter.bytes, b"\0"))
    return tuple(values)


def _params(program: Program, arguments: Sequence[Any]) -> bytes:
    """Arguments as packed parameters."""
    if set(map(type, arguments)) == {int} and all(parameter.bytes == 8 for parameter in program.parameters):
        with suppress(struct.error):
            return struct.pack(f"<{len(arguments)}q", *arguments)
    return program.pack(packed(program.parameters, arguments))


def _bytes(argument: Any) -> bytes:
    """An argument's bytes, for the types that `cuda.core.launch` takes."""
    if isinstance(argument, bool):
        return bytes([argument])
    if isinstance(argument, int):
        return (argument & (2**64 - 1)).to_bytes(8, "little")
    if isinstance(argument, float):
        return struct.pack("<d", argument)
    if isinstance(argument, complex):
        return struct.pack("<2d", argument.real, argument.imag)
    if isinstance(argument, np.generic):
        return argument.tobytes()
    handle = getattr(argument, "handle", argument)  # of a buffer, or a CUdeviceptr itself
    return (int(handle) & (2**64 - 1)).to_bytes(8, "little")


def facts(gpu: SimulatedGpu, values: Sequence[bytes], passed: PassedArguments | None = None) -> Iterator[ArgumentFact]:
    """What is known of arguments by their bytes, addresses and small numbers, and of arrays that were passed."""
    arrays = [one.array for one in passed.arguments] if passed is not None else []
    for at, (value, array) in enumerate(itertools.zip_longest(values, arrays[: len(values)])):
        name, number = f"argument {at}", int.from_bytes(value, "little", signed=len(value) in (4, 8))
        if array is not None and len(value) == 8:
            yield ArgumentFact(name, array.dtype, array.shape, array.strides, number)
        elif len(value) == 8 and gpu.memory.extent(number) is not None:
            yield ArgumentFact(name, address=number)
        else:
            yield ArgumentFact(name, value=number if len(value) in (4, 8) else None)


def driver_error(code: str, message: str) -> Exception:
    """The error of a driver call, which handlers for numba-cuda's and `cuda.core`'s errors catch."""
    return _error(code, message, None)


def _print(text: str) -> None:
    print(text, end="", flush=True)


def code_of(error: TilewrightError) -> str:
    """The driver's code for an error of the machine."""
    if isinstance(error, KernelError) and error.fault == "misaligned":
        return "CUDA_ERROR_MISALIGNED_ADDRESS"
    return next((code for kind, code in _CODES if isinstance(error, kind)), "CUDA_ERROR_UNKNOWN")


def kernel_error(error: TilewrightError) -> Exception:
    """The program's error for a launch that the machine rejected or ended."""
    code = code_of(error)
    return _error(code, f"{code}: {error}", error)


def _error(code: str, message: str, cause: TilewrightError | None) -> Exception:
    """The error of a launch: a RuntimeError, as torch raises, and one of numba-cuda's and cuda.core's if loaded."""
    loaded = (getattr(sys.modules.get(module), name, None) for module, name in _ERRORS)
    error: Exception = _error_class(*filter(None, loaded))(code, message, cause)
    return error


@functools.cache
def _error_class(*bases: type) -> Any:
    from cuda.bindings.driver import CUresult

    class SimulatedLaunchError(*bases, KernelError, RuntimeError):  # type: ignore[misc]
        """A launch failed on the simulated GPU."""

        def __init__(self, code: str, message: str, cause: TilewrightError | None) -> None:
            KernelError.__init__(self, message, **(vars(cause) if isinstance(cause, KernelError) else {}))
            self.code, self.msg = CUresult.__members__[code], message

        def __str__(self) -> str:
            return f"[{int(self.code)}] {self.msg}"

    SimulatedLaunchError.__qualname__ = SimulatedLaunchError.__name__  # tracebacks name it so
    return SimulatedLaunchError
