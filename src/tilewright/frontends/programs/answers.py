"""All calls that the simulated GPU implements, and how their results and errors reach the program."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.frontends.libcuda import errors
from tilewright.frontends.programs.calls import devices, graphs, launches, memory, shared, streams, textures
from tilewright.frontends.programs.headers import Function
from tilewright.frontends.programs.protocol import Caller, EndedConnection
from tilewright.ground.settings import debugging
from tilewright.simulate.device.contexts import PRIMARY
from tilewright.simulate.device.gpu import DriverError
from tilewright.simulate.device.launching import code_of
from tilewright.simulate.device.pending_work import LEGACY

#: Driver call -> the runtime call with the same parameters.
_SAME: Mapping[str, Callable[..., int | None]] = MappingProxyType(
    {
        "cuMemFree": memory.cudaFree, "cuMemFreeHost": memory.cudaFreeHost, "cuMemFreeAsync": memory.cudaFreeAsync,
        "cuMemAllocAsync": memory.cudaMallocAsync, "cuMemAllocFromPoolAsync": memory.cudaMallocFromPoolAsync,
        "cuStreamWaitEvent": streams.cudaStreamWaitEvent, "cuStreamIsCapturing": graphs.cudaStreamIsCapturing,
        "cuEventDestroy": streams.cudaEventDestroy, "cuEventRecord": streams.cudaEventRecord,
        "cuEventRecordWithFlags": streams.cudaEventRecordWithFlags,
        "cuStreamBeginCapture": graphs.cudaStreamBeginCapture, "cuStreamEndCapture": graphs.cudaStreamEndCapture,
        "cuGraphInstantiateWithFlags": graphs.cudaGraphInstantiate, "cuGraphUpload": graphs.cudaGraphUpload,
        "cuGraphLaunch": graphs.cudaGraphLaunch, "cuGraphDestroy": graphs.cudaGraphDestroy,
        "cuGraphExecDestroy": graphs.cudaGraphDestroy,
    }
)  # fmt: skip
#: Calls that have an `Async` variant with a stream as the last parameter; with their names in graphs.
_WORK: Mapping[str, str] = MappingProxyType(
    {
        "cudaMemcpyToSymbol": "copy", "cudaMemcpyFromSymbol": "copy", "cudaMemcpyToArray": "copy",
        "cudaMemcpyFromArray": "copy", "cudaMemcpy2DToArray": "copy", "cudaMemcpy2DFromArray": "copy",
        "cudaMemset2D": "set",
    }
)  # fmt: skip


def _in_stream(call: Callable[..., Any], kind: str) -> Callable[..., None]:
    """The same call as work of a stream, which is the last parameter."""

    def answer(caller: Caller, *words: Any) -> None:
        *given, stream = words
        caller.do(stream, lambda now: call(now, *given), kind)

    return answer


#: Calls that only a program makes.
_OWN: Mapping[str, Callable[..., int | None]] = MappingProxyType(
    {
        name: function
        for subject in (devices, graphs, launches, memory, streams, textures)
        for name, function in vars(subject).items()
        if name.removeprefix("__").startswith("cu") and getattr(function, "__module__", "") == subject.__name__
    }
    | dict(_SAME)
)
#: Every implemented function, by name.
CALLS: Mapping[str, Callable[..., int | None]] = MappingProxyType(
    {**shared.ANSWERED, **_OWN, **{f"{name}Async": _in_stream(_OWN[name], kind) for name, kind in _WORK.items()}}
)
#: Errors that only the runtime has -> the driver's; all others mean an invalid value.
_DRIVERS: Mapping[str, str] = MappingProxyType({"cudaErrorInvalidDeviceFunction": "CUDA_ERROR_INVALID_HANDLE"})
#: Calls that also work in a broken context.
_ALWAYS = frozenset("cudaGetLastError cudaPeekAtLastError cudaDeviceReset".split())
_RESULTS = ("cudaError_t", "CUresult")
#: Name prefixes of calls that order the work of streams before and after them, unless the name ends with `Async`:
#: allocations wait for all streams; copies and fills use the default stream, and the host waits for most copies.
#: Source: CUDA C++ Programming Guide, "Implicit Synchronization"; CUDA Runtime API, "API synchronization behavior".
_WAIT_FOR_ALL = ("cudaMalloc", "cudaFree", "cudaHost", "cuMemAlloc", "cuMemFree", "cuMemHost")
_OF_DEFAULT_STREAM = ("cudaMemcpy", "cuMemcpy", "cudaMemset", "cuMemset")


def _in_order(caller: Caller, name: str) -> None:
    """Apply the ordering that a call implies."""
    if name.endswith("Async") or not caller.gpu.outstanding.pending:
        return
    if name.startswith(_WAIT_FOR_ALL):
        caller.gpu.outstanding.all_done()
    elif name.startswith(_OF_DEFAULT_STREAM):
        caller.gpu.outstanding.queued(LEGACY)
        if "emcpy" in name:
            caller.gpu.outstanding.synchronised(LEGACY)


class Answers:
    """Runs calls by the function numbers of the library."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions

    def __call__(self, caller: Caller, number: int, words: bytes) -> int:
        """The result of a call."""
        try:
            function = self._functions[number]
            given = function.arguments(words)
        except (IndexError, struct.error):
            raise EndedConnection(f"call {number:,} with {len(words):,} bytes, which is none") from None
        gpu = caller.gpu
        with gpu.call():
            outer, gpu.host = gpu.host, caller
            if not gpu.contexts:
                gpu.contexts.append(PRIMARY)
            try:
                return self._result(caller, function, given)
            finally:
                gpu.host = outer

    def _result(self, caller: Caller, function: Function, given: Sequence[Any]) -> int:
        """The value that a call returns: an error, except for the compiler's own calls.

        Whatever else an implementation raises comes of values that the program passed, and no call has.
        """
        runtime, name = caller.runtime, function.name
        has_error = function.returns in _RESULTS
        if has_error and caller.gpu.broken and name not in _ALWAYS:
            return self._kept(caller, name, errors.code_of(caller.gpu.broken))
        try:
            if has_error:
                _in_order(caller, name)
            return CALLS[name](caller, *given) or 0
        except EndedConnection:
            raise
        except Exception as error:
            failed = _as_driver_error(name, error)
            runtime.failed(failed)
            return self._kept(caller, name, errors.code_of(_own(name, failed.code))) if has_error else 0

    def _kept(self, caller: Caller, name: str, code: int) -> int:
        """Store an error of a runtime call for `cudaGetLastError`."""
        if name.startswith("cuda") and code != errors.code_of("CUDA_ERROR_NOT_READY"):
            caller.last_error = code
        return code


def _as_driver_error(name: str, error: Exception) -> DriverError:
    if isinstance(error, DriverError):
        return error
    if isinstance(error, TilewrightError):
        return DriverError(code_of(error), str(error))
    if debugging():
        raise error
    return DriverError("CUDA_ERROR_INVALID_VALUE", f"{name}: {type(error).__name__}: {error}")


def _own(name: str, code: str) -> str:
    """The name of an error in the API of the called function."""
    if name.startswith("cuda") or not code.startswith("cuda"):
        return code
    return _DRIVERS.get(code, "CUDA_ERROR_INVALID_VALUE")
