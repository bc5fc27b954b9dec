"""Calls of compiled CUDA programs alone: they register device code, and read the last error of a thread.

Source: `crt/host_runtime.h` of the vendor's headers; CUDA Runtime API, "Error Handling".
"""

from __future__ import annotations

import itertools

from tilewright.frontends.libcuda import errors
from tilewright.frontends.libcuda.loading import fatbin_at
from tilewright.frontends.programs.protocol import Caller
from tilewright.frontends.programs.runtime import Module

#: The wrapper's version for separate compilation (`-rdc=true`): it refers to a list of parts to link.
#: Source: `fatbinary_section.h`, and `crt/link.stub`, which fills the list.
_LINKED = 2


def __cudaRegisterFatBinary(call: Caller, wrapper: int) -> int:
    _, version, data, linked = call.unpacked("2I2Q", wrapper)
    places = [data]
    if version == _LINKED:
        places = list(itertools.takewhile(bool, (call.unpacked("Q", linked + 8 * at) for at in itertools.count())))
    handle = call.gpu.new_handle()
    call.runtime.modules[handle] = Module([fatbin_at(call.gpu, place) for place in places], call.gpu)
    return handle


def __cudaRegisterFatBinaryEnd(call: Caller, handle: int) -> None:
    """Mark the end of a module's registration."""


def __cudaRegisterFunction(
    call: Caller, handle: int, host: int, device: int, name: int, threads: int, *extents: int
) -> None:
    call.runtime.functions[host] = call.runtime.modules[handle], call.text(name)


def __cudaRegisterVar(
    call: Caller, handle: int, host: int, device: int, name: int, external: int, size: int, constant: int, known: int
) -> None:
    call.runtime.variables[host] = call.runtime.modules[handle], call.text(name), size


def __cudaRegisterManagedVar(
    call: Caller, handle: int, host: int, device: int, name: int, external: int, size: int, constant: int, known: int
) -> None:
    module = call.runtime.modules[handle]
    module.managed[call.text(name)] = host


def __cudaInitModule(call: Caller, handle: int) -> int:
    module = call.runtime.modules[handle]
    for name, host in module.managed.items():
        address, _ = module.code.library.variable(name)
        call.pack("Q", host, address)
        call.runtime.variables[address] = module, name, 0
    return 1


def cudaDeviceReset(call: Caller) -> None:
    """Destroy everything that the process has on the device."""
    call.gpu.reset()
    call.last_error = 0


def cudaGetLastError(call: Caller) -> int:
    """The last error of this thread; resets it."""
    error = cudaPeekAtLastError(call)
    call.last_error = 0
    return error


def cudaPeekAtLastError(call: Caller) -> int:
    """The last error of this thread."""
    return errors.code_of(call.gpu.broken) if call.gpu.broken else call.last_error
