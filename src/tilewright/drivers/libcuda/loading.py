"""Code that a program loads through the driver's functions: modules, libraries, and the kernels in them.

A module stays what it was loaded from when its simulated GPU ends: on the next one it is loaded again when it is used.

Source: CUDA Driver API, "Module Management", "Library Management", "Execution Control".
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tilewright.drivers import modules
from tilewright.drivers.contexts import binding
from tilewright.drivers.cuda_programs import fatbin
from tilewright.drivers.gpu import DriverError, SimulatedGpu, device_addresses
from tilewright.drivers.linking import Linker, ObjectCode
from tilewright.drivers.modules import Kernel, KernelAttributes
from tilewright.errors import CompileError, TilewrightError
from tilewright.programs.listing import target

_Kept = TypeVar("_Kept")
_MACHINE_CODE, _FATBIN, _FATBIN_WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"


@dataclass(eq=False)
class Code:
    """A loaded module."""

    handle: int
    code: ObjectCode
    kernels: dict[str, int] = field(default_factory=dict)  #: Handles of those that were asked for.


class Loaded:
    """What a process has loaded, by handle."""

    def __init__(self) -> None:
        self.codes: dict[int, Code] = {}
        self.kernels: dict[int, tuple[Code, Kernel]] = {}
        self.links: dict[int, list[ObjectCode]] = {}
        self._kept: dict[bytes, Any] = {}

    def code(self, handle: int) -> Code:
        """A module by its handle."""
        return _found(self.codes, handle)

    def kernel(self, handle: int) -> Kernel:
        """A kernel by its handle."""
        return _found(self.kernels, handle)[1]

    def kept(self, data: bytes) -> int:
        """Where bytes stand, for good."""
        return ctypes.addressof(self._kept.setdefault(data, ctypes.create_string_buffer(data, len(data))))


def _found(known: dict[int, _Kept], handle: int) -> _Kept:
    if handle not in known:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    return known[handle]


def image_at(gpu: SimulatedGpu, address: int) -> bytes:
    """PTX at an address, or the fat binary there."""
    if not address:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    host = gpu.host
    begin = host.read(address, 4)
    if begin == _FATBIN_WRAPPER:
        address = host.unpacked("Q", address + 8)
        begin = host.read(address, 4)
    if begin == _FATBIN:
        return fatbin_at(gpu, address)
    return begin if begin == _MACHINE_CODE else host.text(address).encode("utf-8", "surrogateescape")


def fatbin_at(gpu: SimulatedGpu, address: int) -> bytes:
    """The bytes of a fat binary at an address."""
    _, _, header, size = fatbin.HEADER.unpack(gpu.host.read(address, fatbin.HEADER.size))
    return gpu.host.read(address, header + size)


def chosen(gpu: SimulatedGpu, data: bytes) -> str:
    """The PTX of a fat binary that a GPU runs: the newest that is not newer than it.

    Raises DriverError: there is none.
    """
    try:
        found = list(fatbin.images(data))
    except CompileError as error:
        raise DriverError("CUDA_ERROR_INVALID_IMAGE", str(error)) from None
    major, minor = gpu.record.compute_capability
    texts = [one for one in found if one.is_ptx]
    fits = [one for one in texts if one.architecture <= 10 * major + minor]
    if fits:
        return max(fits, key=lambda one: one.architecture).text + "\n"
    if texts:
        least = min(one.architecture for one in texts)
        raise DriverError(
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            f"the program's PTX is for compute capability {least / 10} or newer, and {gpu.record.name} has "
            f"{major}.{minor}; choose another GPU with --gpu",
        )
    machine = ", ".join(sorted({f"sm_{one.architecture}" for one in found})) or "nothing"
    raise DriverError(
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        f"the program must hold PTX (it holds machine code alone: {machine}); build it with "
        f"nvcc -gencode arch=compute_{major}{minor},code=compute_{major}{minor}",
    )


def load(gpu: SimulatedGpu, image: bytes) -> int:
    """Load PTX, or what a GPU runs of a fat binary; the module's handle.

    Raises DriverError: it is machine code of a GPU, or no code.
    """
    gpu.require_context()
    if image[:4] == _MACHINE_CODE:
        raise DriverError(
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            "the simulated GPU runs PTX (got machine code of a GPU); compile for `compute_90`, not `sm_90`",
        )
    image = chosen(gpu, image).encode() if image[:4] == _FATBIN else image
    if b".version" not in image:
        raise DriverError("CUDA_ERROR_INVALID_IMAGE", "a module must be PTX (got something else)")
    code = ObjectCode(image, "ptx", "a module", gpu=gpu.host.code_gpu)
    code.library  # noqa: B018  # refuses at once what the GPU cannot run
    handle = next(device_addresses().handles)
    gpu.host.loaded.codes[handle] = Code(handle, code)
    return handle


def cuModuleLoadDataEx(gpu: SimulatedGpu, image: int, *options: int) -> int:
    """Load what is in memory; options are the assembler's."""
    return load(gpu, image_at(gpu, image))


def cuModuleLoad(gpu: SimulatedGpu, path: int, *options: int) -> int:
    """Load a file."""
    return load(gpu, _file(gpu, path)[1])


def _file(gpu: SimulatedGpu, path: int) -> tuple[str, bytes]:
    """A file that is named at an address, and what it holds."""
    name = gpu.host.text(path)
    try:
        return name, gpu.host.path(name).read_bytes()
    except OSError as error:
        raise DriverError("CUDA_ERROR_FILE_NOT_FOUND", f"{name}: {error.strerror}") from None


def cuModuleUnload(gpu: SimulatedGpu, handle: int) -> None:
    """Unload a module."""
    loaded = gpu.host.loaded
    found = loaded.code(handle)
    for kernel in found.kernels.values():
        del loaded.kernels[kernel]
    del loaded.codes[handle]
    for library in list(gpu.libraries.values()):
        if library.code is found.code:
            modules.cuLibraryUnload(gpu, library.handle)


def cuModuleGetLoadingMode(gpu: SimulatedGpu) -> int:
    """Kernels are translated when they are launched."""
    return 2  # CU_MODULE_LAZY_LOADING


def cuModuleGetFunction(gpu: SimulatedGpu, handle: int, name: int) -> int:
    """A kernel of a module; its handle."""
    return _kernel_of(gpu, handle, gpu.host.text(name))


def _kernel_of(gpu: SimulatedGpu, handle: int, name: str) -> int:
    """The handle of a module's kernel."""
    code = gpu.host.loaded.code(handle)
    if name not in code.kernels:
        if name not in {function.name for function in code.code.library.module.entries}:
            raise DriverError("CUDA_ERROR_NOT_FOUND", f"the module has no kernel {name!r}")
        made = next(device_addresses().handles)
        gpu.host.loaded.kernels[made] = code, code.code.get_kernel(name)
        code.kernels[name] = made
    return code.kernels[name]


def cuModuleGetFunctionCount(gpu: SimulatedGpu, handle: int) -> int:
    """How many kernels a module has."""
    return len(gpu.host.loaded.code(handle).code.library.module.entries)


def cuLibraryEnumerateKernels(gpu: SimulatedGpu, kernels: int, count: int, handle: int) -> None:
    """The kernels of a library, at most so many, to an array of handles."""
    names = [function.name for function in gpu.host.loaded.code(handle).code.library.module.entries][:count]
    gpu.host.pack(f"{len(names)}Q", kernels, *(_kernel_of(gpu, handle, name) for name in names))


def cuLibraryGetModule(gpu: SimulatedGpu, handle: int) -> int:
    """A library's module, which has the same handle."""
    return gpu.host.loaded.code(handle).handle


def cuKernelGetFunction(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """A kernel's function, which has the same handle."""
    return _handle_of(gpu, kernel)[1]


def _handle_of(gpu: SimulatedGpu, kernel: Kernel) -> tuple[Code, int]:
    """A kernel's module and handle."""
    for handle, (code, found) in gpu.host.loaded.kernels.items():
        if found is kernel:
            return code, handle
    raise DriverError("CUDA_ERROR_INVALID_HANDLE")


def cuKernelGetLibrary(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """The library that a kernel is in."""
    return _handle_of(gpu, kernel)[0].handle


def cuKernelGetName(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """Where a kernel's name stands."""
    return gpu.host.kept(gpu, kernel.name.encode() + b"\0")


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
    return gpu.host.loaded.code(handle).code.library.variable(gpu.host.text(name))


def cuLinkCreate(gpu: SimulatedGpu, *options: int) -> int:
    """Begin linking."""
    handle = next(device_addresses().handles)
    gpu.host.loaded.links[handle] = []
    return handle


def cuLinkAddData(gpu: SimulatedGpu, state: int, kind: int, data: int, size: int, name: int, *options: int) -> None:
    """Add code in memory."""
    _add(gpu, state, gpu.host.text(name), gpu.host.read(data, size))


def cuLinkAddFile(gpu: SimulatedGpu, state: int, kind: int, path: int, *options: int) -> None:
    """Add a file."""
    _add(gpu, state, *_file(gpu, path))


def _add(gpu: SimulatedGpu, state: int, name: str, data: bytes) -> None:
    is_text = b".version" in data[:4096] and data[:4] != _MACHINE_CODE
    code = ObjectCode(data, "ptx" if is_text else "library", name)
    _found(gpu.host.loaded.links, state).append(code)


def cuLinkComplete(gpu: SimulatedGpu, state: int) -> tuple[int, int]:
    """Link; where the code is, and its bytes."""
    try:
        text = Linker(*_found(gpu.host.loaded.links, state)).link("ptx").code
    except TilewrightError as error:
        raise DriverError("CUDA_ERROR_INVALID_PTX", str(error)) from error
    return gpu.host.kept(gpu, text + b"\0"), len(text) + 1


def cuLinkDestroy(gpu: SimulatedGpu, state: int) -> None:
    """End linking."""
    gpu.host.loaded.links.pop(state, None)


# A library is a module here, and a kernel of it the module's function, under the same handles.
cuModuleLoadData = cuModuleLoadFatBinary = cuLibraryLoadData = cuModuleLoadDataEx
cuLibraryLoadFromFile, cuLibraryUnload, cuLibraryGetKernel = cuModuleLoad, cuModuleUnload, cuModuleGetFunction
cuLibraryGetKernelCount = cuModuleGetFunctionCount
cuLibraryGetGlobal = cuLibraryGetManaged = cuModuleGetGlobal
cuFuncGetModule, cuFuncGetName = cuKernelGetLibrary, cuKernelGetName
cuFuncGetParamInfo, cuFuncGetParamCount = cuKernelGetParamInfo, cuKernelGetParamCount
