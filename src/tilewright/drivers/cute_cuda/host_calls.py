"""What the host code that CuTe DSL compiles calls of CUDA's runtime, each under the name by which that code knows it.

Source: nvidia-cutlass-dsl 4.8, the functions that its host modules declare; CUDA Runtime API, cudaLaunchConfig_t and
cudaLaunchAttribute.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from tilewright.drivers.contexts import ATTRIBUTES, binding
from tilewright.drivers.current import current_gpu
from tilewright.drivers.gpu import DriverError
from tilewright.drivers.host_side import Device
from tilewright.drivers.launching import LaunchConfig, Launcher
from tilewright.drivers.linking import ObjectCode
from tilewright.drivers.modules import Kernel

#: Source: cudaLaunchAttributeID, cudaFuncAttribute and CUfunction_attribute.
_COOPERATIVE, _CLUSTER, _MOST_SHARED, _SHARED = 2, 4, 8, 1
#: What a call gives that failed; the error itself comes after it. Source: cudaErrorUnknown.
_FAILED = 999


class _Attribute(Structure):
    _fields_ = (("id", c_int32), ("pad", c_int32), ("value", c_uint32 * 16))


class _Config(Structure):
    _fields_ = (
        ("grid", c_int32 * 3), ("block", c_int32 * 3), ("shared_bytes", c_uint64), ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)), ("count", c_uint32),
    )  # fmt: skip


class HostCalls:
    """The functions, for one simulated GPU.

    Attributes
    ----------
    error : BaseException or None
        What the last call that failed found.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._thread = threading.local()
        self._loaded: dict[int, ObjectCode] = {}
        self._kernels: dict[int, Kernel] = {}
        self._functions = [(name, kind(self._guarded(call))) for name, kind, call in self._table()]

    def register(self, engine: Any) -> None:
        """Let host code that an engine compiles find them."""
        for name, function in self._functions:
            engine.raw_register_runtime(name, ctypes.cast(function, c_void_p))

    def loading(self, ptx: str, load: Callable[[], Any]) -> Any:
        """Load a library: the machine code that the host code hands over is made of this PTX."""
        self._thread.ptx = ptx
        return load()

    def running(self, call: Callable[[], Any]) -> Any:
        """Run compiled host code.

        Raises what a launch raised.
        """
        self.error = None
        try:
            return call()
        except Exception:
            if self.error is not None:
                raise self.error from None
            raise

    def _table(self) -> tuple[tuple[str, Any, Callable[..., None]], ...]:
        def of(*types: Any) -> Any:
            return ctypes.CFUNCTYPE(c_int32, *types)

        out, handle = POINTER(c_void_p), c_void_p
        return (
            ("_cudaGetDevice", of(POINTER(c_int32)), lambda device: _put(device, 0)),
            ("_cudaGetDeviceCount", of(POINTER(c_int32)), lambda count: _put(count, 1)),
            ("_cudaSetDevice", of(c_int32), lambda device: None),
            ("_cudaDeviceSynchronize", of(), lambda: current_gpu().wait()),
            ("_cudaStreamSynchronize", of(handle), lambda stream: current_gpu().wait()),
            ("_cudaDeviceGetAttribute", of(POINTER(c_int32), c_int32, c_int32), self._device_attribute),
            (
                "_cudaLibraryLoadData",
                of(out, handle, handle, handle, c_uint32, handle, handle, c_uint32),
                lambda library, *_: self._load(library),
            ),
            ("_cudaLibraryUnload", of(handle), lambda library: None),
            ("_cudaLibraryGetKernel", of(out, handle, c_char_p), self._kernel),
            ("_cuKernelGetAttribute", of(POINTER(c_int32), c_int32, handle, c_int32), self._kernel_attribute),
            ("_cudaKernelSetAttributeForDevice", of(handle, c_int32, c_int32, c_int32), self._set_attribute),
            ("_cudaFuncSetAttribute", of(handle, c_int32, c_int32), self._set_attribute),
            ("_cudaLaunchKernelEx", of(POINTER(_Config), handle, out), self._launch_config),
            (
                "_cudaLaunchKernel",
                of(handle, *(c_int32,) * 6, out, c_int64, handle),
                lambda kernel, x, y, z, a, b, c, given, shared, stream: self._launch(
                    kernel, LaunchConfig((x, y, z), (a, b, c), shmem_size=shared), given, stream
                ),
            ),
        )

    def _guarded(self, call: Callable[..., None]) -> Callable[..., int]:
        """A call as C makes it: zero, or a code where it raised."""

        def guarded(*given: Any) -> int:
            try:
                Device(current_gpu()).set_current()
                call(*given)
            except BaseException as error:
                self.error = error
                return _FAILED
            return 0

        return guarded

    def _device_attribute(self, value: Any, attribute: int, device: int) -> None:
        name = binding().CUdevice_attribute(attribute).name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        found = ATTRIBUTES.get(name, 0)
        _put(value, found if isinstance(found, int) else int(found(current_gpu().record)))

    def _load(self, library: Any) -> None:
        code = ObjectCode(self._thread.ptx.encode(), "ptx", "CuTe DSL")
        number = code.library.handle
        self._loaded[number] = code
        _put(library, number)

    def _kernel(self, kernel: Any, library: int, name: bytes) -> None:
        number = current_gpu().new_handle()
        self._kernels[number] = self._loaded[library].get_kernel(name)
        _put(kernel, number)

    def _kernel_attribute(self, value: Any, attribute: int, kernel: int, device: int) -> None:
        if attribute != _SHARED:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", f"attribute {attribute} of a kernel is not known here")
        _put(value, self._kernels[kernel].program.shared_bytes)

    def _set_attribute(self, kernel: int, attribute: int, value: int, device: int = 0) -> None:
        found = self._kernels[kernel]
        if attribute == _MOST_SHARED:
            current_gpu().kernel_limits[found.code.library.handle, found.name] = value

    def _launch_config(self, config: Any, kernel: int, given: Any) -> None:
        asked = config.contents
        cluster, cooperative = None, False
        for one in asked.attributes[: asked.count]:
            if one.id == _CLUSTER and tuple(one.value[:3]) != (1, 1, 1):
                cluster = tuple(one.value[:3])
            cooperative |= one.id == _COOPERATIVE and bool(one.value[0])
        grid = tuple(a // b for a, b in zip(asked.grid, cluster or (1, 1, 1), strict=True))
        self._launch(
            kernel,
            LaunchConfig(
                grid, tuple(asked.block), cluster, shmem_size=asked.shared_bytes, cooperative_launch=cooperative
            ),
            given,
            asked.stream,
        )

    def _launch(self, number: int, config: LaunchConfig, given: Any, stream: int | None) -> None:
        kernel = self._kernels[number]
        sizes = [parameter.bytes for parameter in kernel.program.parameters]
        values = [(ctypes.c_uint8 * size).from_address(given[at]) for at, size in enumerate(sizes)]
        Launcher(current_gpu()).launch(stream or 0, config, kernel, *values)


def _put(pointer: Any, value: int) -> None:
    pointer[0] = value
