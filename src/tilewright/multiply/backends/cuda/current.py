"""The current GPU, for its arrays: cuda.core's names and the driver's calls, or those of an installed simulated GPU."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilewright.errors import DeviceError, MissingExtraError
from tilewright.ground.native.memo import bounded, memo
from tilewright.ground.settings import Nested
from tilewright.simulate import machine
from tilewright.simulate.machine import Gpu, launch_limits
from tilewright.simulate.programs import Program, assembler
from tilewright.simulate.programs.optional import require

_PURPOSE = "Multiplying arrays of a GPU"
#: Parameters begin at multiples of this in the host's memory, as a tensor map's bytes must.
_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Current:
    """The current GPU."""

    name: str
    compute_capability: tuple[int, int]
    number: int  #: Different for any two GPUs, simulated ones included.
    record: Gpu = field(compare=False)  #: Its own record, or that of the most similar GPU.
    #: The GPU and its driver in a tuner's keys; "" for a simulated GPU in its place, which its record identifies.
    identity: str = field(compare=False, default="")


class Names(Protocol):
    """The names of cuda.core that multiply, and the driver's calls."""

    launch: Any
    LaunchConfig: Any
    ObjectCode: Any
    Stream: Any
    Device: Any
    driver: Any


@memo
def _simulated() -> Nested[Names]:
    return Nested()


def replaced_by(names: Names) -> contextlib.AbstractContextManager[None]:
    """Let a simulated GPU multiply its own arrays in the body of `with`."""
    return _simulated().within(names)


def names() -> Any:
    """The names `launch`, `LaunchConfig`, `ObjectCode`, `Stream` and `Device` of cuda.core."""
    return _simulated().innermost or require("cuda.core", _PURPOSE)


def stream(handle: int) -> Any:
    """The stream of a handle."""
    return names().Stream.from_handle(handle)


def wait(stream: Any) -> None:
    """Wait for a stream's work.

    Raises DeviceError: the work failed.
    """
    check(driver().cuStreamSynchronize(stream.handle), "waiting for the product")


def driver() -> Any:
    """The driver's calls."""
    simulated = _simulated().innermost
    return simulated.driver if simulated else require("cuda.bindings.driver", _PURPOSE)


def check(result: Any, action: str) -> Any:
    """The result of a driver's call; None if it has none.

    Raises DeviceError: the call returned an error.
    """
    if int(result[0]) != 0:
        raise DeviceError(f"{action} failed: the driver reports {result[0].name}")
    return result[1] if len(result) > 1 else None


def timed(calls: Any, stream: Any, work: Callable[[], Any]) -> float:
    """Seconds on the GPU of what `work` puts into a stream, between two events; waits for it.

    `calls` are the driver's: releases of cuda.core have different names for the options of an event.

    Raises DeviceError: the work failed.
    """
    start, end = (check(calls.cuEventCreate(0), "making an event") for _ in range(2))
    try:
        check(calls.cuEventRecord(start, stream.handle), "recording an event")
        work()
        check(calls.cuEventRecord(end, stream.handle), "recording an event")
        check(calls.cuEventSynchronize(end), "waiting for the work")
        return float(check(calls.cuEventElapsedTime(start, end), "reading the time")) / 1e3
    finally:
        for event in (start, end):
            calls.cuEventDestroy(event)


def _ready() -> Any:
    """cuda.core's current device, in the thread's context, which may be the caller's own; if it has none, the GPU's.

    Raises DeviceError: there is no GPU.
    """
    try:
        found = names().Device()
        if not int(driver().cuCtxGetCurrent()[1]):
            found.set_current()
    except Exception as error:
        if type(error).__name__ != "CUDAError":  # cuda.core's, which has no public place
            raise
        raise DeviceError(
            f"arrays of an NVIDIA GPU need that GPU (got an error of the driver: {str(error).partition(':')[0]}); "
            "those of a simulated GPU are multiplied inside `with tilewright.simulated_gpu():`"
        ) from error
    return found


@contextlib.contextmanager
def kept_context(calls: Any) -> Iterator[None]:
    """Leave the thread in the context that it had, if any, by the driver's `calls`."""
    before = check(calls.cuCtxGetCurrent(), "reading the current context")
    try:
        yield
    finally:
        if int(before) and int(before) != int(calls.cuCtxGetCurrent()[1]):
            check(calls.cuCtxSetCurrent(before), "restoring the context")


def device() -> Current:
    """The GPU that is current in this thread."""
    found = _ready()
    major, minor = found.compute_capability
    return _current(str(found.name), major, minor, int(found.properties.multiprocessor_count), found.device_id)


def identity() -> Any:
    """A value that identifies the current GPU, quickly."""
    return _ready().device_id


@bounded(64)
def _current(name: str, major: int, minor: int, multiprocessors: int, number: int) -> Current:
    record = machine.nearest(name, (major, minor), multiprocessors)
    identity = ""
    if not is_replaced():
        version = check(driver().cuDriverGetVersion(), "asking for the driver's version")
        identity = f"cuda {name}, {multiprocessors} multiprocessors of {major}.{minor}, driver {version}"
    return Current(name, (major, minor), number, record, identity)


def is_replaced() -> bool:
    """Whether a simulated GPU has replaced cuda.core's names; its launch takes PTX and bytes."""
    return _is_replaced(names())


def _is_replaced(core: Any) -> bool:
    return not core.ObjectCode.__module__.startswith("cuda.")


def launch(core: Any, stream: Any, config: Any, kernel: Any, words: Sequence[Any]) -> None:
    """Launch a kernel whose parameters are NumPy scalars and bytes of structures.

    `core` is cuda.core, or the names of :func:`names`. cuda.core lays out scalars, but not structures. So a kernel with
    a structure is launched by the driver's call, which takes the address of each parameter.

    Raises DeviceError: the driver refuses the launch.
    """
    if bytes not in map(type, words) or _is_replaced(core):
        core.launch(stream, config, kernel, *words)
        return
    values = [word if isinstance(word, bytes) else word.tobytes() for word in words]
    held = [ctypes.create_string_buffer(len(value) + _ALIGN) for value in values]
    places = [-(-ctypes.addressof(one) // _ALIGN) * _ALIGN for one in held]
    for place, value in zip(places, values, strict=True):
        ctypes.memmove(place, value, len(value))
    parameters, calls = (ctypes.c_void_p * len(places))(*places), require("cuda.bindings.driver", _PURPOSE)
    made = calls.cuLaunchKernelEx(
        _driver_config(calls, stream, config), calls.CUfunction(int(kernel.handle)), ctypes.addressof(parameters), 0
    )
    check(made, "launching")


def _driver_config(calls: Any, stream: Any, config: Any) -> Any:
    """A cuda.core configuration for the driver, which counts blocks where cuda.core counts clusters."""
    made, cluster, attributes = calls.CUlaunchConfig(), config.cluster or (1, 1, 1), []
    made.gridDimX, made.gridDimY, made.gridDimZ = (one * of for one, of in zip(config.grid, cluster, strict=True))
    made.blockDimX, made.blockDimY, made.blockDimZ = config.block
    made.sharedMemBytes, made.hStream = config.shmem_size, stream.handle
    if config.cluster:
        attribute, ids = calls.CUlaunchAttribute(), calls.CUlaunchAttributeID
        attribute.id, dims = ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, attribute.value.clusterDim
        dims.x, dims.y, dims.z = cluster
        attributes.append(attribute)
    # Releases of cuda.core before 1.0 have the second name.
    if getattr(config, "is_cooperative", False) or getattr(config, "cooperative_launch", False):
        attribute = calls.CUlaunchAttribute()
        attribute.id, attribute.value.cooperative = calls.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1
        attributes.append(attribute)
    made.attrs, made.numAttrs = attributes, len(attributes)
    return made


@bounded(256)
def loaded(program: Program, device: Current, shared_bytes: int = 0) -> Any:
    """A program's kernel, assembled and loaded on a GPU, with its limit of dynamic shared memory set."""
    kernel = _kernel(program, device)
    if program.shared_bytes + shared_bytes > launch_limits().shared_per_block_bytes:
        calls = driver()
        most = calls.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        which = calls.CUdevice(device.number)
        check(calls.cuKernelSetAttribute(most, shared_bytes, kernel.handle, which), "asking for shared memory")
    return kernel


def _kernel(program: Program, device: Current) -> Any:
    codes = names().ObjectCode
    try:
        if is_replaced():
            raise MissingExtraError("the simulated GPU runs PTX", "gpu")
        code = codes.from_cubin(assembler.cubin(program.ptx, program.entry, device.compute_capability))
    except MissingExtraError:
        code = codes.from_ptx(program.ptx.encode())
    return code.get_kernel(program.entry)
