"""Loaded modules and their kernels, and the driver calls for them.

Source: CUDA Driver API, "Library Management", "Execution Control" and "Occupancy".
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.machine.gpu import WARP_LANES
from tilewright.simulate.programs.arguments import c_arguments
from tilewright.simulate.programs.assembler import Resources
from tilewright.simulate.programs.launch_rules import active_blocks, default_dynamic_bytes, most_dynamic_bytes
from tilewright.simulate.programs.listing import parsed, read_entry, target
from tilewright.simulate.programs.mangling import spoken_name
from tilewright.simulate.programs.program import Program
from tilewright.simulate.ptx import tree
from tilewright.simulate.run.memory import place_all
from tilewright.simulate.translate.analysis.layout import lay_out


class DeviceCode(Protocol):
    """Device code that can be loaded: from a compiler, a linker, or the program."""

    ptx: str  #: The PTX that the machine runs; empty if unknown.
    name: str
    code_type: str

    @property
    def library(self) -> Library:
        """The code as loaded on its GPU."""


def no_binary(message: str) -> Exception:
    """The error for code that the device cannot run."""
    from cuda.core._utils.cuda_utils import CUDAError

    error: Exception = CUDAError(f"CUDA_ERROR_NO_BINARY_FOR_GPU: {message}")
    return error


def machine_code(code: Any) -> Exception:
    """The error for machine code, which cannot be converted to PTX."""
    return no_binary(f"{code.name or code.code_type} is machine code of a GPU, but the simulated GPU runs PTX")


class Library:
    """A module in a simulated GPU's memory."""

    def __init__(self, gpu: SimulatedGpu, handle: int, code: DeviceCode) -> None:
        self.gpu = gpu
        self.handle = handle
        self.code = code
        self.module = parsed(code.ptx)
        self._programs: dict[str, Program] = {}
        #: Device address of its variables.
        self.base = place_all(self.module, gpu.memory, lambda size: gpu.allocate(size, host_visible=True))

    @classmethod
    def of(cls, gpu: SimulatedGpu, code: DeviceCode) -> Library:
        """Device code as loaded on a GPU; loads it if necessary."""
        if not code.ptx:
            raise machine_code(code)
        with gpu.lock:
            known: list[Library] = [*gpu.libraries.values()]
            for found in known:
                if found.code is code:
                    return found
            with gpu.call():
                library = cls(gpu, gpu.new_handle(), code)
                gpu.libraries[library.handle] = library
        return library

    def entry(self, name: str) -> Program:
        """The program of one kernel.

        Raises cuda.core CUDAError: there is no such kernel.
        """
        if name not in self._programs:
            if name not in {function.name for function in self.module.entries}:
                from cuda.core._utils.cuda_utils import CUDAError

                raise CUDAError(f"CUDA_ERROR_NOT_FOUND: the module has no kernel {name!r}")
            found = read_entry(self.module, name)
            build = self.gpu.with_arrays
            self._programs[name] = Program(
                spoken_name(name), self.code.ptx, name, target(self.module), found.parameters, found.shared_bytes,
                c_arguments(found.parameters), "c", functools.partial(build, name) if build else None,
            )  # fmt: skip
        return self._programs[name]

    def variable(self, name: str) -> tuple[int, int]:
        """Address and bytes of a variable."""
        place = lay_out(self.module, tree.Function("", is_entry=True)).places.get(name)
        declared = self.module.variables.get(name)
        if place is None or place[0] != "module" or declared is None:
            raise DriverError("CUDA_ERROR_NOT_FOUND")
        return self.base + place[1], declared.size


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel of device code; it can be launched on any installed simulated GPU."""

    code: DeviceCode
    name: str

    @property
    def handle(self) -> Kernel:
        """The value that driver calls take."""
        return self

    @property
    def program(self) -> Program:
        """The kernel's program."""
        return self.code.library.entry(self.name)

    @property
    def attributes(self) -> KernelAttributes:
        """The resources of the kernel."""
        return KernelAttributes(self)


class KernelAttributes:
    """The resources of a kernel, computed at their first use because the assembler takes time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def resources(self) -> Resources:
        """As the assembler reports them."""
        program = self._kernel.program
        return program.resources(program.cc)

    @property
    def num_regs(self) -> int:
        """Registers of a thread."""
        return self.resources.registers_per_thread

    @property
    def shared_size_bytes(self) -> int:
        """Static shared memory of a block."""
        return self._kernel.program.shared_bytes

    @property
    def local_size_bytes(self) -> int:
        """Local memory of a thread."""
        return self.resources.stack_bytes

    @property
    def const_size_bytes(self) -> int:
        """Constant memory of the module's variables."""
        variables = self._kernel.code.library.module.variables.values()
        return sum(variable.size for variable in variables if variable.space == "const")

    @property
    def max_threads_per_block(self) -> int:
        """Most threads of a block, by its launch bounds and its registers."""
        record = self._kernel.code.library.gpu.record
        directives = self._kernel.code.library.module.functions[self._kernel.name].directives
        bounds = directives.get(".maxntid") or directives.get(".reqntid")
        most = min(math.prod(bounds or (record.launch.threads_per_block,)), record.launch.threads_per_block)
        while most > WARP_LANES and not active_blocks(record, self.num_regs, 0, most):
            most -= WARP_LANES
        return most

    # The names in numba-cuda's own record.
    regs, const, local, shared, maxthreads = (
        num_regs, const_size_bytes, local_size_bytes, shared_size_bytes, max_threads_per_block
    )  # fmt: skip


def cuLibraryGetGlobal(gpu: SimulatedGpu, library: Any, name: bytes) -> tuple[Any, int]:
    """A variable's address and bytes."""
    found = gpu.libraries.get(int(library))
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    address, size = found.variable(name.decode())
    return binding().CUdeviceptr(address), size


def cuLibraryUnload(gpu: SimulatedGpu, library: Any) -> None:
    """Unload a module and free its variables' memory."""
    found = gpu.libraries.pop(int(library), None)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    for key in [key for key, known in gpu.accepted.items() if known.library is found]:
        del gpu.accepted[key]
    if found.base and gpu.memory.begins(found.base):
        gpu.free(found.base)


def cuKernelSetCacheConfig(gpu: SimulatedGpu, kernel: Kernel, config: Any, device: Any) -> None:
    """Prefer first-level cache or shared memory, which changes nothing here."""


def cuKernelSetAttribute(gpu: SimulatedGpu, attribute: Any, value: int, kernel: Kernel, device: Any) -> None:
    """Set an attribute: the most dynamic shared memory, or permission for large clusters; others have no effect."""
    names = binding().CUfunction_attribute
    if attribute == names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        static = kernel.program.shared_bytes
        most = most_dynamic_bytes(gpu.record, static)
        if not 0 <= value <= most:
            raise DriverError(
                "CUDA_ERROR_INVALID_VALUE",
                f"CUDA_ERROR_INVALID_VALUE: MaxDynamicSharedMemorySize of {kernel.program.name} must be at most "
                f"{most:,} bytes on the {gpu.record.name}, which its {static:,} static bytes leave of "
                f"{gpu.record.shared_per_block_optin_bytes:,} (got {value:,}); use smaller tiles",
            )
        gpu.kernel_limits[kernel.code.library.handle, kernel.name] = value
    elif attribute == names.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        if value not in (0, 1):
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
        change = gpu.large_clusters.add if value else gpu.large_clusters.discard
        change((kernel.code.library.handle, kernel.name))
    elif int(attribute) not in map(int, names):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")


def allowed_shared_bytes(gpu: SimulatedGpu, library: Library, program: Program) -> int:
    """The most dynamic shared memory that a kernel may have: what the program has set, or the default."""
    set_bytes = gpu.kernel_limits.get((library.handle, program.entry))
    return default_dynamic_bytes(gpu.record, program.shared_bytes) if set_bytes is None else set_bytes


def cuOccupancyMaxActiveBlocksPerMultiprocessor(
    gpu: SimulatedGpu, kernel: Kernel, block_threads: int, dynamic_shared_bytes: int
) -> int:
    """Blocks of a kernel that a multiprocessor holds at once."""
    if block_threads <= 0:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    shared = kernel.program.shared_bytes + int(dynamic_shared_bytes)
    if block_threads > gpu.record.launch.threads_per_block:
        return 0
    return active_blocks(gpu.record, KernelAttributes(kernel).num_regs, shared, int(block_threads))


def cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    gpu: SimulatedGpu, kernel: Kernel, block_threads: int, dynamic_shared_bytes: int, flags: int
) -> int:
    """The same; the flags have no effect."""
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(gpu, kernel, block_threads, dynamic_shared_bytes)
