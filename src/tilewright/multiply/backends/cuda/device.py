"""Running a kernel on a real GPU, with the signature of the simulated launch.

Arrays that are on the GPU already (anything with `__cuda_array_interface__`) are used where they are. NumPy arrays are
copied there and back, unless they are read-only or broadcast. The kernel's machine code comes from the assembler that
:meth:`Program.resources` reports for, if it is installed; else the driver compiles the PTX.

Source: cuda.core documentation; CUDA Driver API, "Memory Management" and "Library Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, CompileError, DeviceError, LaunchError, MissingExtraError
from tilewright.ground.native.memo import bounded
from tilewright.multiply.backends.cuda.current import (
    device as current_gpu,
    is_replaced,
    kept_context,
    launch as launch_words,
    timed,
)
from tilewright.multiply.backends.cuda.tensor_maps import of_driver
from tilewright.simulate import machine
from tilewright.simulate.launch_request import Extents, SimulatedOptions
from tilewright.simulate.machine import Gpu, launch_limits
from tilewright.simulate.programs import assembler
from tilewright.simulate.programs.array_arguments import ArrayParameter, Region, array_shape, stage, written_back
from tilewright.simulate.programs.clusters import cluster_of
from tilewright.simulate.programs.launch_rules import checked_extents, cluster_extents
from tilewright.simulate.programs.optional import require
from tilewright.simulate.programs.program import Program, program_for

#: An export of the library that `drivers.libcuda` provides under the driver's name. Without a simulated GPU in place
#: that library forwards to the vendor's driver, if there is one.
STAND_IN = "tilewright_slots"
#: Source: CUDA Driver API, "Data types used by CUDA driver", CUDA_ERROR_NO_DEVICE.
_NO_DEVICE = 100
_NO_DRIVER = "no NVIDIA driver (libcuda.so.1) is installed"
_PURPOSE = "Running on a real GPU"
_ELSEWHERE = 'use the simulated GPU instead (device="simulated"; for a kernel, tilewright.simt.launch)'
#: Unsigned words by their bytes.
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class DeviceRun:
    """The result of a launch on a real GPU; a subset of the fields of a simulated launch's `Run`."""

    seconds: float  #: The kernel's time on the GPU, between two events.
    program: Program  #: The program that ran.
    device: str  #: The GPU's name.
    translate_seconds: float = 0.0  #: Nothing is translated.
    cached: bool = True
    printed: str = ""  #: A GPU prints to the process's own standard output.
    results: dict[str, Any] = field(default_factory=dict)  #: Empty: instruments observe the simulated GPU.


def unavailable() -> str:
    """Why no GPU can be used, in one line; empty if one can.

    >>> isinstance(unavailable(), str)
    True
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return _NO_DRIVER
    # The driver's own calls: some releases of cuda.core count GPUs by another library, and it is slow to import.
    count = ctypes.c_int()
    error = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if error and getattr(driver, STAND_IN, None) is not None:
        return _NO_DRIVER
    if error not in (0, _NO_DEVICE):
        return f"the NVIDIA driver reports no usable GPU (error {error})"
    if not count.value:
        return "the NVIDIA driver reports no GPU"
    try:
        require("cuda.core", _PURPOSE)
    except MissingExtraError as error:
        return str(error)
    return ""


def available() -> bool:
    """Whether a GPU can be used."""
    return not unavailable()


def current() -> Any:
    """The current `cuda.core.Device`, ready for use; its context becomes the thread's.

    Raises DeviceError: there is no driver or no GPU.
    """
    check_available()
    device = require("cuda.core", _PURPOSE).Device()
    device.set_current()
    return device


def check_available() -> None:
    """Raise DeviceError if there is no driver or no GPU."""
    if reason := unavailable():
        raise DeviceError(f"a launch on a real GPU needs one ({reason}); {_ELSEWHERE}")


def compute_capability() -> tuple[int, int]:
    """The current GPU's compute capability.

    Raises DeviceError: there is no driver or no GPU.
    """
    major, minor = current().compute_capability
    return major, minor


def launch(
    kernel: Any,
    grid: Extents,
    block: Extents,
    args: Sequence[Any],
    shared_bytes: int = 0,
    instruments: Sequence[Any] = (),
    *,
    cooperative: bool = False,
    cluster: Extents | None = None,
    **simulated: Unpack[SimulatedOptions],
) -> DeviceRun:
    """Run a kernel on the current GPU and wait for it.

    Parameters
    ----------
    kernel, grid, block, shared_bytes, cooperative, cluster
        As for :func:`tilewright.simt.launch`; kernels are compiled for this GPU.
    args : sequence
        Arrays (NumPy's of any strides, or the GPU's), numbers, tensor maps, structures, and tuples of them; views that
        share elements are one memory.
    instruments, **simulated
        Of the simulated GPU; a real one cannot honour them, so they must be left at their defaults.

    Raises
    ------
    DeviceError
        There is no GPU, or the GPU reported an error.
    LaunchError
        Grid, block, shared memory or arguments break a rule.

    Examples
    --------
    >>> if available():
    ...     run = launch(kernel, (4, 4), (16, 16), (a, b, c))  # doctest: +SKIP
    """
    if unknown := simulated.keys() - SimulatedOptions.__annotations__:
        raise TypeError(f"launch() got an unexpected keyword argument '{min(unknown)}'")
    for name, value in {"instruments": instruments, **simulated}.items():
        if value is not None and value != ():
            raise LaunchError(f"`{name}` is for the simulated GPU (got {value!r}); leave it out, or {_ELSEWHERE}")
    check_available()
    with kept_context(require("cuda.bindings.driver", _PURPOSE)):
        return _launch(kernel, grid, block, args, shared_bytes, cooperative, cluster)


def _launch(
    kernel: Any,
    grid: Extents,
    block: Extents,
    args: Sequence[Any],
    shared_bytes: int,
    cooperative: bool,
    cluster: Extents | None,
) -> DeviceRun:
    device = current()
    program = program_for(kernel, args, tuple(device.compute_capability))
    blocks, threads = checked_extents(program.name, grid, block)
    if shared_bytes < 0:
        raise LaunchError(f"{program.name}: `shared_bytes` must be at least 0 (got {shared_bytes})")
    config: dict[str, Any] = {"grid": blocks, "block": threads, "shmem_size": shared_bytes}
    if cooperative:
        # Below 1.0, cuda.core has the first of these names.
        older = hasattr(require("cuda.core", _PURPOSE).LaunchConfig, "cooperative_launch")
        config["cooperative_launch" if older else "is_cooperative"] = True
    if (asked := cluster_extents(program.name, cluster)) is not None:
        cluster_of(program, asked, blocks, nearest(device))
        # cuda.core counts clusters.
        config |= {"cluster": asked, "grid": tuple(one // part for one, part in zip(blocks, asked, strict=True))}
    try:
        return _run(device, program, config, args)
    except (ArgumentTypeError, LaunchError, DeviceError, CompileError):
        raise
    except Exception as error:  # cuda.core's and the driver's, which have no common type
        raise DeviceError(f"{program.name} failed on {device.name}: {error}") from error


def nearest(device: Any) -> Gpu:
    """The record of the most similar GPU."""
    major, minor = device.compute_capability
    return machine.nearest(str(device.name), (major, minor), int(device.properties.multiprocessor_count))


def _run(device: Any, program: Program, extents: dict[str, Any], args: Sequence[Any]) -> DeviceRun:
    core = require("cuda.core", _PURPOSE)
    stream = device.create_stream()
    copies = _Copies(device, stream)
    try:
        args = [of_driver(arg) for arg in args]
        staged = stage(args, copies)
        copies.send_structures()
        words = words_of(program, program.marshal(args, staged.address_of))
        number = current_gpu().number if is_replaced() else device.device_id
        kernel = _loaded(program.ptx, program.entry, number, tuple(device.compute_capability))
        if program.shared_bytes + extents["shmem_size"] > launch_limits().shared_per_block_bytes:
            _allow_shared(kernel, device, extents["shmem_size"])
        config = core.LaunchConfig(**extents)
        device.sync()  # other streams may still write arrays that were on the GPU before
        calls = require("cuda.bindings.driver", _PURPOSE)
        seconds = timed(calls, stream, lambda: launch_words(core, stream, config, kernel, words))
        copies.bring_back()
        staged.copy_back()
        return DeviceRun(seconds, program, device.name)
    finally:
        copies.close()
        stream.close()


def words_of(program: Program, values: Sequence[bytes]) -> list[Any]:
    """Parameter bytes for a launch: structures unchanged, and unsigned words for all else."""
    return [
        value if parameter.kind == "bytes" else np.frombuffer(value, WORDS[len(value)])[0]
        for parameter, value in zip(program.parameters, values, strict=True)
    ]


@bounded(256)
def _loaded(ptx: str, entry: str, number: int, cc: tuple[int, int]) -> Any:
    """The kernel, loaded on the current GPU, whose number is part of the key only: cuda.core unloads nothing."""
    codes = require("cuda.core", _PURPOSE).ObjectCode
    if is_replaced():  # a simulated GPU runs PTX
        return codes.from_ptx(ptx.encode()).get_kernel(entry)
    try:
        code = codes.from_cubin(assembler.cubin(ptx, entry, cc))
    except MissingExtraError:
        code = codes.from_ptx(ptx.encode())
    return code.get_kernel(entry)


def _allow_shared(kernel: Any, device: Any, shared_bytes: int) -> None:
    driver = require("cuda.bindings.driver", _PURPOSE)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    id_ = driver.CUdevice(device.device_id)
    _check(driver.cuKernelSetAttribute(attribute, shared_bytes, kernel.handle, id_)[0], "asking for shared memory")


def _check(error: Any, action: str) -> None:
    if int(error) != 0:
        raise DeviceError(f"{action} failed: the driver reports {error.name}")


class _Copies:
    """Copies of host arrays on the GPU, for one launch."""

    def __init__(self, device: Any, stream: Any) -> None:
        self._device = device
        self._stream = stream
        self._driver = require("cuda.bindings.driver", _PURPOSE)
        self._held: list[tuple[Region, Any, npt.NDArray[np.uint8]]] = []
        self._structures: list[tuple[Any, npt.NDArray[np.uint8]]] = []

    def resident(self, array: Any) -> int:
        """The address of an array that is on the GPU already."""
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is None:
            raise ArgumentTypeError(
                f"an array on a real GPU must be NumPy's or have __cuda_array_interface__ (got {type(array).__name__}, "
                f"{array_shape(array)}); pass it as a NumPy array"
            )
        return int(interface["data"][0])

    def structure(self, parameter: ArrayParameter) -> tuple[int, npt.NDArray[np.uint8]]:
        """Memory for a structure, and its bytes; `send_structures` copies them after they are filled."""
        raw: npt.NDArray[np.uint8] = np.zeros(parameter.dtype.itemsize * parameter.shape[0], np.uint8)
        buffer = self._device.allocate(raw.nbytes, stream=self._stream)
        self._structures.append((buffer, raw))
        return int(buffer.handle), raw

    def send_structures(self) -> None:
        """Copy structures to the GPU."""
        for buffer, raw in self._structures:
            self._send(int(buffer.handle), raw.ctypes.data, raw.nbytes)

    def _send(self, to: int, source: int, size: int) -> None:
        error = self._driver.cuMemcpyHtoDAsync(to, source, size, self._stream.handle)[0]
        _check(error, f"copying {size} bytes to the GPU")

    def copied(self, region: Region) -> tuple[int, npt.NDArray[np.uint8]]:
        """Copy arrays, with the bytes between their elements."""
        copy: npt.NDArray[np.uint8] = np.empty(max(region.lead_bytes + region.size_bytes, 1), np.uint8)
        buffer = self._device.allocate(copy.nbytes, stream=self._stream)
        self._held.append((region, buffer, copy))
        if size := region.size_bytes:
            self._send(int(buffer.handle) + region.lead_bytes, region.low, size)
        return int(buffer.handle), copy

    def bring_back(self) -> None:
        """Copy writable arrays back to the host."""
        for region, buffer, copy in self._held:
            if any(written_back(array) for array in region.arrays):
                lead, size = region.lead_bytes, region.size_bytes
                to, start = copy.ctypes.data + lead, int(buffer.handle) + lead
                error = self._driver.cuMemcpyDtoHAsync(to, start, size, self._stream.handle)[0]
                _check(error, f"copying {size} bytes from the GPU")
        self._stream.sync()

    def close(self) -> None:
        """Free the copies."""
        for buffer in (*(held[1] for held in self._held), *(structure[0] for structure in self._structures)):
            buffer.close(self._stream)
        self._stream.sync()
