"""Code that a program loads with driver functions: modules, libraries and their kernels.

When its simulated GPU ends, a module keeps its source, and is loaded again when it is used on the next GPU.

Source: CUDA Driver API, "Module Management", "Library Management", "Execution Control".
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tilewright.errors import CompileError, TilewrightError
from tilewright.frontends.programs import fatbin
from tilewright.simulate.device import modules
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.device_addresses import device_addresses
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.linking import Linker, ObjectCode
from tilewright.simulate.device.modules import Kernel, KernelAttributes, allowed_shared_bytes
from tilewright.simulate.programs.listing import target

_Kept = TypeVar("_Kept")
_MACHINE_CODE, _FATBIN, _FATBIN_WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"


@dataclass(eq=False)
class Code:
    """A loaded module."""

    handle: int
    code: ObjectCode
    kernels: dict[str, int] = field(default_factory=dict)  #: Handles of kernels that were requested.


class Loaded:
    """The loaded code of a process, by handle."""

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
        """The address of a copy of these bytes, which is never freed."""
        return ctypes.addressof(self._kept.setdefault(data, ctypes.create_string_buffer(data, len(data))))


def _loaded(gpu: SimulatedGpu) -> Loaded:
    """The code that the caller loaded."""
    found: Loaded = gpu.host.loaded
    return found


def _found(known: dict[int, _Kept], handle: int) -> _Kept:
    if handle not in known:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    return known[handle]


def image_at(gpu: SimulatedGpu, address: int) -> bytes:
    """The PTX text or fat binary at an address."""
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
    """The PTX in a fat binary for a GPU: the newest that is not newer than the GPU.

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
            f"the program's PTX is for compute capability {least / 10} or newer, but {gpu.record.name} has "
            f"{major}.{minor}; choose another GPU (`gpu`)",
        )
    machine = ", ".join(sorted({f"sm_{one.architecture}" for one in found})) or "nothing"
    raise DriverError(
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        f"the program must have PTX (got only machine code: {machine}); build it with "
        f"nvcc -gencode arch=compute_{major}{minor},code=compute_{major}{minor}",
    )


def load(gpu: SimulatedGpu, image: bytes) -> int:
    """Load PTX, or the suitable PTX of a fat binary; return the module's handle.

    Raises DriverError: the image is machine code of a GPU, or no code.
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
    code.library  # noqa: B018  # reports at once what the GPU cannot run
    handle = next(device_addresses().handles)
    _loaded(gpu).codes[handle] = Code(handle, code)
    return handle


def cuModuleLoadDataEx(gpu: SimulatedGpu, image: int, *options: int) -> int:
    """Load an image from memory; the options are the assembler's, and have no effect."""
    return load(gpu, image_at(gpu, image))


def cuModuleLoad(gpu: SimulatedGpu, path: int, *options: int) -> int:
    """Load a file."""
    return load(gpu, _file(gpu, path)[1])


def _file(gpu: SimulatedGpu, path: int) -> tuple[str, bytes]:
    """The name of the file at an address, and its contents."""
    name = gpu.host.text(path)
    try:
        return name, gpu.host.path(name).read_bytes()
    except OSError as error:
        raise DriverError("CUDA_ERROR_FILE_NOT_FOUND", f"{name}: {error.strerror}") from None


def cuModuleUnload(gpu: SimulatedGpu, handle: int) -> None:
    """Unload a module."""
    loaded = _loaded(gpu)
    found = loaded.code(handle)
    for kernel in found.kernels.values():
        del loaded.kernels[kernel]
    del loaded.codes[handle]
    for library in list(gpu.libraries.values()):
        if library.code is found.code:
            modules.cuLibraryUnload(gpu, library.handle)


def cuModuleGetLoadingMode(gpu: SimulatedGpu) -> int:
    """Lazy: kernels are translated when they are launched."""
    return 2  # CU_MODULE_LAZY_LOADING


def cuModuleGetFunction(gpu: SimulatedGpu, handle: int, name: int) -> int:
    """The handle of a module's kernel."""
    return _kernel_of(gpu, handle, gpu.host.text(name))


def _kernel_of(gpu: SimulatedGpu, handle: int, name: str) -> int:
    """The handle of a module's kernel."""
    code = _loaded(gpu).code(handle)
    if name not in code.kernels:
        if name not in {function.name for function in code.code.library.module.entries}:
            raise DriverError("CUDA_ERROR_NOT_FOUND", f"the module has no kernel {name!r}")
        made = next(device_addresses().handles)
        _loaded(gpu).kernels[made] = code, code.code.get_kernel(name)
        code.kernels[name] = made
    return code.kernels[name]


def cuModuleGetFunctionCount(gpu: SimulatedGpu, handle: int) -> int:
    """Number of kernels in a module."""
    return len(_loaded(gpu).code(handle).code.library.module.entries)


def cuLibraryEnumerateKernels(gpu: SimulatedGpu, kernels: int, count: int, handle: int) -> None:
    """Write the handles of a library's kernels, at most `count`, to an array."""
    names = [function.name for function in _loaded(gpu).code(handle).code.library.module.entries][:count]
    gpu.host.pack(f"{len(names)}Q", kernels, *(_kernel_of(gpu, handle, name) for name in names))


def cuLibraryGetModule(gpu: SimulatedGpu, handle: int) -> int:
    """A library's module, which has the same handle."""
    return _loaded(gpu).code(handle).handle


def cuKernelGetFunction(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """A kernel's function, which has the same handle."""
    return _handle_of(gpu, kernel)[1]


def _handle_of(gpu: SimulatedGpu, kernel: Kernel) -> tuple[Code, int]:
    """A kernel's module and handle."""
    for handle, (code, found) in _loaded(gpu).kernels.items():
        if found is kernel:
            return code, handle
    raise DriverError("CUDA_ERROR_INVALID_HANDLE")


def cuKernelGetLibrary(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """The library of a kernel."""
    return _handle_of(gpu, kernel)[0].handle


def cuKernelGetName(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """The address of a kernel's name."""
    return gpu.host.kept(gpu, kernel.name.encode() + b"\0")


def cuKernelGetParamInfo(gpu: SimulatedGpu, kernel: Kernel, index: int) -> tuple[int, int]:
    """A parameter's offset and size."""
    parameters = kernel.program.parameters
    if not 0 <= index < len(parameters):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return offsets(kernel)[index], parameters[index].bytes


def offsets(kernel: Kernel) -> list[int]:
    """The offset of each of a kernel's parameters."""
    at, found = 0, []
    for parameter in kernel.program.parameters:
        at = -(-at // parameter.align) * parameter.align
        found.append(at)
        at += parameter.bytes
    return found


def cuKernelGetParamCount(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """Number of a kernel's parameters."""
    return len(kernel.program.parameters)


def cuFuncGetAttribute(gpu: SimulatedGpu, attribute: int, kernel: Kernel) -> int:
    """An attribute of a kernel: its resources, or a value that was set."""
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
            return allowed_shared_bytes(gpu, kernel.code.library, kernel.program)
        case "NON_PORTABLE_CLUSTER_SIZE_ALLOWED":
            return int((kernel.code.library.handle, kernel.name) in gpu.large_clusters)
        case "PREFERRED_SHARED_MEMORY_CARVEOUT":
            return -1
        case "":
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return 0


def cuKernelGetAttribute(gpu: SimulatedGpu, attribute: int, kernel: Kernel, device: int) -> int:
    """An attribute of a kernel: its resources, or a value that was set."""
    return cuFuncGetAttribute(gpu, attribute, kernel)


def cuFuncSetAttribute(gpu: SimulatedGpu, kernel: Kernel, attribute: int, value: int) -> None:
    """Set an attribute."""
    modules.cuKernelSetAttribute(gpu, attribute, value, kernel, 0)


def cuFuncIsLoaded(gpu: SimulatedGpu, kernel: Kernel) -> int:
    """Whether a kernel is loaded."""
    return 1


def cuModuleGetGlobal(gpu: SimulatedGpu, handle: int, name: int) -> tuple[int, int]:
    """A variable's address and bytes."""
    return _loaded(gpu).code(handle).code.library.variable(gpu.host.text(name))


def cuLinkCreate(gpu: SimulatedGpu, *options: int) -> int:
    """Start linking."""
    handle = next(device_addresses().handles)
    _loaded(gpu).links[handle] = []
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
    _found(_loaded(gpu).links, state).append(code)


def cuLinkComplete(gpu: SimulatedGpu, state: int) -> tuple[int, int]:
    """Link; return the address and size of the code."""
    try:
        text = Linker(*_found(_loaded(gpu).links, state)).link("ptx").code
    except TilewrightError as error:
        raise DriverError("CUDA_ERROR_INVALID_PTX", str(error)) from error
    return gpu.host.kept(gpu, text + b"\0"), len(text) + 1


def cuLinkDestroy(gpu: SimulatedGpu, state: int) -> None:
    """Destroy the linker."""
    _loaded(gpu).links.pop(state, None)


# A library is a module here, and its kernel a function of the module, with the same handle.
cuModuleLoadData = cuModuleLoadFatBinary = cuLibraryLoadData = cuModuleLoadDataEx
cuLibraryLoadFromFile, cuLibraryUnload, cuLibraryGetKernel = cuModuleLoad, cuModuleUnload, cuModuleGetFunction
cuLibraryGetKernelCount = cuModuleGetFunctionCount
cuLibraryGetGlobal = cuLibraryGetManaged = cuModuleGetGlobal
cuFuncGetModule, cuFuncGetName = cuKernelGetLibrary, cuKernelGetName
cuFuncGetParamInfo, cuFuncGetParamCount = cuKernelGetParamInfo, cuKernelGetParamCount
