"""Calls for the device, errors and kernel attributes that need an implementation of their own for programs.

Source: CUDA Runtime API, "Device Management", "Error Handling", "Execution Control".
"""

from __future__ import annotations

from tilewright.frontends.libcuda import errors
from tilewright.frontends.libcuda.loading import cuFuncGetAttribute
from tilewright.frontends.programs.protocol import Caller

#: `cudaFuncAttributes`, and the driver's attribute number for each field.
_NEEDS, _NEEDED = "3Q13i64x", (1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14)


def cudaChooseDevice(call: Caller, device: int, wanted: int) -> None:
    """The device that fits the properties best."""
    call.pack("i", device, 0)


def cudaSetDeviceFlags(call: Caller, flags: int) -> None:
    """Set how the host waits; no effect here."""
    call.runtime.notes["device flags"] = flags


def cudaGetDeviceFlags(call: Caller, flags: int) -> None:
    """How the host waits."""
    call.pack("I", flags, call.runtime.notes.get("device flags", 0) | 8)  # cudaDeviceMapHost


def cudaDeviceReset(call: Caller) -> None:
    """Destroy everything that the process has on the device."""
    call.gpu.reset()
    runtime = call.runtime
    for graphs in (runtime.graphs, runtime.captures, runtime.captured):
        graphs.clear()
    for memory in (runtime.graph_memory, runtime.arrays, runtime.objects):
        memory.clear()
    call.last_error = 0


def cudaGetLastError(call: Caller) -> int:
    """The last error of this thread; resets it."""
    error = cudaPeekAtLastError(call)
    call.last_error = 0
    return error


def cudaPeekAtLastError(call: Caller) -> int:
    """The last error of this thread."""
    return errors.code_of(call.gpu.broken) if call.gpu.broken else call.last_error


def cudaDeviceGetCacheConfig(call: Caller, config: int) -> None:
    """The preference for first-level cache or shared memory."""
    call.pack("i", config, 0)


def cudaDeviceGetSharedMemConfig(call: Caller, config: int) -> None:
    """The width of banks: four bytes."""
    call.pack("i", config, 1)


def cudaFuncGetAttributes(call: Caller, attributes: int, function: int) -> None:
    """The resources of a kernel."""
    kernel = call.kernel(function)
    call.pack(_NEEDS, attributes, *(cuFuncGetAttribute(call.gpu, one, kernel) for one in _NEEDED))
