"""Error codes of CUDA, by name: the driver's, and those that only the runtime has.

Source: CUDA Runtime API, `cudaError_t` (driver_types.h); CUDA Driver API, `CUresult`.
"""

from __future__ import annotations

import functools

from tilewright.drivers.gpu import DriverError

#: Codes that only the runtime has.
_RUNTIME = {
    "cudaErrorInvalidConfiguration": 9, "cudaErrorInvalidPitchValue": 12, "cudaErrorInvalidSymbol": 13,
    "cudaErrorInvalidHostPointer": 16, "cudaErrorInvalidMemcpyDirection": 21, "cudaErrorInvalidDeviceFunction": 98,
    "cudaErrorInvalidTexture": 18, "cudaErrorInvalidChannelDescriptor": 20, "cudaErrorInvalidFilterSetting": 26,
    "cudaErrorSetOnActiveProcess": 708,
}  # fmt: skip
#: Errors after which a context answers nothing more.
STICKY = frozenset(
    "CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_ASSERT CUDA_ERROR_LAUNCH_TIMEOUT CUDA_ERROR_LAUNCH_FAILED "
    "CUDA_ERROR_ILLEGAL_INSTRUCTION CUDA_ERROR_MISALIGNED_ADDRESS".split()
)


class LaunchFailedError(DriverError):
    """A kernel went wrong, or cannot run: with the machine's own words."""


@functools.cache
def number(code: str) -> int:
    """The number of a code."""
    from cuda.bindings import driver

    return _RUNTIME[code] if code in _RUNTIME else int(driver.CUresult.__members__[code])
