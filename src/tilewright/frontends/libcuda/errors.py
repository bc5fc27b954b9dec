"""Errors for C code: it gets an error number, and requests the text by the number."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.ground.native.memo import memo
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import DriverError

#: Texts of errors that differ from their names. Source: the strings that `cuGetErrorString` gives.
_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "SUCCESS": "no error", "INVALID_VALUE": "invalid argument", "NO_DEVICE": "no CUDA-capable device is detected",
        "NOT_INITIALIZED": "initialization error", "INVALID_DEVICE": "invalid device ordinal",
        "INVALID_IMAGE": "device kernel image is invalid", "INVALID_CONTEXT": "invalid device context",
        "NO_BINARY_FOR_GPU": "no kernel image is available for execution on the device",
        "INVALID_PTX": "a PTX JIT compilation failed", "INVALID_HANDLE": "invalid resource handle",
        "NOT_FOUND": "named symbol not found", "NOT_READY": "device not ready",
        "ILLEGAL_ADDRESS": "an illegal memory access was encountered", "ASSERT": "device-side assert triggered",
        "LAUNCH_TIMEOUT": "the launch timed out and was terminated", "LAUNCH_FAILED": "unspecified launch failure",
        "COOPERATIVE_LAUNCH_TOO_LARGE": "too many blocks in cooperative launch",
        "NOT_SUPPORTED": "operation not supported", "UNKNOWN": "unknown error",
    }
)  # fmt: skip
_MOST_TEXTS = 1000
#: Codes that only the runtime has. Source: CUDA Runtime API, `cudaError_t` (driver_types.h).
_RUNTIME: Mapping[str, int] = MappingProxyType(
    {
        "cudaErrorInvalidConfiguration": 9, "cudaErrorInvalidPitchValue": 12, "cudaErrorInvalidSymbol": 13,
        "cudaErrorInvalidTexture": 18, "cudaErrorInvalidChannelDescriptor": 20, "cudaErrorInvalidMemcpyDirection": 21,
        "cudaErrorInvalidFilterSetting": 26, "cudaErrorInvalidDeviceFunction": 98,
    }
)  # fmt: skip


class Errors:
    """The last error of each thread, with its message."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._kept: dict[str, Any] = {}

    def note(self, name: str, message: str) -> None:
        """Store an error."""
        self._thread.last = name, message

    def last(self, number: int) -> str:
        """The last message of this thread, if its error has this number; else ""."""
        name, message = getattr(self._thread, "last", ("", ""))
        return message if name and message != name and code_of(name) == number else ""

    def text(self, name: str) -> int:
        """The address of an error's text: the meaning of its name, and the last message if it is of this error."""
        means = meaning(name)
        message = self.last(code_of(name))
        return self.kept(f"{means}: {message}" if message else means)

    def kept(self, text: str) -> int:
        """The address of a copy of a text, which lives as long as the caller may read it."""
        if len(self._kept) > _MOST_TEXTS:
            self._kept.clear()
        return ctypes.addressof(self._kept.setdefault(text, ctypes.create_string_buffer(text.encode())))


def meaning(name: str) -> str:
    """An error's text.

    >>> meaning("CUDA_ERROR_MISALIGNED_ADDRESS")
    'misaligned address'
    """
    plain = name.removeprefix("CUDA_").removeprefix("ERROR_")
    return _TEXTS.get(plain, plain.replace("_", " ").lower())


@memo
def errors() -> Errors:
    """The errors of this process."""
    return Errors()


@functools.cache
def code_of(name: str) -> int:
    """The number of an error of the driver or the runtime."""
    return _RUNTIME[name] if name in _RUNTIME else int(binding().CUresult.__members__[name])


def name_of(number: int) -> str:
    """The name of a driver's error.

    Raises DriverError: no error has this number.
    """
    for name, value in binding().CUresult.__members__.items():
        if int(value) == number:
            return str(name)
    raise DriverError("CUDA_ERROR_INVALID_VALUE")
