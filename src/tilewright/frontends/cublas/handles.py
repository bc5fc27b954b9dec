"""The library and its handles: what a program sets for them, and copies of vectors and matrices to and from the device.

A handle is a number that only the library knows. Settings that only change how fast a GPU is have no effect: the
workspace, atomics, the number of multiprocessors, and types of arithmetic, since sums are exact in their types.

Source: cuBLAS, "cuBLAS Helper Function Reference".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.frontends.cublas.operands import Handle, RefusedCall
from tilewright.frontends.libcuda import runtime
from tilewright.simulate.device.gpu import SimulatedGpu

#: The version that is answered: that of the header.
VERSION = 131000
#: Where the logger's function is among the library's handles.
_LOGGER = -1
_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost
#: Values that settings have before they are set, if they are not 0.
_DEFAULTS: Mapping[str, int] = MappingProxyType({"EmulationSpecialValuesSupport": 0xFFFF})
#: The values that a setting may have, by the name of the function that sets it, without `Set`.
_SETTINGS: Mapping[str, range] = MappingProxyType(
    {
        "PointerMode": range(2),
        "AtomicsMode": range(2),
        "MathMode": range(1 << 8),
        "SmCountTarget": range(1 << 16),
        "EmulationStrategy": range(3),
        "EmulationSpecialValuesSupport": range(1 << 16),
        "FixedPointEmulationMantissaControl": range(2),
        "FixedPointEmulationMaxMantissaBitCount": range(1 << 16),
        "FixedPointEmulationMantissaBitOffset": range(-(1 << 15), 1 << 15),
        "FixedPointEmulationMantissaBitCountPointer": range(1 << 64),
    }
)


def handle_of(gpu: SimulatedGpu, number: int) -> Handle:
    """A handle by its number.

    Raises RefusedCall: there is none.
    """
    found = gpu.library_handles.get(number)
    if not isinstance(found, Handle):
        raise RefusedCall("NOT_INITIALIZED", f"`handle` must be one that cublasCreate gave (got {number:#x})")
    return found


def Create(gpu: SimulatedGpu, handle: int) -> None:
    """A new handle."""
    number = gpu.new_handle()
    gpu.library_handles[number] = Handle()
    gpu.host.pack("Q", handle, number)


def Destroy(gpu: SimulatedGpu, handle: int) -> None:
    """Destroy a handle; as on a GPU, the host waits for the device."""
    handle_of(gpu, handle)
    del gpu.library_handles[handle]


def GetVersion(gpu: SimulatedGpu, handle: int, version: int) -> None:
    """The version of the library."""
    gpu.host.pack("i", version, VERSION)


def GetProperty(gpu: SimulatedGpu, type: int, value: int) -> None:
    """A part of the version: 0 the major one, 1 the minor one, 2 the patch."""
    if not 0 <= type <= 2:
        raise RefusedCall("INVALID_VALUE", f"`type` must be 0, 1 or 2 (got {type})")
    gpu.host.pack("i", value, (VERSION // 10000, VERSION // 100 % 100, VERSION % 100)[type])


def SetWorkspace(gpu: SimulatedGpu, handle: int, workspace: int, size_bytes: int) -> None:
    """Memory for intermediate results, which products here do not need."""
    handle_of(gpu, handle)


def SetStream(gpu: SimulatedGpu, handle: int, stream: int) -> None:
    """The stream of later calls."""
    gpu.stream(stream)
    handle_of(gpu, handle).stream = stream


def GetStream(gpu: SimulatedGpu, handle: int, stream: int) -> None:
    """The stream of later calls."""
    gpu.host.pack("Q", stream, handle_of(gpu, handle).stream)


def _setting(name: str) -> tuple[Callable[..., None], Callable[..., None]]:
    def set_(gpu: SimulatedGpu, handle: int, value: int) -> None:
        if value not in _SETTINGS[name]:
            raise RefusedCall("INVALID_VALUE", f"cublasSet{name} takes no value {value}")
        handle_of(gpu, handle).values[name] = value

    def get(gpu: SimulatedGpu, handle: int, value: int) -> None:
        form = "Q" if name.endswith("Pointer") else "i"
        gpu.host.pack(form, value, handle_of(gpu, handle).values.get(name, _DEFAULTS.get(name, 0)))

    return set_, get


#: The functions of settings, by their names without `cublas`.
SETTINGS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {f"{verb}{name}": one for name in _SETTINGS for verb, one in zip(("Set", "Get"), _setting(name), strict=True)}
)


def LoggerConfigure(gpu: SimulatedGpu, on: int, to_output: int, to_errors: int, file: int) -> None:
    """Where the logger writes, which says nothing."""


def SetLoggerCallback(gpu: SimulatedGpu, callback: int) -> None:
    """A function of the program that the logger would call."""
    gpu.library_handles[_LOGGER] = callback


def GetLoggerCallback(gpu: SimulatedGpu, callback: int) -> None:
    """The function that was set."""
    gpu.host.pack("Q", callback, gpu.library_handles.get(_LOGGER, 0))


def SetMatrix(
    gpu: SimulatedGpu, rows: int, columns: int, item_bytes: int, a: int, lda: int, b: int, ldb: int, stream: int = 0
) -> None:
    """Copy a matrix by columns to the device."""
    _copy(gpu, rows, columns, item_bytes, (a, lda, b, ldb), stream, _TO_DEVICE)


def GetMatrix(
    gpu: SimulatedGpu, rows: int, columns: int, item_bytes: int, a: int, lda: int, b: int, ldb: int, stream: int = 0
) -> None:
    """Copy a matrix by columns from the device."""
    _copy(gpu, rows, columns, item_bytes, (a, lda, b, ldb), stream, _TO_HOST)


def SetVector(
    gpu: SimulatedGpu, n: int, item_bytes: int, x: int, incx: int, y: int, incy: int, stream: int = 0
) -> None:
    """Copy a vector to the device."""
    _copy(gpu, 1, n, item_bytes, (x, incx, y, incy), stream, _TO_DEVICE)


def GetVector(
    gpu: SimulatedGpu, n: int, item_bytes: int, x: int, incx: int, y: int, incy: int, stream: int = 0
) -> None:
    """Copy a vector from the device."""
    _copy(gpu, 1, n, item_bytes, (x, incx, y, incy), stream, _TO_HOST)


def _copy(
    gpu: SimulatedGpu, rows: int, columns: int, item_bytes: int, places: tuple[int, ...], stream: int, kind: int
) -> None:
    """Copy a matrix by columns: from an address with a leading dimension, to another address with its own.

    Raises RefusedCall: a count is negative, elements have no bytes, or a leading dimension is less than a column.
    """
    a, lda, b, ldb = places
    rules = (
        ("number of rows", rows, 0),
        ("number of columns", columns, 0),
        ("size of elements in bytes", item_bytes, 1),
        ("leading dimension or increment", min(lda, ldb), max(1, rows)),
    )
    for subject, value, least in rules:
        if value < least:
            raise RefusedCall("INVALID_VALUE", f"the {subject} must be at least {least} (got {value})")
    width = rows * item_bytes
    runtime.cudaMemcpy2DAsync(gpu, b, ldb * item_bytes, a, lda * item_bytes, width, columns, kind, stream)


SetMatrixAsync, GetMatrixAsync, SetVectorAsync, GetVectorAsync = SetMatrix, GetMatrix, SetVector, GetVector
