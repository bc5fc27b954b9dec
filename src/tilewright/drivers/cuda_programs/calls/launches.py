"""Calls that register a program's device code, and that launch its kernels.

Source: CUDA Runtime API, "Execution Control"; of registration `crt/host_runtime.h` of the vendor's headers.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

from tilewright.drivers.cuda_programs import fatbin
from tilewright.drivers.cuda_programs.errors import STICKY, LaunchFailedError
from tilewright.drivers.cuda_programs.graph import Work
from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.cuda_programs.runtime import Module
from tilewright.drivers.launching import LaunchConfig
from tilewright.simt.observer import ArgumentFact

#: Attributes of a launch that change what it does. Source: CUDA Runtime API, `cudaLaunchAttributeID`.
_COOPERATIVE, _CLUSTER = 2, 4
_ATTRIBUTE_BYTES = 72
#: A wrapper's version where device code was compiled apart (`-rdc=true`): it names a list of what is to be linked.
#: Source: `fatbinary_section.h`, and `crt/link.stub`, which fills the list.
_LINKED = 2


def __cudaRegisterFatBinary(call: Caller, wrapper: int) -> int:
    _, version, data, linked = call.unpacked("2I2Q", wrapper)
    places = [data]
    if version == _LINKED:
        places = list(itertools.takewhile(bool, (call.unpacked("Q", linked + 8 * at) for at in itertools.count())))
    handle = call.gpu.new_handle()
    call.runtime.modules[handle] = Module([_fat_binary(call, place) for place in places], call.gpu)
    return handle


def _fat_binary(call: Caller, place: int) -> bytes:
    """The bytes of a fat binary at an address of the program."""
    _, _, header, size = fatbin.HEADER.unpack(call.read(place, fatbin.HEADER.size))
    return call.read(place, header + size)


def __cudaRegisterFatBinaryEnd(call: Caller, handle: int) -> None:
    """All of a module is registered."""


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


def cudaLaunchKernel(
    call: Caller, function: int, grid: tuple[int, ...], block: tuple[int, ...], arguments: int, shared: int, stream: int
) -> None:
    """Launch a kernel."""
    launch(call, function, LaunchConfig(grid, block, None, shared), arguments, stream)


def cudaLaunchCooperativeKernel(
    call: Caller, function: int, grid: tuple[int, ...], block: tuple[int, ...], arguments: int, shared: int, stream: int
) -> None:
    """Launch a kernel whose blocks can wait for each other."""
    launch(call, function, LaunchConfig(grid, block, None, shared, cooperative_launch=True), arguments, stream)


def cudaLaunchKernelExC(call: Caller, config: int, function: int, arguments: int) -> None:
    """Launch a kernel by a configuration with attributes."""
    *extents, shared, stream, attributes, count = call.unpacked("6I3QI", config)
    cluster, cooperative = attributes_of(call, attributes, count)
    grid = tuple(extents[:3])
    if cluster is not None:
        if any(of < 1 or blocks % of for blocks, of in zip(grid, cluster, strict=True)):
            rule = f"the grid {grid} must be a multiple of the launch's cluster {cluster}"
            raise LaunchFailedError("CUDA_ERROR_INVALID_CLUSTER_SIZE", f"cudaLaunchKernelEx: {rule}")
        grid = tuple(blocks // of for blocks, of in zip(grid, cluster, strict=True))  # what a LaunchConfig counts
    launch(call, function, LaunchConfig(grid, tuple(extents[3:]), cluster, shared, cooperative), arguments, stream)


def attributes_of(call: Caller, address: int, count: int) -> tuple[tuple[int, ...] | None, bool]:
    """A launch's cluster, and whether it is cooperative."""
    data = call.read(address, _ATTRIBUTE_BYTES * count)
    cluster, cooperative = None, False
    for at in range(0, len(data), _ATTRIBUTE_BYTES):
        (kind,) = struct.unpack_from("<I", data, at)
        if kind == _CLUSTER:
            cluster = struct.unpack_from("<3I", data, at + 8)
        elif kind == _COOPERATIVE:
            cooperative = bool(struct.unpack_from("<i", data, at + 8)[0])
    return cluster, cooperative


def launch(call: Caller, function: int, config: LaunchConfig, arguments: int, stream: int) -> None:
    """Run a kernel with arguments at such addresses; a kernel that goes wrong shows in the next call.

    Raises DriverError: the launch is refused.
    """
    where = 0 if stream in call.runtime.captures else stream  # which may be gone when its graph is launched
    call.runtime.submit(call, stream, prepared(call, function, config, arguments, where), "kernel")


def prepared(call: Caller, function: int, config: LaunchConfig, arguments: int, stream: int) -> Work:
    """A launch whose arguments are those of now.

    Raises DriverError: there is no such kernel.
    """
    parameters = call.runtime.kernel(function).program.parameters
    places = call.unpacked(f"{len(parameters)}Q", arguments) if parameters else ()
    places = places if isinstance(places, tuple) else (places,)
    values = call.read_all([(at, one.bytes) for at, one in zip(places, parameters, strict=True)])
    return lambda now: launched(now, function, config, values, stream)


def launched(call: Caller, function: int, config: LaunchConfig, values: Sequence[bytes], stream: int) -> None:
    """Run a kernel with arguments of such bytes.

    Raises DriverError: the launch is refused.
    """
    runtime = call.runtime
    kernel = runtime.kernel(function)
    launcher = runtime.launcher(call.show)
    call.settle()  # a graph may have copied just now
    launcher.note(lambda given: [fact(call, at, value) for at, value in enumerate(given)])
    try:
        launcher.launch(stream, config, kernel, *values)
    except LaunchFailedError as error:
        if error.code == "CUDA_ERROR_INVALID_VALUE":
            raise LaunchFailedError("cudaErrorInvalidConfiguration", str(error)) from None
        if error.code not in STICKY:
            raise
        runtime.failed(error)


def fact(call: Caller, number: int, value: bytes) -> ArgumentFact:
    """What is known of an argument by its bytes."""
    name = f"argument {number}"
    if len(value) == 8:
        address = int.from_bytes(value, "little")
        if call.gpu.memory.extent(address) is not None:
            return ArgumentFact(name, address=address)
    return ArgumentFact(name, value=int.from_bytes(value, "little", signed=True) if len(value) in (4, 8) else None)


def cudaLaunchHostFunc(call: Caller, stream: int, function: int, data: int) -> None:
    """Call a function of the host when a stream's work is done."""

    def work(now: Caller) -> None:
        now.invoke(function, data)

    call.runtime.submit(call, stream, work, "host")


def cudaStreamAddCallback(call: Caller, stream: int, function: int, data: int, flags: int) -> None:
    """Call a function of the host when a stream's work is done."""
    call.gpu.stream(stream)
    call.invoke(function, stream, 0, data)
