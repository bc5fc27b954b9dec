"""Code that a program loads through the driver's functions: modules, libraries, and the kernels in them.

A module stays what it was loaded from when its simulated GPU ends: on the next one it is loaded again when it is used.

Source: CUDA Driver API, "Module Management", "Library Management", "Execution Control".
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tilewright.drivers import modules
from tilewright.drivers.contexts import binding
from tilewright.drivers.cuda_programs.fatbin import HEADER
from tilewright.drivers.cuda_programs.runtime import chosen
from tilewright.drivers.gpu import DriverError, SimulatedGpu, device_addresses
from tilewright.drivers.linking import Linker, ObjectCode
from tilewright.drivers.modules import Kernel, KernelAttributes
from tilewright.errors import TilewrightError
from tilewright.native.once import once
from tilewright.programs.listing import target

_Kept = TypeVar("_Kept")
_MACHINE_CODE, _FATBIN, _FATBIN_WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"


@dataclass(eq=False)
class Code:
    """A loaded module."""

    handle: int
    code: ObjectCode
    kernels: dict[str, int] = field(default_factory=dict)  #: Handles of those that were asked for.
    path: str = ""


@dataclass(eq=False)
class Link:
    """What a program is linking."""

    inputs: list[ObjectCode] = field(default_factory=list)
    linked: Any = None


class Loaded:
    """What a process has loaded, by handle."""

    def __init__(self) -> None:
        self.codes: dict[int, Code] = {}
        self.kernels: dict[int, tuple[Code, Kernel]] = {}
        self.links: dict[int, Link] = {}
        self.names: dict[int, Any] = {}

    def code(self, handle: int) -> Code:
        """A module by its handle."""
        return _found(self.codes, handle)

    def kernel(self, handle: int) -> Kernel:
        """A kernel by its handle."""
        return _found(self.kernels, handle)[1]


def _found(known: dict[int, _Kept], handle: int) -> _Kept:
    if handle not in known:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    return known[handle]


@once
def loaded() -> Loaded:
    """The process's own."""
    return Loaded()


def image_at(gpu: SimulatedGpu, address: int) -> bytes:
    """The text of PTX at an address, or in the fat binary there.

    Raises DriverError: it is machine code of a GPU.
    """
    if not address:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    begin = ctypes.string_at(address, 4)
    if begin == _FATBIN_WRAPPER:
        (address,) = struct.unpack("<Q", ctypes.string_at(address + 8, 8))
        begin = ctypes.string_at(address, 4)
    if begin == _FATBIN:
        _, _, header, size = HEADER.unpack(ctypes.string_at(address, HEADER.size))
        return _ptx(gpu, ctypes.string_at(address, header + size))
    return _ptx(gpu, begin if begin == _MACHINE_CODE else ctypes.string_at(address))


def _ptx(gpu: SimulatedGpu, image: bytes) -> bytes:
    """PTX: text, or what a GPU runs of a fat binary."""
    if image[:4] == _FATBIN:
        return chosen(gpu, image).ptx.encode()
    if image[:4] == _MACHINE_CODE:
        raise DriverError(
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            "the simulated GPU runs PTX (got machine code of a GPU); compile for `compute_90`, not `sm_90`",
        )
    if b".version" not in image:
        raise DriverError("CUDA_ERROR_INVALID_IMAGE", "a module must be PTX (got something else)")
    return image


def load(gpu: SimulatedGpu, ptx: bytes) -> int:
    """Load PTX on a GPU; the module's handle."""
    gpu.require_context()
    code = ObjectCode(ptx, "ptx", "a module")
    code.library  # noqa: B018  # refuses at once what the GPU cannot run
    handle = next(device_addresses().handles)
    loaded().codes[handle] = Code(handle, code)
    return handle


def cuModuleLoadDataEx(gpu: SimulatedGpu, image: int, *options: int) -> int:
    """Load what is in memory; options are the assembler's."""
    return load(gpu, image_at(gpu, image))


def cuModuleLoad(gpu: SimulatedGpu, path: int, *options: int) -> int:
    """Load a file."""
    file = Path(ctypes.string_at(path).decode())
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DriverError("CUDA_ERROR_FILE_NOT_FOUND", f"{file}: {error.strerror}") from None
    return load(gpu, _ptx(gpu, data))


def cuModuleUnload(gpu: SimulatedGpu, handle: int) -> None:
    """Unload a module."""
    found = loaded().code(handle)
    for kernel in found.kernels.values():
        del loaded().kernels[kernel]
        loaded().names.pop(kernel, None)
    del loaded().codes[handle]
    for library in list(gpu.libraries.values()):
        if library.code is found.code:
            modules.cuLibraryUnload(gpu, library.handle)


def cuModuleGetLoadingMode(gpu: SimulatedGpu) -> int:
    """Kernels are translated when they are launched."""
    return 2  # CU_MODULE_LAZY_LOADING


def cuModuleGetFunction(gpu: SimulatedGpu, handle: int, name: int) -> int:
    """A kernel of a module; its handle."""
    return kernel_of(handle, ctypes.string_at(name).decode())


def kernel_of(handle: int, name: str) -> int:
    """The handle of a module's kernel."""
    code = loaded().code(handle)
    if name not in code.kernels:
        if name not in {function.name for function in code.code.library.module.entries}:
            raise DriverError("CUDA_ERROR_NOT_FOUND", f"the module has no kernel {name!r}")
        made = next(device_addresses().handles)
        loaded().kernels[made] = code, code.code.get_kernel(name)
        code.kernels[name] = made
    return code.kernels[name]


def cuModuleGetFunctionCount(gpu: SimulatedGpu, handle: int) -> int:
    """How many kernels a module has."""
    return len(loaded().code(handle).code.library.module.entries)


def cuLibraryEnumerateKernels(gpu: SimulatedGpu, kernels: int, count: int, handle: int) -> None:
    """The kernels of a library, at most so many, to an array of handles."""
    names = [function.name for function in loaded().code(handle).code.library.module.entries]
    for at, name in enumerate(names[:count]):
        ctypes.c_size_t.from_address(kernels + 8 * at).value = kernel_of(handle, name)


def cuLibraryGetModule(gpu: SimulatedGpu, handle: int) -> int:
    """A library's module, which has the same handle."""
    return loaded().code(handle).handle


def cuKernelGetFunction(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """A kernel's function, which has the same handle."""
    return handle_of(kernel)[1]


def handle_of(kernel: Kernel) -> tuple[Code, int]:
    """A kernel's module and handle."""
    for handle, (code, found) in loaded().kernels.items():
        if found is kernel:
            return code, handle
    raise DriverError("CUDA_ERROR_INVALID_HANDLE")


def cuKernelGetLibrary(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """The library that a kernel is in."""
    return handle_of(kernel)[0].handle


def cuKernelGetName(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """Where a kernel's name stands."""
    handle = handle_of(kernel)[1]
    kept = loaded().names.setdefault(handle, ctypes.create_string_buffer(kernel.name.encode()))
    return ctypes.addressof(kept)


def cuKernelGetParamInfo(gpu: SimulatedGpu, kernel: Kernel, index: int) -> tuple[int, int]:
    """Where a parameter is among them, and its bytes."""
    parameters = kernel.program.parameters
    if not 0 <= index < len(parameters):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return offsets(kernel)[index], parameters[index].bytes


def offsets(kernel: Kernel) -> list[int]:
    """Where each of a kernel's parameters is among them."""
    at, found = 0, []
    for parameter in kernel.program.parameters:
        at = -(-at // parameter.align) * parameter.align
        found.append(at)
        at += parameter.bytes
    return found


def cuKernelGetParamCount(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """How many parameters a kernel has."""
    return len(kernel.program.parameters)


def cuFuncGetAttribute(gpu: SimulatedGpu, attribute: int, kernel: Kernel) -> int:
    """What a kernel needs, or was given."""
    names, needs = binding().CUfunction_attribute, KernelAttributes(kernel)
    name = {int(value): key for key, value in names.__members__.items()}.get(attribute, "")
    match name.removeprefix("CU_FUNC_ATTRIBUTE_"):
        case "MAX_THREADS_PER_BLOCK":
            return needs.max_threads_per_block
        case "SHARED_SIZE_BYTES":
            return needs.shared_size_bytes
        case "CONST_SIZE_BYTES":
            return needs.const_size_bytes
        case "LOCAL_SIZE_BYTES":
            return needs.local_size_bytes
        case "NUM_REGS":
            return needs.num_regs
        case "PTX_VERSION" | "BINARY_VERSION":
            major, minor = target(kernel.code.library.module)
            return 10 * major + minor
        case "MAX_DYNAMIC_SHARED_SIZE_BYTES":
            set_ = gpu.kernel_limits.get((kernel.code.library.handle, kernel.name))
            return gpu.record.launch.shared_per_block_bytes - needs.shared_size_bytes if set_ is None else set_
        case "NON_PORTABLE_CLUSTER_SIZE_ALLOWED":
            return int((kernel.code.library.handle, kernel.name) in gpu.large_clusters)
        case "PREFERRED_SHARED_MEMORY_CARVEOUT":
            return -1
        case "":
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return 0


def cuKernelGetAttribute(gpu: SimulatedGpu, attribute: int, kernel: Kernel, device: int) -> int:
    """What a kernel needs, or was given."""
    return cuFuncGetAttribute(gpu, attribute, kernel)


def cuFuncSetAttribute(gpu: SimulatedGpu, kernel: Kernel, attribute: int, value: int) -> None:
    """Set an attribute."""
    modules.cuKernelSetAttribute(gpu, attribute, value, kernel, 0)


def cuFuncSetCacheConfig(gpu: SimulatedGpu, kernel: Kernel, config: int) -> None:
    """Prefer first-level cache or shared memory, which changes nothing here."""


def cuFuncSetSharedMemConfig(gpu: SimulatedGpu, kernel: Kernel, config: int) -> None:
    """Prefer a width of banks, which no GPU of today has a choice of."""


def cuFuncIsLoaded(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """Whether a kernel is loaded."""
    return 1


def cuFuncLoad(gpu: SimulatedGpu, kernel: Kernel) -> None:
    """Load a kernel, which is."""


def cuModuleGetGlobal(gpu: SimulatedGpu, handle: int, name: int) -> tuple[int, int]:
    """A variable's address and bytes."""
    return loaded().code(handle).code.library.variable(ctypes.string_at(name).decode())


def cuLinkCreate(gpu: SimulatedGpu, *options: int) -> int:
    """Begin linking."""
    handle = next(device_addresses().handles)
    loaded().links[handle] = Link()
    return handle


def cuLinkAddData(gpu: SimulatedGpu, state: int, kind: int, data: int, size: int, name: int, *options: int) -> None:
    """Add code in memory."""
    _add(state, kind, ctypes.string_at(data, size), ctypes.string_at(name).decode() if name else "")


def cuLinkAddFile(gpu: SimulatedGpu, state: int, kind: int, path: int, *options: int) -> None:
    """Add a file."""
    file = Path(ctypes.string_at(path).decode())
    try:
        _add(state, kind, file.read_bytes(), str(file))
    except OSError as error:
        raise DriverError("CUDA_ERROR_FILE_NOT_FOUND", f"{file}: {error.strerror}") from None


def _add(state: int, kind: int, data: bytes, name: str) -> None:
    is_text = b".version" in data[:4096] and data[:4] != _MACHINE_CODE
    _found(loaded().links, state).inputs.append(ObjectCode(data, "ptx" if is_text else "library", name))


def cuLinkComplete(gpu: SimulatedGpu, state: int) -> tuple[int, int]:
    """Link; where the code is, and its bytes."""
    link = _found(loaded().links, state)
    try:
        text = Linker(*link.inputs).link("ptx").code
    except TilewrightError as error:
        raise DriverError("CUDA_ERROR_INVALID_PTX", str(error)) from error
    link.linked = ctypes.create_string_buffer(text)
    return ctypes.addressof(link.linked), len(text) + 1


def cuLinkDestroy(gpu: SimulatedGpu, state: int) -> None:
    """End linking."""
    loaded().links.pop(state, None)


# A library is a module here, and a kernel of it the module's function, under the same handles.
cuModuleLoadData = cuModuleLoadFatBinary = cuLibraryLoadData = cuModuleLoadDataEx
cuLibraryLoadFromFile, cuLibraryUnload, cuLibraryGetKernel = cuModuleLoad, cuModuleUnload, cuModuleGetFunction
cuLibraryGetKernelCount = cuModuleGetFunctionCount
cuLibraryGetGlobal = cuLibraryGetManaged = cuModuleGetGlobal
cuFuncGetModule, cuFuncGetName = cuKernelGetLibrary, cuKernelGetName
cuFuncGetParamInfo, cuFuncGetParamCount = cuKernelGetParamInfo, cuKernelGetParamCount
