"""Errors of CUDA calls, by the names of their codes."""

from __future__ import annotations

from tilewright.simulate.device.use_after_close import advice


class DriverError(Exception):
    """A driver call failed."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code  #: The name of the CUresult, such as `CUDA_ERROR_INVALID_VALUE`.


class EndedError(DriverError):
    """The object belongs to a simulated GPU that has ended, or was made before a reset."""

    def __init__(self, subject: str) -> None:
        super().__init__("CUDA_ERROR_CONTEXT_IS_DESTROYED", f"CUDA_ERROR_CONTEXT_IS_DESTROYED: {advice(subject)}")
