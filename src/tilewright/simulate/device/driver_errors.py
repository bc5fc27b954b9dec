"""Errors of CUDA calls, by the names of their codes; and those of objects whose simulated GPU has ended."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn

from tilewright.errors import DeviceError

#: Classes of numba-cuda's driver, with the attributes that hold a device address or a handle; the first match counts.
_HELD = (
    ("OwnedPointer", ("device_ctypes_pointer", "_view.device_pointer", "_view.handle")),
    ("MemoryPointer", ("device_pointer", "handle")),
    ("Stream", ("handle",)),
    ("Event", ("handle",)),
)


def advice(subject: str) -> str:
    """What to do instead of using something after its GPU has ended.

    >>> advice("a stream").partition(":")[0]
    'a stream must be used on the simulated GPU that it was made on, until that ends or is reset'
    """
    return (
        f"{subject} must be used on the simulated GPU that it was made on, until that ends or is reset: copy results "
        "to the host (`copy_to_host`) before `with tilewright.simulated_gpu()` ends, and make new objects later"
    )


class Ended:
    """Replaces a device address or a handle; reading it is an error.

    >>> try:
    ...     int(Ended("a stream"))
    ... except DeviceError as error:
    ...     print(str(error).partition(" on ")[0])
    a stream must be used
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __index__(self) -> NoReturn:
        raise DeviceError(advice(self._subject))

    @property
    def value(self) -> NoReturn:
        """The value of a ctypes pointer."""
        raise DeviceError(advice(self._subject))


def end(owner: Any, driver: Any) -> None:
    """Remove the device address and the handle of an object of numba-cuda's module `driver`; host memory stays."""
    for name, attributes in _HELD:
        if isinstance(owner, getattr(driver, name)):
            kind = {"Stream": "a stream", "Event": "an event"}.get(name, "a device array")
            for path in attributes:
                *parts, last = path.split(".")
                with suppress(ReferenceError):  # the base of the view is gone
                    setattr(getattr(owner, parts[0]) if parts else owner, last, Ended(kind))
            return


class DriverError(Exception):
    """A driver call failed."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code  #: The name of the CUresult, such as `CUDA_ERROR_INVALID_VALUE`.


class EndedError(DriverError):
    """The object belongs to a simulated GPU that has ended, or was made before a reset."""

    def __init__(self, subject: str) -> None:
        super().__init__("CUDA_ERROR_CONTEXT_IS_DESTROYED", f"CUDA_ERROR_CONTEXT_IS_DESTROYED: {advice(subject)}")
