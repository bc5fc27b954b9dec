"""Replacements for `cuda.core`'s device and stream in numba-cuda."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.simulate.device import contexts, streams
from tilewright.simulate.device.contexts import PRIMARY, DeviceNumber, binding
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.views import HeldMemory
from tilewright.simulate.programs.program import OLDEST_CC

#: The device's UUID, without its number.
_UUID = "74696c65-7772-4967-8474-{:012x}"


@dataclass(frozen=True, slots=True)
class ContextHandle:
    """The primary context, like `cuda.core.Context`."""

    handle: Any


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of `cuda.core.DeviceProperties` that are used here."""

    multiprocessor_count: int


class Device:
    """The one device."""

    def __init__(self, gpu: SimulatedGpu, device_id: int | None = None) -> None:
        if device_id:
            contexts.cuDeviceGet(gpu, device_id)  # raises: there is no other
        self._gpu = gpu
        self.device_id = DeviceNumber(gpu)

    @property
    def name(self) -> str:
        """The GPU's, as its record says."""
        return self._gpu.record.name

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The target of numba-cuda's compiler and linker: for an older GPU, the oldest that the compilers support."""
        return max(self._gpu.record.compute_capability, OLDEST_CC)

    @property
    def properties(self) -> Properties:
        """Those that are used here."""
        return Properties(self._gpu.record.multiprocessors)

    @property
    def uuid(self) -> str:
        """The GPU's, the same in every process."""
        return _UUID.format(int.from_bytes(self._gpu.record.key.encode()[:6], "big"))

    @property
    def context(self) -> ContextHandle:
        """The primary context."""
        return ContextHandle(binding().CUcontext(PRIMARY))

    def set_current(self, context: Any = None) -> None:
        """Make the primary context this thread's."""
        if not self._gpu.contexts or self._gpu.contexts[-1] != PRIMARY:
            contexts.cuDevicePrimaryCtxRetain(self._gpu, 0)
            contexts.cuCtxSetCurrent(self._gpu, PRIMARY)

    @property
    def memory_resource(self) -> None:
        """None: memory needs no resource to be freed here."""
        return None

    def allocate(self, size: int, *, stream: Any = None) -> HeldMemory:
        """Device memory that lives as long as the result."""
        return HeldMemory(self._gpu, size)

    def sync(self) -> None:
        """Wait for all work."""
        contexts.cuCtxSynchronize(self._gpu)


class CoreStream:
    """A stream by its handle, like `cuda.core.Stream`."""

    def __init__(self, handle: Any) -> None:
        self.handle = binding().CUstream(int(handle))

    @classmethod
    def from_handle(cls, handle: Any) -> CoreStream:
        """The stream of a handle."""
        return cls(handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self.handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoreStream) and int(self.handle) == int(other.handle)

    def __hash__(self) -> int:
        return hash(int(self.handle))

    def sync(self) -> None:
        """Wait for the stream's work."""
        from tilewright.simulate.device.installed_gpu import current_gpu

        streams.cuStreamSynchronize(current_gpu(), self.handle)
