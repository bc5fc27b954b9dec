"""Calls of the driver's API: contexts, modules, functions; what the runtime's calls do too is the same function.

Source: CUDA Driver API.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.drivers import contexts, modules
from tilewright.drivers.contexts import PRIMARY
from tilewright.drivers.cuda_programs import fatbin
from tilewright.drivers.cuda_programs.calls import devices, launches, memory, streams
from tilewright.drivers.cuda_programs.errors import LaunchFailedError
from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.cuda_programs.runtime import Code, chosen
from tilewright.drivers.gpu import DriverError
from tilewright.drivers.launching import LaunchConfig
from tilewright.drivers.modules import Kernel

#: Driver's call -> the runtime's with the same parameters.
SAME: Mapping[str, Callable[..., int | None]] = MappingProxyType(
    {
        "cuDeviceGetPCIBusId": devices.cudaDeviceGetPCIBusId, "cuMemFree": memory.cudaFree,
        "cuMemAllocHost": memory.cudaMallocHost, "cuMemHostAlloc": memory.cudaHostAlloc,
        "cuMemFreeHost": memory.cudaFreeHost, "cuMemHostRegister": memory.cudaHostRegister,
        "cuMemHostUnregister": memory.cudaHostUnregister, "cuMemHostGetDevicePointer": memory.cudaHostGetDevicePointer,
        "cuMemAllocAsync": memory.cudaMallocAsync, "cuMemFreeAsync": memory.cudaFreeAsync,
        "cuMemsetD8": memory.cudaMemset, "cuMemsetD8Async": memory.cudaMemsetAsync,
        "cuStreamWaitEvent": streams.cudaStreamWaitEvent, "cuStreamAddCallback": launches.cudaStreamAddCallback,
        "cuLaunchHostFunc": launches.cudaLaunchHostFunc, "cuEventDestroy": streams.cudaEventDestroy,
        "cuEventRecord": streams.cudaEventRecord,
    }
)  # fmt: skip
_BUFFER, _BUFFER_BYTES = 1, 2


def cuDeviceGetName(call: Caller, name: int, length: int, device: int) -> None:
    """The device's name."""
    call.write(name, contexts.cuDeviceGetName(call.gpu, length, device).rstrip(b"\0") + b"\0")


def cuDeviceGetUuid(call: Caller, identifier: int, device: int) -> None:
    """Sixteen bytes of the device's own."""
    call.write(identifier, call.gpu.record.key.encode()[:16].ljust(16, b"\0"))


def cuCtxCreate(call: Caller, context: int, parameters: int, flags: int, device: int) -> None:
    """A context: the one there is."""
    call.pack("Q", context, PRIMARY)


def cuDevicePrimaryCtxGetState(call: Caller, device: int, flags: int, active: int) -> None:
    """Flags of the primary context, and whether it is active."""
    call.pack("I", flags, 0)
    call.pack("i", active, 1)


def cuMemcpyHtoD(call: Caller, target: int, source: int, size: int) -> None:
    """Copy from the host."""
    memory.copied(call, target, source, size, 1)


def cuMemcpyDtoH(call: Caller, target: int, source: int, size: int) -> None:
    """Copy to the host."""
    memory.copied(call, target, source, size, 2)


def cuMemcpyDtoD(call: Caller, target: int, source: int, size: int) -> None:
    """Copy on the device."""
    memory.copied(call, target, source, size, 3)


def cuMemcpy(call: Caller, target: int, source: int, size: int) -> None:
    """Copy between addresses of either side."""
    memory.copied(call, target, source, size, 4)


def cuMemcpyHtoDAsync(call: Caller, target: int, source: int, size: int, stream: int) -> None:
    """Copy from the host, in a stream."""
    memory.cudaMemcpyAsync(call, target, source, size, 1, stream)


def cuMemcpyDtoHAsync(call: Caller, target: int, source: int, size: int, stream: int) -> None:
    """Copy to the host, in a stream."""
    memory.cudaMemcpyAsync(call, target, source, size, 2, stream)


def cuMemcpyDtoDAsync(call: Caller, target: int, source: int, size: int, stream: int) -> None:
    """Copy on the device, in a stream."""
    memory.cudaMemcpyAsync(call, target, source, size, 3, stream)


def cuMemsetD32(call: Caller, pointer: int, value: int, count: int) -> None:
    """Set words on the device."""
    call.gpu.check_range(pointer, 4 * count)
    call.write(pointer, value.to_bytes(4, "little") * count)
    call.gpu.wrote(pointer, 4 * count)


def cuModuleLoad(call: Caller, module: int, name: int) -> None:
    """Load a file of PTX or a fat binary."""
    place = call.text(name)
    try:
        with open(os.path.join(f"/proc/{call.runtime.process}/cwd", place), "rb") as file:  # noqa: PTH118, PTH123
            data = file.read()
    except OSError:
        raise DriverError("CUDA_ERROR_FILE_NOT_FOUND") from None
    _loaded(call, module, data)


def cuModuleLoadData(call: Caller, module: int, image: int) -> None:
    """Load PTX or a fat binary from memory."""
    (magic,) = (call.unpacked("I", image),)
    if magic == fatbin.MAGIC:
        _, _, header, size = fatbin.HEADER.unpack(call.read(image, fatbin.HEADER.size))
        data = call.read(image, header + size)
    elif magic == int.from_bytes(b"\x7fELF", "little"):
        data = b"\x7fELF"
    else:
        data = call.text(image).encode()
    _loaded(call, module, data)


def cuModuleLoadDataEx(call: Caller, module: int, image: int, count: int, options: int, values: int) -> None:
    """Load PTX or a fat binary from memory; options of the just-in-time compiler change nothing here."""
    cuModuleLoadData(call, module, image)


def cuModuleLoadFatBinary(call: Caller, module: int, image: int) -> None:
    """Load a fat binary from memory."""
    cuModuleLoadData(call, module, image)


def _loaded(call: Caller, module: int, data: bytes) -> None:
    if data[:4] == b"\x7fELF":
        raise LaunchFailedError(
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            "a module must be PTX (got machine code of a GPU); compile it with nvcc -ptx",
        )
    is_fat = int.from_bytes(data[:4], "little") == fatbin.MAGIC
    code = chosen(call.gpu, data) if is_fat else Code(call.gpu, data.rstrip(b"\0").decode("utf-8", "replace") + "\n")
    handle = code.library.handle
    call.runtime.notes["module", handle] = code
    call.pack("Q", module, handle)


def cuModuleUnload(call: Caller, module: int) -> None:
    """Unload a module."""
    _code(call, module)
    modules.cuLibraryUnload(call.gpu, module)


def cuModuleGetFunction(call: Caller, function: int, module: int, name: int) -> None:
    """A kernel of a module."""
    code, text = _code(call, module), call.text(name)
    if text not in {entry.name for entry in code.library.module.entries}:
        raise DriverError("CUDA_ERROR_NOT_FOUND")
    handle = call.gpu.new_handle()
    call.runtime.kernels[handle] = Kernel(code, text)
    call.pack("Q", function, handle)


def cuModuleGetGlobal(call: Caller, pointer: int, size: int, module: int, name: int) -> None:
    """A variable of a module."""
    address, count = _code(call, module).library.variable(call.text(name))
    call.pack("Q", pointer, address)
    call.pack("Q", size, count)


def _code(call: Caller, module: int) -> Code:
    found = call.runtime.notes.get(("module", module))
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    code: Code = found
    return code


def cuLaunchKernel(call: Caller, function: int, *words: int) -> None:
    """Launch a kernel; its arguments are at addresses, or packed in a buffer."""
    _launched(call, function, LaunchConfig(words[:3], words[3:6], None, words[6]), words[7], words[8], words[9])


def cuLaunchCooperativeKernel(call: Caller, function: int, *words: int) -> None:
    """Launch a kernel whose blocks can wait for each other."""
    config = LaunchConfig(words[:3], words[3:6], None, words[6], cooperative_launch=True)
    _launched(call, function, config, words[7], words[8], 0)


def _launched(call: Caller, function: int, config: LaunchConfig, stream: int, arguments: int, extra: int) -> None:
    if function not in call.runtime.kernels:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    if arguments or not extra:
        launches.launch(call, function, config, arguments, stream)
        return
    buffer, at, values = b"", 0, []
    names = call.unpacked("5Q", extra)
    given = dict(zip(names[0:4:2], names[1:4:2], strict=True))
    if _BUFFER in given and _BUFFER_BYTES in given:
        buffer = call.read(given[_BUFFER], call.unpacked("Q", given[_BUFFER_BYTES]))
    for one in call.runtime.kernels[function].program.parameters:
        at = -(-at // one.align) * one.align
        values.append(buffer[at : at + one.bytes].ljust(one.bytes, b"\0"))
        at += one.bytes
    call.runtime.submit(call, stream, lambda now: launches.launched(now, function, config, values, stream), "kernel")
