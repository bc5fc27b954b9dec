"""Calls about the device, errors, versions and what a kernel needs.

Source: CUDA Runtime API, "Device Management", "Error Handling", "Execution Control", "Occupancy".
"""

from __future__ import annotations

from tilewright.drivers import modules, properties
from tilewright.drivers.cuda_programs import headers
from tilewright.drivers.cuda_programs.errors import number
from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.gpu import DriverError

#: CUDA's version that the runtime says it has. Source: the headers' CUDART_VERSION.
_VERSION = 13000


def cudaChooseDevice(call: Caller, device: int, wanted: int) -> None:
    """The device that is best for what is wanted."""
    call.pack("i", device, 0)


def cudaSetDeviceFlags(call: Caller, flags: int) -> None:
    """How the host waits, which changes nothing here."""
    call.runtime.notes["device flags"] = flags


def cudaGetDeviceFlags(call: Caller, flags: int) -> None:
    """How the host waits."""
    call.pack("I", flags, call.runtime.notes.get("device flags", 0) | 8)  # cudaDeviceMapHost


def cudaDeviceReset(call: Caller) -> None:
    """Destroy all that the process has on the device."""
    call.runtime.broken = ""
    call.gpu.reset()
    runtime = call.runtime
    for graphs in (runtime.graphs, runtime.captures, runtime.captured):
        graphs.clear()
    for memory in (runtime.graph_memory, runtime.arrays, runtime.objects):
        memory.clear()
    for module in runtime.modules.values():
        code = vars(module).get("code")
        if code is not None:
            vars(code).pop("library", None)
    call.last_error = 0


def cudaGetLastError(call: Caller) -> int:
    """The last error of this thread, which is none afterwards."""
    if call.runtime.broken:
        return number(call.runtime.broken)
    error, call.last_error = call.last_error, 0
    return error


def cudaPeekAtLastError(call: Caller) -> int:
    """The last error of this thread."""
    return number(call.runtime.broken) if call.runtime.broken else call.last_error


def cudaGetDeviceProperties(call: Caller, address: int, device: int) -> None:
    """All that is known of the device."""
    _checked(device)
    call.write(address, headers.filled(headers.folder() / "driver_types.h", "cudaDeviceProp", properties.of(call.gpu)))


def cudaDeviceGetCacheConfig(call: Caller, config: int) -> None:
    """What is preferred, first-level cache or shared memory."""
    call.pack("i", config, 0)


def cudaDeviceGetSharedMemConfig(call: Caller, config: int) -> None:
    """The width of banks: four bytes."""
    call.pack("i", config, 1)


def cudaDeviceGetPCIBusId(call: Caller, text: int, length: int, device: int) -> None:
    """The device's place on a bus that it is not on."""
    _checked(device)
    call.write(text, properties.PCI[: length - 1] + b"\0")


def cudaDeviceGetByPCIBusId(call: Caller, device: int, text: int) -> None:
    """The device at a place on the bus."""
    call.pack("i", device, 0)


def cudaDeviceEnablePeerAccess(call: Caller, peer: int, flags: int) -> None:
    """Reach another device's memory; there is none."""
    raise DriverError("CUDA_ERROR_INVALID_DEVICE")


def cudaFuncGetAttributes(call: Caller, attributes: int, function: int) -> None:
    """What a kernel needs."""
    kernel = call.runtime.kernel(function)
    needs, gpu = kernel.attributes, call.gpu
    module = kernel.code.library
    cc = kernel.program.cc
    set_ = gpu.kernel_limits.get((module.handle, kernel.name))
    most = gpu.record.launch.shared_per_block_bytes - needs.shared_size_bytes if set_ is None else set_
    call.write(
        attributes,
        headers.filled(
            headers.folder() / "driver_types.h", "cudaFuncAttributes",
            {
                "sharedSizeBytes": needs.shared_size_bytes, "constSizeBytes": needs.const_size_bytes,
                "localSizeBytes": needs.local_size_bytes, "maxThreadsPerBlock": needs.max_threads_per_block,
                "numRegs": needs.num_regs, "ptxVersion": 10 * cc[0] + cc[1], "binaryVersion": 10 * cc[0] + cc[1],
                "maxDynamicSharedSizeBytes": most, "preferredShmemCarveout": -1,
                "nonPortableClusterSizeAllowed": int((module.handle, kernel.name) in gpu.large_clusters),
            },
        ),
    )  # fmt: skip


def cudaFuncSetAttribute(call: Caller, function: int, attribute: int, value: int) -> None:
    """Set an attribute of a kernel, whose number is the driver's."""
    modules.cuKernelSetAttribute(call.gpu, attribute, value, call.runtime.kernel(function), 0)


def cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    call: Caller, blocks: int, function: int, threads: int, shared: int
) -> None:
    """Blocks of a kernel that are resident at once."""
    kernel = call.runtime.kernel(function)
    call.pack("i", blocks, modules.cuOccupancyMaxActiveBlocksPerMultiprocessor(call.gpu, kernel, threads, shared))


def cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    call: Caller, blocks: int, function: int, threads: int, shared: int, flags: int
) -> None:
    """The same, whatever the flags."""
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(call, blocks, function, threads, shared)


def _checked(device: int) -> None:
    if device != 0:
        raise DriverError("CUDA_ERROR_INVALID_DEVICE")
