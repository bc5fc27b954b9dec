"""Replacements for the classes of Triton's driver: its utilities, which call the vendor's driver, and its launcher."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from tilewright.frontends.triton.arguments import passed
from tilewright.simulate.device.contexts import ATTRIBUTES, DeviceNumber
from tilewright.simulate.device.host_side import Device
from tilewright.simulate.device.installed_gpu import current_gpu
from tilewright.simulate.device.launching import LaunchConfig, Launcher
from tilewright.simulate.device.linking import ObjectCode
from tilewright.simulate.device.modules import Kernel
from tilewright.simulate.machine.gpu import WARP_LANES

#: Inline assembly in Triton's PTX. LLVM numbers its lines as if they were lines of the Python file.
_INLINE = re.compile(rb"// begin inline asm\n.*?// end inline asm", re.DOTALL)
_PLACE = re.compile(rb"^\s*\.loc\b.*$", re.MULTILINE)
#: Most threads of a block.
_THREADS_MOST = 1024


class Utilities:
    """Replaces `CudaUtils`."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, Kernel, int, int, int]:
        """Load a kernel's PTX; return the module's handle, the kernel, its registers, spills and most threads."""
        code = ObjectCode(at_their_lines(kernel), "ptx", name)
        loaded = code.get_kernel(name)
        needs = loaded.attributes.resources
        return code.library.handle, loaded, needs.registers_per_thread, needs.spill_store_bytes // 4, _THREADS_MOST

    def unload_module(self, module: int) -> None:
        """Release a kernel; its variables stay until the GPU ends."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Limits and rates."""
        gpu = current_gpu().record
        asked = {
            "max_shared_mem": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
            "max_num_regs": "MAX_REGISTERS_PER_BLOCK",
            "multiprocessor_count": "MULTIPROCESSOR_COUNT",
            "warpSize": "WARP_SIZE",
            "sm_clock_rate": "CLOCK_RATE",
        }
        found = {}
        for name, attribute in asked.items():
            value = ATTRIBUTES[attribute]
            found[name] = value if isinstance(value, int) else int(value(gpu))
        return found | {"mem_clock_rate": 0, "mem_bus_width": 0}

    def get_device_capability(self, device: int) -> tuple[int, int]:
        """The compute capability."""
        return current_gpu().record.compute_capability

    def get_current_device(self) -> int:
        """The device's number."""
        return DeviceNumber(current_gpu())

    def set_current_device(self, device: int) -> None:
        """Select the only device."""

    def get_default_stream(self, device: int) -> int:
        """The default stream."""
        return 0

    def is_stream_capturing(self, stream: int) -> bool:
        """Whether a stream's launches are captured in a graph."""
        capturing = current_gpu().capturing
        return capturing is not None and stream in capturing.streams

    def set_printf_fifo_size(self, size: int) -> None:
        """No effect: output of kernels has no size limit here."""


def at_their_lines(ptx: bytes) -> bytes:
    r"""PTX in which all instructions of an operation have its line; line numbers of the text do not change.

    >>> at_their_lines(b"// begin inline asm\n\t.loc 1 7 2\nmov.u32 %r1, 0;\n// end inline asm\n")
    b'// begin inline asm\n\nmov.u32 %r1, 0;\n// end inline asm\n'
    """
    return _INLINE.sub(lambda found: _PLACE.sub(b"", found[0]), ptx)


class KernelLauncher:
    """Replaces `CudaLauncher`: launches one kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self._names = list(src.signature)
        self._types = tuple(src.signature.values())
        self._metadata = metadata
        self._maps = getattr(metadata, "tensordesc_meta", None) or ()

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: Kernel,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *given: Any,
    ) -> None:
        """Launch the kernel and wait for it."""
        grid = (grid_x, grid_y, grid_z)
        if math.prod(grid) == 0:  # like Triton, launch nothing
            return
        if enter_hook is not None:
            enter_hook(launch_metadata)
        capturing = current_gpu().capturing
        if capturing is None:
            self._launch(grid, stream, function, given)
        else:
            capturing.require(stream, function.name)
            capturing.add(stream, lambda where: self._launch(grid, where, function, given))
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _launch(self, grid: tuple[int, int, int], stream: int, kernel: Kernel, given: Sequence[Any]) -> None:
        gpu, metadata = current_gpu(), self._metadata
        Device(gpu).set_current()
        arguments = list(passed(self._names, self._types, given, iter(self._maps)))
        scratch = [self._scratch(kind, math.prod(grid), stream) for kind in ("global", "profile")]
        wanted = len(kernel.program.parameters) - len(arguments)
        values = [one.value for one in arguments] + [x.data_ptr() if x is not None else 0 for x in scratch][:wanted]
        facts = tuple(one.fact for one in arguments)
        launcher = Launcher(gpu, streams_known=False)
        launcher.note(lambda _: facts)
        if metadata.num_ctas > gpu.record.launch.cluster_blocks_portable:
            gpu.large_clusters.add((kernel.code.library.handle, kernel.name))
        gpu.kernel_limits[kernel.code.library.handle, kernel.name] = metadata.shared
        config = LaunchConfig(  # its grid counts clusters, as Triton's does
            grid,
            metadata.num_warps * WARP_LANES,
            (metadata.num_ctas, 1, 1) if metadata.num_ctas > 1 else None,
            shmem_size=metadata.shared,
            cooperative_launch=bool(getattr(metadata, "launch_cooperative_grid", False)),
            overlaps=bool(getattr(metadata, "launch_pdl", False)),
        )
        launcher.launch(stream, config, kernel, *values)

    def _scratch(self, kind: str, blocks: int, stream: int) -> Any:
        """The memory that the compiler needs for each block, from the allocator that the program has set."""
        size = getattr(self._metadata, f"{kind}_scratch_size", 0)
        if not size:
            return None
        from triton.runtime import _allocation

        allocator = _allocation._allocator if kind == "global" else _allocation._profile_allocator
        allocate = getattr(allocator, "get", lambda: allocator)()  # Triton 3.4 stores the function itself
        align = getattr(self._metadata, f"{kind}_scratch_align")
        return allocate(blocks * self._metadata.num_ctas * size, align, stream)
